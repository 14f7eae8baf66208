"""The repository's promises: exact pins, licences, one palette, no other host."""

import importlib.metadata
import pkgutil
import re
import tomllib
from pathlib import Path

import attn_book
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from attn_notes import palette
from tests.colours import DARK, LIGHT, contrast, css_variables
from tools import environment

ROOT = Path(__file__).resolve().parents[1]
BOOK = ROOT / "book"
COMMITTED = sorted(BOOK.glob("*.ipynb"))

# ---- Requirements ----------------------------------------------------------------------------


def pins() -> dict[str, str]:
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    stated = [line.split("#")[0].strip() for line in lines]
    return dict(line.split("==") for line in stated if line)


def test_every_requirement_is_an_exact_version_and_each_direct_one_says_why():
    text = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        assert re.fullmatch(r"([\w.-]+==[\w.]+)? *(#.*)?", line), line
    direct = [line for line in text.split("# What those need")[0].splitlines() if "==" in line]
    assert direct
    assert not [line for line in direct if "#" not in line]


def test_the_pins_are_closed_and_satisfy_the_package_whose_one_hard_dependency_is_torch():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert [Requirement(line).name for line in project["dependencies"]] == ["torch"]
    extras = project["optional-dependencies"].values()
    asked = [*project["dependencies"], *(line for extra in extras for line in extra)]
    pinned = {canonicalize_name(name): version for name, version in pins().items()}
    of_its_own = dict([environment.TRITON.split("==")])  # in .venv-triton alone
    for requirement in map(Requirement, asked):
        if requirement.name != "attn-notes":
            version = (pinned | of_its_own)[canonicalize_name(requirement.name)]
            assert requirement.specifier.contains(version), requirement
    for name in pinned:
        for stated in importlib.metadata.requires(name) or []:
            needed = Requirement(stated)
            if name != "torch" and (not needed.marker or needed.marker.evaluate({"extra": ""})):
                assert canonicalize_name(needed.name) in pinned, f"{name} needs {needed}"


@pytest.mark.parametrize("python", ["3.11.0", "3.12.0", "3.13.0", "3.14.0"])
def test_every_pin_can_be_installed_with_the_first_release_of_each_python(python):
    said = {name: importlib.metadata.metadata(name).get("Requires-Python", "") for name in pins()}
    assert {n: spec for n, spec in said.items() if not SpecifierSet(spec).contains(python)} == {}


FREE = re.compile(r"MIT|BSD|Apache|ISC|PSF|Python Software|MPL|Mozilla|Lesser General|HPND")
IN_ITS_FILES = {"axe-playwright-python": "MIT"}  # states nothing in its metadata


def licence(name: str) -> str:
    """What a package says of its licence, in the newest of the three places for it."""
    said = importlib.metadata.metadata(name)
    listed = [line for line in said.get_all("Classifier", []) if line.startswith("License ::")]
    stated = said.get("License-Expression") or " / ".join(listed) or said.get("License")
    return stated or IN_ITS_FILES.get(name, "")


def test_every_pinned_package_may_be_used_and_passed_on_freely():
    assert {name: licence(name) for name in pins() if not FREE.search(licence(name))} == {}


# ---- One palette -----------------------------------------------------------------------------


def brightened(colour: str, by: float) -> str:
    """A colour under CSS's `brightness`."""
    channels = (int(colour[n : n + 2], 16) for n in (1, 3, 5))
    return "#" + "".join(f"{min(255, round(channel * by)):02x}" for channel in channels)


def figures_brighter() -> float:
    """How much brighter than its pixels the dark page shows a figure."""
    css = (ROOT / "book/_static/book.css").read_text(encoding="utf-8")
    rule = r'\[data-theme="dark"\].* img\S* \{ filter: brightness\(([\d.]+)\)'
    return float(re.search(rule, css)[1])


def test_style_sheet_and_package_share_one_palette():
    expected = {f"category-{i}": colour for i, colour in enumerate(palette.CATEGORICAL, 1)}
    expected |= {"negative": palette.NEGATIVE, "positive": palette.POSITIVE}
    expected |= {"figure-ink": palette.FIGURE_INK}
    assert expected.items() <= css_variables(":root").items()


@pytest.mark.parametrize("page", [LIGHT, DARK], ids=["light", "dark"])
def test_colours_can_be_read_on_both_pages(page):
    paper = page["paper"]
    for name in ("ink", "muted", "accent"):
        assert contrast(page[name], paper) >= 4.5, name
        assert contrast(page[name], page["surface"]) >= 4.5, name
    # On the dark page figures are drawn brighter; only text and axes are read at 4.5.
    brighter = figures_brighter() if paper == DARK["paper"] else 1
    assert contrast(brightened(palette.FIGURE_INK, brighter), paper) >= 4.5
    for colour in (*palette.CATEGORICAL, palette.NEGATIVE, palette.POSITIVE):
        assert contrast(colour, paper) >= 3, colour


# ---- The book's sources ----------------------------------------------------------------------


def test_no_page_asset_names_another_host():
    address = r"(?:https?:)?//(?!www\.w3\.org/)[a-z0-9.-]+\.[a-z]{2,}[^\s\"')]*"
    files = [path for folder in ("attn_notes", "book") for path in (ROOT / folder).rglob("*")]
    assets = [path for path in files if path.suffix in {".css", ".html", ".js", ".mjs", ".svg"}]
    assert len(assets) > 30
    assert [path for path in assets if re.search(address, path.read_text("utf-8"))] == []


def test_the_contents_name_every_page_and_no_other():
    toc = (ROOT / "_toc.yml").read_text(encoding="utf-8")
    files = [*BOOK.glob("*.md"), *BOOK.glob("api/*.md"), *COMMITTED]
    pages = [path.relative_to(ROOT).with_suffix("").as_posix() for path in files]
    assert sorted(re.findall(r"(?:file|root): (\S+)", toc)) == sorted(pages)


def test_every_module_has_a_page_of_its_own_and_a_row_in_the_overview():
    modules = {module.name for module in pkgutil.iter_modules([ROOT / "attn_notes"])}
    overview = (BOOK / "api" / "index.md").read_text(encoding="utf-8")
    # The first two stand on the page of attn_notes itself.
    for module in modules - {"device", "source", "__main__"}:
        page = (BOOK / "api" / f"{module}.md").read_text(encoding="utf-8")
        assert f"automodule:: attn_notes.{module}\n" in page
        assert f"<{module}>`" in overview


# ---- Publishing ------------------------------------------------------------------------------


def test_the_book_is_built_from_stored_outputs_and_from_listed_pages_only():
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    assert config["execute"] == {"execute_notebooks": "off"}
    assert config["only_build_toc_files"] is True
    assert config["exclude_patterns"] == [".*"], "or .venv is read as part of the book"
    extensions = config["sphinx"]["config"]["extensions"]
    assert not {"sphinx_thebe", "sphinx.ext.intersphinx"} & set(extensions)
    assert not str(config["sphinx"]["config"]["mathjax_path"]).startswith("http")


def test_code_and_text_are_licensed_apart():
    assert (ROOT / "LICENSE").read_text(encoding="utf-8").startswith("MIT License")
    text = (ROOT / "LICENSE-TEXT").read_text(encoding="utf-8")
    assert "https://creativecommons.org/licenses/by/4.0/legalcode" in text
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["license"] == "MIT"
    assert citation["version"] == importlib.metadata.version("attn-notes")


def test_every_citation_exists_and_every_work_is_cited():
    keys = set(re.findall(r"@\w+\{(\w+),", (BOOK / "references.bib").read_text(encoding="utf-8")))
    pages = "".join(path.read_text(encoding="utf-8") for path in [*COMMITTED, *BOOK.glob("*.md")])
    cited = ",".join(re.findall(r"\{cite(?::\w+)?\}`([^`]+)`", pages))
    assert {key.strip() for key in cited.split(",")} == keys


def test_a_changed_extension_makes_every_page_stale(tmp_path, monkeypatch):
    monkeypatch.setattr(attn_book, "HERE", tmp_path)
    before = attn_book.checksum_of_extensions()
    assert before == attn_book.checksum_of_extensions()
    (tmp_path / "one.py").write_text("1", encoding="utf-8")
    assert before != attn_book.checksum_of_extensions()
