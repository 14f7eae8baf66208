"""The linter of the widgets' JavaScript finds what it is there for, and says where."""

import pytest

from attn_notes.widgets import assets
from tools.javascript import STATIC, UNUSED, lint

FAULTS = {
    "a name of nobody's": ("export default { render: () => largests([]) };", "largests"),
    "a name never used": ("const lost = 1;\nexport default {};", "lost"),
    "code from text": ('export default eval("1");', "eval"),
    "a timer of text": ('setTimeout("render()", 1);\nexport default {};', "implied"),
    "a comparison with NaN": ("export default (a) => a === NaN;", "NaN"),
}


@pytest.mark.parametrize(("source", "word"), FAULTS.values(), ids=FAULTS)
def test_the_linter_finds(source, word):
    found = lint({"fault.mjs": source}, "--deny", UNUSED)
    assert [said for said in found if word in said]


def test_a_module_without_what_it_shares_is_found_at_the_lines_that_want_it(monkeypatch):
    shared = [name for name in assets.SHARED["alignment"] if name != "steps"]
    monkeypatch.setitem(assets.SHARED, "alignment", shared)
    source = assets.module_source("alignment")
    file = (STATIC / "alignment.js").read_text(encoding="utf-8").splitlines()
    lines = [n for n, line in enumerate(file, 1) if "stepper(" in line]
    assert lint({"alignment.mjs": source}, "--allow", UNUSED) == {
        f"alignment.js:{n} 'stepper' is not defined. [Error/eslint(no-undef)]" for n in lines
    }
