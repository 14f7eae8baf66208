"""The search page: whole words before parts of words, and excerpts from the text alone."""

from pathlib import Path

from sphinx.application import Sphinx

# What stands in Sphinx's script, and what stands there instead.
CHANGES = {
    # A word that is typed is looked for as it is, else as the beginning of others: "RoPE" is no
    # part of "property".
    "if (word.length > 2) {": "if (word.length > 2 && !terms.hasOwnProperty(word)) {",
    "if (term.match(escapedWord))": "if (term.startsWith(word))",
    # Code and formulas read badly in an excerpt of 240 letters.
    '[".headerlink", "script", "style"]': (
        '[".headerlink", "script", "style", ".math", ".cell_input", "attn-widget", "svg"]'
    ),
    # Not the buttons above the article and the contents beside it.
    "'[role=\"main\"]'": "'article'",
    '`[role="main"] ${anchor}`': "`article ${anchor}`",
}


def finish(app: Sphinx, error: Exception | None) -> None:
    if error is not None or app.builder.format != "html":
        return
    script = Path(app.outdir) / "_static" / "searchtools.js"
    text = script.read_text(encoding="utf-8")
    for old, new in CHANGES.items():
        if old not in text:
            raise RuntimeError(f"Sphinx's search no longer has {old!r}, which this changes")
        text = text.replace(old, new)
    script.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> None:
    app.connect("build-finished", finish, priority=850)
