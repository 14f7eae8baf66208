"""The book for offline reading: its zip, opened from a disk."""

import zipfile

from tests.browser.conftest import NO_EXCERPTS, SITE, THEME_LOGS
from tools import release


def test_the_zip_reads_from_a_disk_with_widgets_formulas_and_search(visit, book, tmp_path):
    visit.expected = (THEME_LOGS, *NO_EXCERPTS)
    site = tmp_path / "the notes, ä"
    release.write_zip(SITE, tmp_path / "notes-1.zip")
    with zipfile.ZipFile(tmp_path / "notes-1.zip") as archive:
        archive.extractall(site)
    home = site / "notes-1"
    page = visit((home / "index.html").as_uri(), leads_on=True)
    page.wait_for_url("**/book/index.html")
    page.goto((home / "book" / "03_masking.html").as_uri())
    page.locator(".attn-root").first.wait_for()
    page.locator("p .math").first.scroll_into_view_if_needed()
    page.locator("mjx-container").first.wait_for(state="attached")
    page.goto((home / "search.html").as_uri() + "?q=softmax")
    page.locator("#search-results li a").first.wait_for()
    assert {url for url in visit.requests if not url.startswith(home.as_uri())} == set()
