"""The front-end files, put together for the two hosts: anywidget and the page."""

from functools import cache
from importlib.resources import files

__all__ = ["module_source", "page_script", "page_style"]

WIDGETS = (
    *("heatmap", "explore", "kernel", "score", "mask", "spelling", "alignment", "heads"),
    *("position", "translator", "sampler", "family", "follow"),
)
# What some widgets share, beside the core that all do; the page has each once.
SHARED = {
    "heatmap": ("grid",),
    "alignment": ("links", "steps", "typing"),
    "heads": ("grid", "links", "typing"),
    "translator": ("grid", "links", "steps", "transformer_model"),
    "sampler": ("transformer_model",),
    "follow": ("steps", "transformer_model"),
}


@cache
def _read(name: str) -> str:
    return files("attn_notes.widgets").joinpath("static", name).read_text(encoding="utf-8")


def module_source(widget: str) -> str:
    """One widget's import-free front-end module, as anywidget loads it, with what it shares."""
    parts = ("core", *SHARED.get(widget, ()), widget)
    return "\n".join(_read(f"{part}.js") for part in parts)


def page_script() -> str:
    """The one classic script of the published pages: core, every widget, and the host.

    Each module becomes a function that returns what it would export, so that a page opened from
    the file system, where browsers load no modules, runs the same code.

    Returns:
        JavaScript that defines the element `<attn-widget>` and nothing global.
    """
    bodies = (
        f"WIDGETS.{name} = (() => {{\n"
        + _read(f"{name}.js").replace("export default", "return")
        + "})();"
        for name in WIDGETS
    )
    names = dict.fromkeys(name for shared in SHARED.values() for name in shared)
    shared = (_read(f"{name}.js") for name in ("core", *names))
    parts = ['"use strict";', *shared, "const WIDGETS = {};", *bodies, _read("host.js")]
    return "(() => {\n" + "\n".join(parts) + "\n})();\n"


def page_style() -> str:
    """The widgets' style sheet, the same for both hosts.

    Returns:
        CSS.
    """
    return _read("widgets.css")
