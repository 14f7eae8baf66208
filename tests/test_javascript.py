"""The linter of the widgets' JavaScript finds what it is there for, and says where."""

from attn_notes.widgets import assets
from tools.javascript import STATIC, UNUSED, lint

FAULTS = {
    "largests": "export default { render: () => largests([]) };",  # a name of nobody's
    "lost": "const lost = 1;\nexport default {};",  # a name never used
    "eval": 'export default eval("1");',
    "implied": 'setTimeout("render()", 1);\nexport default {};',  # a timer of text
    "NaN": "export default (a) => a === NaN;",
}


def test_the_linter_finds_names_of_nobody_code_from_text_and_comparisons_with_nan():
    found = lint({f"{word}.mjs": source for word, source in FAULTS.items()}, "--deny", UNUSED)
    assert [word for word in FAULTS if not any(word in said for said in found)] == []


def test_a_module_without_what_it_shares_is_found_at_the_lines_that_want_it(monkeypatch):
    shared = [name for name in assets.SHARED["alignment"] if name != "steps"]
    monkeypatch.setitem(assets.SHARED, "alignment", shared)
    source = assets.module_source("alignment")
    file = (STATIC / "alignment.js").read_text(encoding="utf-8").splitlines()
    lines = [n for n, line in enumerate(file, 1) if "stepper(" in line]
    assert lint({"alignment.mjs": source}, "--allow", UNUSED) == {
        f"alignment.js:{n} 'stepper' is not defined. [Error/eslint(no-undef)]" for n in lines
    }
