"""The copies of `make lab`: nothing in them needs the built book, and no reader loses a change."""

import re
from pathlib import Path

import nbformat
import pytest

from tools import lab

BOOK = Path(__file__).parents[1] / "book"


def markdown(path: Path) -> str:
    if path.suffix == ".md":
        return path.read_text(encoding="utf-8")
    cells = nbformat.read(path, as_version=4).cells
    return "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


@pytest.fixture(scope="module")
def copies(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lab")
    assert lab.copy(BOOK, folder) == []
    return folder


def test_every_link_of_a_copy_leads_to_a_copy_or_another_host_and_no_role_is_left(copies):
    pages = [*copies.glob("*.ipynb"), *copies.glob("*.md")]
    assert {path.name for path in BOOK.glob("*.ipynb")} <= {path.name for path in pages}
    for path in pages:
        text = markdown(path)
        targets = re.findall(r"\[[^\[\]]+\]\((?!https?://)([^)#]+)[^)]*\)", text)
        assert [t for t in targets if not (copies / t).is_file()] == [], path.name
        # Of the roles that only the built book resolves, one stays: a formula of the same page.
        roles = re.findall(r"\{([\w:]+)\}`([^`]+)`", text)
        assert {role for role, _ in roles} <= {"eq"}, path.name
        assert [label for _, label in roles if f"({label})" not in text] == [], path.name


def test_references_read_as_they_do_in_the_book():
    plain = lab.Plain(BOOK)
    for text, wanted in {
        "{doc}`Chapter 3 <03_masking>`": "[Chapter 3](03_masking.ipynb)",
        "{doc}`notation`": "[notation](notation.md)",
        "{doc}`api/kernels`": "`attn_notes.kernels`",
        "{term}`kernel <kernel (\u6838\u51fd\u6570)>`": "[kernel](glossary.md)",
        "{cite:t}`vaswani2017`": "[Vaswani et al. (2017)](https://arxiv.org/abs/1706.03762)",
        "{cite}`bartlett1963`": "(Bartlett, 1963)",
        "{eq}`eq-kr-mean`": "[(chapter 1)](01_kernel_regression.ipynb)",
        "{ref}`an exercise <ex-kr-shape>`": "[an exercise](01_kernel_regression.ipynb)",
        "[rows](masking-empty-row)": "[rows](03_masking.ipynb)",
        "See the [API pages](api/index.md).": "See the API pages.",
        "code in `x`, a set {a}, $x_{i}$": "code in `x`, a set {a}, $x_{i}$",
    }.items():
        assert plain(text, "02_score_functions.ipynb") == wanted
    assert plain("{eq}`eq-kr-mean`", "01_kernel_regression.ipynb") == "{eq}`eq-kr-mean`"


def test_code_and_outputs_are_those_of_the_book(copies):
    for path in BOOK.glob("*.ipynb"):
        read = (nbformat.read(folder / path.name, as_version=4) for folder in (BOOK, copies))
        ours, theirs = ([c for c in one.cells if c.cell_type == "code"] for one in read)
        assert ours == theirs


def test_a_copy_follows_the_book_until_its_reader_changes_it(copies):
    changed, other = copies / "01_kernel_regression.ipynb", copies / "02_score_functions.ipynb"
    changed.write_text(before := changed.read_text("utf-8") + " ", encoding="utf-8")
    other.write_text("an older edition", encoding="utf-8")
    lab.os.utime(other, (lab.UNTOUCHED, lab.UNTOUCHED))
    assert lab.copy(BOOK, copies) == [changed.name]
    assert changed.read_text("utf-8") == before
    assert len(nbformat.read(other, as_version=4).cells) > 10
