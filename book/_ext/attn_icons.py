"""The icons of the theme, cut to the dozen of its two thousand that the site shows.

The font is cut, and the rules of its style sheet.
"""

import re
from pathlib import Path

from fontTools import subset  # type: ignore[import-untyped]  # comes with matplotlib
from sphinx.application import Sphinx

RULE = re.compile(r'((?:\.fa-[\w-]+:before,?)+)\{content:"\\([0-9a-f]+)"\}')
NAME = re.compile(r"\bfa-[\w-]+")
WHOLE, CUT = 'fa-solid-900.woff2) format("woff2")', 'fa-solid-900.woff) format("woff")'


def finish(app: Sphinx, error: Exception | None) -> None:
    if error is not None or app.builder.format != "html":
        return
    site = Path(app.outdir)
    sheet = site / "_static" / "styles" / "pydata-sphinx-theme.css"
    webfonts = site / "_static" / "vendor" / "fontawesome" / "webfonts"
    css = sheet.read_text(encoding="utf-8")
    if WHOLE not in css:
        raise RuntimeError(f"the theme's style sheet no longer has {WHOLE!r}, which this changes")
    pages = [path.read_text(encoding="utf-8") for path in site.rglob("*.html")]
    scripts = [path.read_text(encoding="utf-8") for path in site.rglob("*.js")]
    named = {*NAME.findall(" ".join(pages + scripts))}
    codes = [code for names, code in RULE.findall(css) if named & {*NAME.findall(names)}]
    for path in site.rglob("*.css"):  # and those that the style sheets write themselves
        codes += re.findall(r'"\\(f[0-9a-f]{3})"', RULE.sub("", path.read_text(encoding="utf-8")))
    options = subset.Options(flavor="woff")
    font = subset.load_font(webfonts / "fa-solid-900.ttf", options)
    kept = subset.Subsetter(options)
    kept.populate(unicodes=[int(code, 16) for code in codes])
    kept.subset(font)
    subset.save_font(font, webfonts / "fa-solid-900.woff", options)
    css = RULE.sub(lambda rule: rule[0] if named & {*NAME.findall(rule[1])} else "", css)
    sheet.write_text(css.replace(WHOLE, CUT), encoding="utf-8")


def setup(app: Sphinx) -> None:
    app.connect("build-finished", finish, priority=900)
