"""Every notebook keeps every rule, and its symbols are explained."""

import json
import re
from pathlib import Path

import pytest

from tools import notebook_rules as rules
from tools import notebooks

BOOK = Path(__file__).parents[1] / "book"
NOTEBOOKS = sorted(BOOK.glob("*.ipynb"))
CHAPTERS = [path for path in NOTEBOOKS if path.stem[:2].isdigit()]
EVERY_CHAPTER = pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_clean_and_keeps_the_rules(path, capsys):
    assert notebooks.main([str(path), "--check"]) == 0, capsys.readouterr().out


def cell(name, source, *, output="", tags=(), **metadata):
    shown = [{"output_type": "stream", "name": "stdout", "text": output}] if output else []
    one = {"cell_type": "code", "id": name, "source": source, "execution_count": 1}
    return one | {"metadata": {"tags": [*tags], **metadata}, "outputs": shown}


def test_a_broken_rule_is_named_with_its_notebook_and_cell(tmp_path, capsys):
    chosen = "import torch\ntorch.set_default_device(get_device())"
    cells = [
        cell("first", "from attn_notes import get_device\n" + chosen),
        cell("folded", "width = 3", tags=["hide-input"]),
        cell("drawn", "_, ax = plt.subplots()\nshown = 1"),
        cell("needs", "def area(height):\n    return width * height\nprint(area(2), shown)"),
        cell("moved", "x = torch.ones(3, device='cpu').to(device)\nx.cuda()"),
        cell("band", "print(x)", output="0.50 ± 0.01, True\n"),
        cell("held", "print(area)", output="none\n", tolerance=0.1),
        cell("odd", "print(area)", output="1\n", tolerance="much"),
        cell("fine", "[y for y in x if area(y)]", output="1\n", tolerance="10%"),
        cell("late", "print(area)") | {"execution_count": None},
    ]
    whole = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}
    (tmp_path / "21_page.ipynb").write_text(json.dumps(whole), encoding="utf-8")
    assert notebooks.main([str(tmp_path / "21_page.ipynb"), "--check"]) == 1
    said = capsys.readouterr().out
    for found in (
        "21_page.ipynb: every_cell_is_executed: late: not executed",
        "needs: no shown cell above it binds shown, width",
        "moved: line 1 names a device",
        "moved: line 2 names a device",
        "band: prints True or False",
        "band: ± (a tolerance stands in the metadata)",
        "held: a tolerance, and no number",
        "odd: tolerance 'much'",
    ):
        assert found in said
    assert "first:" not in said
    assert "fine:" not in said


@pytest.mark.slow
def test_an_output_that_needs_triton_is_kept_where_triton_is_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(notebooks, "runs_triton", lambda: False)
    monkeypatch.setattr(notebooks.launch, "repository", lambda: "")  # else another cell comes
    shown = {"data": {"text/plain": "9"}, "metadata": {}, "execution_count": 7}
    cells = [
        {"cell_type": "code", "id": f"c{n}", "source": "1", "metadata": {"tags": tags}}
        | {"execution_count": 7, "outputs": [{"output_type": "execute_result", **shown}]}
        for n, tags in enumerate(([], ["needs-triton"], []))
    ]
    path = tmp_path / "tiny.ipynb"
    whole = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}
    path.write_text(json.dumps(whole), encoding="utf-8")
    assert notebooks.execute(path) == ""
    found = [cell["outputs"][0] for cell in notebooks.read(path)["cells"]]
    assert [output["data"]["text/plain"] for output in found] == ["1", "9", "1"]
    assert [output["execution_count"] for output in found] == [1, 1, 1]


# Every symbol in a displayed formula of a chapter stands on the page of notation

PAGE = (BOOK / "notation.md").read_text(encoding="utf-8")
GREEK = """alpha beta gamma delta epsilon varepsilon zeta eta theta kappa lambda mu nu xi pi rho
    sigma tau phi varphi chi psi omega ell Gamma Delta Theta Lambda Sigma Phi Psi Omega"""
# The names of functions, words within a formula, and upright letters: the d of a differential.
WORDS = re.compile(r"\\(?:text|operatorname\*?|mathrm|begin|end)\s*(?:\{[^{}]*\}|[a-z])")
FONTS = "mathbf|boldsymbol|mathcal|mathbb|hat|bar|tilde"
SYMBOL = re.compile(rf"((?:\\(?:{FONTS})\s*\{{?\s*)*)(?:\\([a-zA-Z]+)|([A-Za-z]))")
FORMULA = re.compile(r"\$\$((?:(?!\$\$).)+)\$\$", re.DOTALL)
FOLDED = re.compile(r"^(`{3,}|:{3,}).*?^\1\s*$", re.MULTILINE | re.DOTALL)


def symbols(tex: str) -> set[str]:
    """The letters of a formula, each with its font and its accent: "x", "bold x", "hat bold x"."""
    found = set()
    for fonts, command, letter in SYMBOL.findall(WORDS.sub(" ", tex)):
        if letter or command in GREEK.split():
            marks = re.sub("mathbf|boldsymbol", "bold", " ".join(re.findall(r"[a-z]+", fonts)))
            found.add(f"{marks} {letter or command}".strip())
    return found


def defined() -> set[str]:
    """What the tables name: in their first columns, and as the sizes of axes."""
    first = re.findall(r"^\|([^|]+)\|", PAGE, re.MULTILINE)
    formulas = re.findall(r"\$([^$]+)\$", "\n".join(first))
    named = set().union(*map(symbols, formulas)) | set(re.findall(r"`([A-Z])`", "\n".join(first)))
    # The page says so: a letter that is not bold is an entry of the bold one.
    return named | {name.replace("bold ", "") for name in named}


@EVERY_CHAPTER
def test_every_symbol_of_a_chapter_is_on_the_page_of_notation(path):
    formulas = FORMULA.findall(FOLDED.sub(" ", rules.prose(rules.read(path))))
    assert formulas
    known = defined()
    assert {tex: symbols(tex) - known for tex in formulas if not symbols(tex) <= known} == {}


def test_symbols_are_told_apart_by_font_and_accent():
    tex = r"\hat{\mathbf x}_i=\operatorname{Var}(\bar g)+\mathrm d\boldsymbol\theta\,e^{2}"
    assert symbols(tex) == {"hat bold x", "i", "bar g", "bold theta", "e"}
    assert {"x", "hat x", "bold W", "mathcal L"} <= defined()
    assert not {"bold q q", "bold G", "mathcal F"} & defined()
