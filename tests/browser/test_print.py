"""The book as one file: printed with its bookmarks, links and formulas, and zipped for a disk."""

import re
import zipfile
from concurrent.futures import ThreadPoolExecutor

import pypdf
import pytest

from tests.browser.conftest import NO_EXCERPTS, THEME_LOGS
from tests.browser.test_pages import TEX
from tools import pdf, release

pytestmark = pytest.mark.xdist_group("print")  # the part is printed once
CHAPTERS = ["book/02_score_functions", "book/03_masking"]
TEXT = 17 * pdf.SCALE * 0.75  # points: Chromium prints all smaller where anything is too wide


@pytest.fixture(scope="module")
def printed(book, tmp_path_factory):
    """A chapter that links to pages before and behind it, with two of them."""
    chosen = [one for one in pdf.pages() if re.search("02_|03_|notation", one[0])]
    assert [name for name, _, _ in chosen] == [*CHAPTERS, "book/notation"]
    target = tmp_path_factory.mktemp("print") / "part.pdf"
    with ThreadPoolExecutor(1) as aside:  # this thread may drive a browser already
        count = aside.submit(pdf.write, target, chosen).result()
    reader = pypdf.PdfReader(target)
    assert count == len(reader.pages) > 30
    return reader


def bookmarks(entries, level=1):
    for entry in entries:
        if isinstance(entry, list):
            yield from bookmarks(entry, level + 1)
        else:
            yield level, entry


def test_the_printed_pages_are_all_that_the_site_s_contents_name(book):
    named = pdf.pages()
    assert len({name for name, _, _ in named}) == len(named) > 40
    parts = [part for _, _, part in named if part]
    assert parts == ["From regression to attention", "Beyond the notebook", "Back matter"]
    assert {level for name, level, _ in named if "/api/" in name} == {2, 3}


def test_chapters_and_sections_are_bookmarks_whose_titles_are_text(printed):
    titles = [(level, entry.title) for level, entry in bookmarks(printed.outline)]
    assert titles[0] == (1, "Contents")
    assert (1, "Back matter") in titles
    sections = {(3, "2.7. Why divide by √d?"), (3, "3.4. Which number can stand for -∞?")}
    assert sections | {(2, "2. Score functions"), (2, "Notation")} <= set(titles)
    assert not [title for _, title in titles if "\\" in title or "#" in title]


def test_every_link_leads_into_the_book_or_to_another_host(printed):
    places = printed.named_destinations
    inside = 0
    for page in printed.pages:
        for note in page.get("/Annots", ()):
            link = note.get_object()
            if "/Dest" in link:
                assert link["/Dest"] in places
                inside += 1
            else:
                assert link["/A"]["/URI"].startswith(("https://", "http://", "mailto:"))
    assert inside > 50
    equation = [name for name in places if "03_masking:equation-" in name]
    assert len(equation) > 2


def test_the_contents_say_on_which_page_a_section_begins(printed):
    text = "".join(page.extract_text() for page in printed.pages[1:3])
    numbers = {
        entry.title: 1 + printed.get_destination_page_number(entry)
        for _, entry in bookmarks(printed.outline)
    }
    listed = {title: re.search(rf"{re.escape(title)}\s*(\d+)\n", text) for title in numbers}
    said = {title: int(found[1]) for title, found in listed.items() if found}
    assert len(said) > 15
    assert said == {title: numbers[title] for title in said}


def test_no_formula_is_printed_as_it_is_typed_and_nothing_is_shrunk(printed):
    sizes = {}

    def measure(text, matrix, text_matrix, font, size):
        points = round(abs(size * matrix[0] * text_matrix[0]), 2)
        sizes[points] = sizes.get(points, 0) + len(text.strip())

    for page in printed.pages:
        assert not TEX.search(page.extract_text(visitor_text=measure))
    assert max(sizes, key=sizes.get) == pytest.approx(TEXT, abs=0.02)


def test_stills_stand_in_the_place_of_widgets(printed):
    resources = (page["/Resources"].get("/XObject", {}) for page in printed.pages)
    kinds = [one.get_object()["/Subtype"] for shown in resources for one in shown.values()]
    stills = sum(len(pdf.article(name).select("img")) for name in CHAPTERS)
    assert kinds.count("/Image") >= stills > 10
    assert not pdf.article("book/03_masking").select("attn-widget")


def test_the_zip_reads_from_a_disk_with_widgets_formulas_and_search(visit, book, tmp_path):
    visit.expected = (THEME_LOGS, *NO_EXCERPTS)
    site = tmp_path / "the notes, ä"
    release.write_zip(pdf.BUILD / "html", tmp_path / "notes-1.zip")
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
