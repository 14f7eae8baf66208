"""The front-end files, put together for the two hosts: anywidget and the page.

Each file of `static/` is a module of its own: its imports say what it takes from which other file,
and its last lines what it gives. A page that is opened from the file system can load no module, so
Python joins them here: every file becomes a function, `FILES.name = (() => { ... })()`, whose
imports are constants taken from `FILES` and whose exports are what it returns.
"""

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

WIDGETS = (
    *("heatmap", "explore", "kernel", "score", "mask", "alignment", "heads", "position"),
    *("translator", "sampler", "family", "follow", "online", "switches"),
    *("memory", "budget"),
)
HOST = "host"  # mounts them on a page
IMPORT = re.compile(r'^import (\{[^}]+\}) from "\./(\w+)\.js";$', re.MULTILINE)
EXPORT = re.compile(r"^export (?:default )?(?=\{)", re.MULTILINE)
ELEMENT = re.compile(
    r'<attn-widget>(?=<script type="application/json">[^<]*"widget": "([a-z]+)"\}</script>)'
)
TYPES = re.compile(r"^ */\*\*.*?\*/\n", re.MULTILINE | re.DOTALL)  # nobody reads them in a page


@cache
def _read(name: str) -> str:
    return files("attn_widgets").joinpath("static", name).read_text(encoding="utf-8")


def imported_by(name: str) -> dict[str, tuple[str, ...]]:
    """Which names a file of `static/` imports from which other files."""
    found = IMPORT.findall(_read(f"{name}.js"))
    return {file: tuple(re.findall(r"\w+", names)) for names, file in found}


def _with_imports(*names: str) -> list[str]:
    """These files and all that they need, each after those that it imports."""
    order: dict[str, None] = {}
    for name in names:
        order |= dict.fromkeys((*_with_imports(*imported_by(name)), name))
    return list(order)


def _body(name: str) -> str:
    """A file with constants for its imports, and without its types."""
    return IMPORT.sub(r"const \1 = FILES.\2;", TYPES.sub("", _read(f"{name}.js")))


def _scopes(*names: str) -> str:
    """Each file as a function that returns what it exports."""
    bodies = {name: EXPORT.sub("return ", _body(name)) for name in names}
    return "".join(f"FILES.{name} = (() => {{\n{body}}})();\n" for name, body in bodies.items())


def module_source(name: str) -> str:
    """One file of `static/`, a widget or what widgets share, with what it imports before it.

    A module without imports, as anywidget loads it.
    """
    *needed, _ = _with_imports(name)
    return f"const FILES = {{}};\n{_scopes(*needed)}{_body(name)}"


def page_script(*widgets: str) -> str:
    """The one classic script of the published pages: widgets, what they import, and the host.

    Of the widgets that a page needs, by default all: JavaScript that defines the element
    `<attn-widget>` and nothing global.
    """
    chosen = widgets or WIDGETS
    scopes = _scopes(*_with_imports(*chosen, HOST))
    shown = "".join(f"  {name}: FILES.{name},\n" for name in chosen)
    start = f"FILES.{HOST}.start({{\n{shown}}});"
    return f'(() => {{\n"use strict";\nconst FILES = {{}};\n{scopes}{start}\n}})();\n'


def reserve_room(html: str, heights: Sequence[Mapping[str, int]]) -> str:
    """A page whose elements are as high as their widgets will be when the script has come.

    Args:
        html: of the page, with elements as `page_html` gives them.
        heights: of each element in turn, in pixels by the name of a screen: `wide`, `narrow` and
            `touch`. Elements beyond the last have the room of a low widget.
    """
    each = iter(heights)

    def sized(found: re.Match[str]) -> str:
        sizes = "; ".join(f"--attn-{name}: {high}px" for name, high in next(each, {}).items())
        return f'<attn-widget style="{sizes}">' if sizes else found[0]

    return ELEMENT.sub(sized, html)


def page_style() -> str:
    """The widgets' style sheet, the same for both hosts."""
    return _read("widgets.css")


# Around one widget: the colours of the page follow the reader's, as the widget's do.
PAGE_STYLE = """
body { max-width: 1100px; margin: 1rem auto; padding: 0 8px; background: #fefefc; }
@media (prefers-color-scheme: dark) { body { background: #0f1318; } }
"""
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; {policy}; base-uri 'none'">
<title>{title}</title><style>{style}</style></head>
<body><main>{element}</main><script>{script}</script></body></html>
"""


def page_of_its_own(element: str, widget: str, title: str) -> str:
    """One file with the element of a widget and all that it needs: nothing else may run or load."""
    parts = {"script": page_script(widget), "style": page_style() + PAGE_STYLE}
    digests = {name: hashlib.sha256(part.encode()).digest() for name, part in parts.items()}
    hashes = {name: base64.b64encode(digest).decode() for name, digest in digests.items()}
    policy = "; ".join(f"{name}-src 'sha256-{text}'" for name, text in hashes.items())
    return PAGE.format(policy=policy, title=title, element=element, **parts)
