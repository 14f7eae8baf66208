"""Bare pages: widgets, their one script and their one style sheet, under a strict policy."""

from pathlib import Path

from attn_widgets import (
    FamilyDiagram,
    PositionExplorer,
    page_script,
    page_style,
)
from tests.hostile import HOSTILE
from tests.widgets import EVERY, TOKENISED, of_many, of_many_tokens

POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; base-uri 'none'"
PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8">{policy}
<meta name="viewport" content="width=device-width"><title>Widgets</title>
<link rel="stylesheet" href="page.css"><link rel="stylesheet" href="widgets.css">
<script defer src="widgets.js"></script></head><body><main><h1>Widgets</h1>
{body}
</main></body></html>
"""
STYLE = """body { max-width: 800px; margin: 1rem auto; padding: 0 8px; background: #fefefc; }
html[data-theme="dark"] body { background: #0f1318; color: #dfe3e8; }
@media (prefers-color-scheme: dark) {
  html:not([data-theme]) body { background: #0f1318; color: #dfe3e8; }
}
"""


def write_page(folder: Path, name: str, *elements: str, policy: str = POLICY) -> None:
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">' if policy else ""
    text = PAGE.format(policy=meta, body="\n".join(elements))
    (folder / f"{name}.html").write_text(text, encoding="utf-8")


def write_files(folder: Path) -> None:
    """What every page of a folder loads."""
    (folder / "favicon.ico").touch()  # a browser asks for one
    (folder / "page.css").write_text(STYLE, encoding="utf-8")
    (folder / "widgets.css").write_text(page_style(), encoding="utf-8")
    (folder / "widgets.js").write_text(page_script(), encoding="utf-8")


def page_of(folder: Path, *elements: str) -> str:
    """The address of a page of its own with these elements."""
    write_files(folder)
    write_page(folder, "page", *elements)
    return (folder / "page.html").as_uri()


def write_bare_pages(folder: Path) -> None:
    """One page a widget, one with all, one with hostile tokens and no policy."""
    write_files(folder)
    elements = {name: make().page_html() for name, make in EVERY.items()}
    for name, element in elements.items():
        write_page(folder, name, element)
    write_page(folder, "all", *elements.values())
    write_page(folder, "large", of_many().page_html())
    of_many_tokens().save_html(folder / "saved.html")
    for name, size in (("small", 2), ("large", 128)):
        write_page(folder, f"positions-{name}", PositionExplorer(size, size).page_html())
    long = ["four", "hundred", "and", "-one"] * 16, ["vier", "hundert", "\U0001f600"] * 21
    for name, (source, target) in {"short": (["a"], ["b"]), "long": long}.items():
        write_page(folder, f"family-{name}", FamilyDiagram(source, target).page_html())
    # Without a policy, which would stop a token's script even where the widget doesn't.
    hostile = [make(HOSTILE).page_html() for make in TOKENISED.values()]
    write_page(folder, "hostile", *hostile, policy="")
