"""The front-end files, put together for the two hosts: anywidget and the page."""

import base64
import hashlib
from functools import cache
from importlib.resources import files

WIDGETS = (
    *("heatmap", "explore", "kernel", "score", "mask", "alignment", "heads", "position"),
    *("translator", "sampler", "family", "follow", "online", "switches"),
)
CORE = ("numbers", "controls", "weights")  # what all of them share, in this order
# What some widgets share beside; the page has each once.
SHARED = {
    "heatmap": ("grid",),
    "alignment": ("links", "steps", "typing", "cutting", "transformer_model", "recurrent_model"),
    "heads": ("grid", "links", "typing"),
    "translator": ("grid", "links", "steps", "cutting", "transformer_model", "options", "texts"),
    "sampler": ("transformer_model", "options"),
    "follow": ("steps", "transformer_model"),
    "online": ("steps",),
    "switches": ("grid", "cutting", "transformer_model", "texts"),
}


@cache
def _read(name: str) -> str:
    return files("attn_widgets").joinpath("static", name).read_text(encoding="utf-8")


def module_source(widget: str) -> str:
    """One widget's import-free front-end module, as anywidget loads it, with what it shares."""
    parts = (*CORE, *SHARED.get(widget, ()), widget)
    return "\n".join(_read(f"{part}.js") for part in parts)


def page_script(*widgets: str) -> str:
    """The one classic script of the published pages: what is shared, the widgets, and the host.

    Each module becomes a function that returns what it would export, so that a page opened from
    the file system, where browsers load no modules, runs the same code.

    Args:
        widgets: the names of the modules that a page needs; all by default.

    Returns:
        JavaScript that defines the element `<attn-widget>` and nothing global.
    """
    chosen = widgets or WIDGETS
    modules = {name: _read(f"{name}.js").replace("export default", "return") for name in chosen}
    bodies = (f"WIDGETS.{name} = (() => {{\n{body}}})();" for name, body in modules.items())
    used = (SHARED.get(name, ()) for name in chosen)
    names = dict.fromkeys(name for shared in used for name in shared)
    shared = (_read(f"{name}.js") for name in (*CORE, *names))
    parts = ['"use strict";', *shared, "const WIDGETS = {};", *bodies, _read("host.js")]
    return "(() => {\n" + "\n".join(parts) + "\n})();\n"


def page_style() -> str:
    """The widgets' style sheet, the same for both hosts.

    Returns:
        CSS.
    """
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
