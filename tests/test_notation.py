"""Every symbol in a displayed formula of a chapter stands on the page of notation."""

import re
from pathlib import Path

import pytest

from tests import notebook_rules as rules

BOOK = Path(__file__).parents[1] / "book"
PAGE = (BOOK / "notation.md").read_text(encoding="utf-8")
CHAPTERS = sorted(BOOK.glob("[0-9][0-9]_*.ipynb"))
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


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_every_symbol_of_a_chapter_is_on_the_page_of_notation(path):
    formulas = FORMULA.findall(FOLDED.sub(" ", rules.prose(rules.read(path))))
    assert len(formulas) > 5
    known = defined()
    assert {tex: symbols(tex) - known for tex in formulas if not symbols(tex) <= known} == {}


def test_symbols_are_told_apart_by_font_and_accent():
    tex = r"\hat{\mathbf x}_i=\operatorname{Var}(\bar g)+\mathrm d\boldsymbol\theta\,e^{2}"
    assert symbols(tex) == {"hat bold x", "i", "bar g", "bold theta", "e"}
    assert {"x", "hat x", "bold W", "mathcal L"} <= defined()
    assert not {"bold q q", "bold G", "mathcal F"} & defined()
