"""The repository's promises: one palette, no other host, no page and no work left out."""

import pkgutil
import re
from pathlib import Path

import pytest

from attn_notes import palette
from tests.colours import DARK, LIGHT, contrast, css_variables

ROOT = Path(__file__).resolve().parents[1]
BOOK = ROOT / "book"

# ---- One palette -----------------------------------------------------------------------------


def test_style_sheet_and_package_share_one_palette():
    expected = {f"category-{i}": colour for i, colour in enumerate(palette.CATEGORICAL, 1)}
    expected |= {"negative": palette.NEGATIVE, "positive": palette.POSITIVE}
    assert expected.items() <= css_variables(":root").items()


@pytest.mark.parametrize("page", [LIGHT, DARK], ids=["light", "dark"])
def test_colours_can_be_read_on_both_pages(page):
    paper = page["paper"]
    for name in ("ink", "muted", "accent"):
        assert contrast(page[name], paper) >= 4.5, name
        assert contrast(page[name], page["surface"]) >= 4.5, name
    # A page draws text and axes in its own muted ink; alone, as on GitHub, a figure is on white.
    assert contrast(palette.FIGURE_INK, LIGHT["paper"]) >= 4.5
    for colour in (*palette.CATEGORICAL, palette.NEGATIVE, palette.POSITIVE):
        assert contrast(colour, paper) >= 3, colour


# ---- The book's sources ----------------------------------------------------------------------


def test_no_page_asset_names_another_host():
    address = r"(?:https?:)?//(?!www\.w3\.org/)[a-z0-9.-]+\.[a-z]{2,}[^\s\"')]*"
    files = [path for folder in ("attn_widgets", "book") for path in (ROOT / folder).rglob("*")]
    assets = [path for path in files if path.suffix in {".css", ".html", ".js", ".mjs", ".svg"}]
    assert len(assets) > 30
    assert [path for path in assets if re.search(address, path.read_text("utf-8"))] == []


def test_the_contents_name_every_page_and_no_other():
    toc = (ROOT / "_toc.yml").read_text(encoding="utf-8")
    files = [*BOOK.glob("*.md"), *BOOK.glob("api/*.md"), *BOOK.glob("*.ipynb")]
    pages = {path.relative_to(ROOT).with_suffix("").as_posix() for path in files}
    assert set(re.findall(r"(?:file|root): (\S+)", toc)) == pages, "edit _toc.yml"


def test_every_module_has_a_page():
    modules = {module.name for module in pkgutil.iter_modules([ROOT / "attn_notes"])}
    pages = "".join(path.read_text(encoding="utf-8") for path in BOOK.glob("api/*.md"))
    named = set(re.findall(r"automodule:: attn_notes\.(\w+)\n", pages))
    # These stand on the page of attn_notes itself.
    missing = modules - named - {"device", "extras", "modes", "source", "special_tokens"}
    assert not missing, f"write book/api/NAME.md, and a row in book/api/index.md, for {missing}"


def test_every_citation_exists_and_every_work_is_cited():
    keys = set(re.findall(r"@\w+\{(\w+),", (BOOK / "references.bib").read_text(encoding="utf-8")))
    files = [*BOOK.glob("*.ipynb"), *BOOK.glob("*.md")]
    pages = "".join(path.read_text(encoding="utf-8") for path in files)
    cited = ",".join(re.findall(r"\{cite(?::\w+)?\}`([^`]+)`", pages))
    assert {key.strip() for key in cited.split(",")} == keys, "edit book/references.bib"
