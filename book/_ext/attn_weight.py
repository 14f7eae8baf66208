"""What the built site weighs, and when it answers: WebP pictures, icons in use, a quicker theme."""

import re
from pathlib import Path
from typing import Any

from PIL import Image
from sphinx.application import Sphinx

# Asked for by the theme, but its style sheet already draws the same icons from a font.
FONTAWESOME = re.compile(r"\s*<script[^>]*scripts/fontawesome\.js[^>]*></script>")
# So are these, for a search that begins while one types, which the book has not asked for.
SEARCH = re.compile(
    r'\s*<script[^>]*(?:searchtools|language_data|searchindex)\.js"></script>(?=.*</body>)',
    re.DOTALL,
)
# The theme's script says only at the page's end whether it is dark: until then the page would be
# laid out in light colours, and then anew.
THEME = 'document.documentElement.dataset.theme = localStorage.getItem("theme") || "auto";'
THEME_AT_ONCE = """document.documentElement.dataset.theme =
      ["light", "dark"].find((one) => one === localStorage.getItem("mode"))
      ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");"""
PICTURE = re.compile(r'<img( [^>]*?)src="([^"]*_images/)([^"]+)\.png"')


def finish(app: Sphinx, error: Exception | None) -> None:
    """Drops from the site what no page needs."""
    if error is not None or app.builder.format != "html":
        return
    static, pictures = Path(app.outdir) / "_static", Path(app.outdir) / "_images"
    for page in Path(app.outdir).rglob("*.html"):
        text = FONTAWESOME.sub("", page.read_text(encoding="utf-8"))
        if page.stem != "search":
            text = SEARCH.sub("", text)
        text = PICTURE.sub(lambda found: light_picture(pictures, *found.groups()), text)
        text = text.replace(THEME, THEME_AT_ONCE)
        text = text.replace(
            '<summary><span class="toctree-toggle"',
            '<summary aria-label="Pages below"><span class="toctree-toggle"',
        )
        page.write_text(text, encoding="utf-8")
    keep_used_icons(static)
    mend_tab_stops(static / "scripts" / "pydata-sphinx-theme.js")
    for left_over in (*static.rglob("*.map"), *static.glob("scripts/fontawesome.js*")):
        left_over.unlink(missing_ok=True)


def light_picture(folder: Path, before: str, place: str, name: str) -> str:
    """The tag of a picture, which is now WebP, half as large and without loss.

    It says its size, so that nothing moves when it comes, and it comes when it is near.
    """
    old, new = folder / f"{name}.png", folder / f"{name}.webp"
    if old.is_file():  # else another page has shown it before
        with Image.open(old) as picture:
            picture.save(new, lossless=True, method=6)
        old.unlink()
    with Image.open(new) as picture:
        width, height = picture.size
    size = f'width="{width}" height="{height}" loading="lazy"'
    return f'<img{before}src="{place}{name}.webp" {size}'


# The theme lets the keyboard reach what scrolls sideways, one element after the other: the browser
# lays out the page anew for each. Here all are measured first, and what is folded, which would be
# laid out for this alone, once it is unfolded; and formulas scroll too.
TAB_STOPS = (
    ".pst-scrollable-table-container",
    "e.tabIndex=e.scrollWidth>e.clientWidth||e.scrollHeight>e.clientHeight?0:-1",
    'window.addEventListener("resize",t)',
)
MEASURED_FIRST = (
    '.pst-scrollable-table-container","div.math',
    (
        'if(e.closest("details:not([open])"))return;'
        "const s=e.scrollWidth>e.clientWidth||e.scrollHeight>e.clientHeight?0:-1;"
        "queueMicrotask(()=>{if(e.tabIndex!==s)e.tabIndex=s})"
    ),
    'window.addEventListener("resize",t),document.addEventListener("toggle",t,!0)',
)


def mend_tab_stops(script: Path) -> None:
    text = script.read_text(encoding="utf-8")
    for old, new in zip(TAB_STOPS, MEASURED_FIRST, strict=True):
        if text.count(old) != 1:
            raise RuntimeError(f"the theme's script no longer has {old!r}, which this changes")
        text = text.replace(old, new)
    script.write_text(text, encoding="utf-8")


ICON_RULE = re.compile(r'((?:\.fa-[\w-]+:before,?)+)\{content:"\\([0-9a-f]+)"\}')
ICON_FONT = re.compile(r'url\(([^)]*fa-solid-900)\.woff2\) format\("woff2"\),url\([^)]*\)[^)]*\)')


def keep_used_icons(static: Path) -> None:
    """The theme's font has two thousand icons; the site's pages and scripts name a dozen."""
    from fontTools import subset  # of matplotlib's own packages

    sheet, folder = (
        static / "styles/pydata-sphinx-theme.css",
        static / "vendor/fontawesome/webfonts",
    )
    css, site = sheet.read_text(encoding="utf-8"), static.parent
    sources = [*site.rglob("*.html"), *static.rglob("*.js")]
    named = set(re.findall(r"\bfa-[\w-]+", " ".join(p.read_text("utf-8") for p in sources)))
    rules = ((set(re.findall(r"fa-[\w-]+", names)), code) for names, code in ICON_RULE.findall(css))
    codes = {code for names, code in rules if names & named}
    # And those that the style sheets write themselves.
    others = [ICON_RULE.sub("", p.read_text("utf-8")) for p in static.rglob("*.css")]
    codes |= set(re.findall(r'"\\(f[0-9a-f]{3})"', " ".join(others)))
    options = subset.Options(flavor="woff")
    font = subset.load_font(folder / "fa-solid-900.ttf", options)
    kept = subset.Subsetter(options)
    kept.populate(unicodes=[int(code, 16) for code in codes])
    kept.subset(font)
    subset.save_font(font, folder / "fa-solid-900.woff", options)
    css, found = ICON_FONT.subn(r'url(\1.woff) format("woff")', css)
    if not (found and codes):
        raise RuntimeError("the theme's style sheet no longer names its icons as this expects")
    sheet.write_text(css, encoding="utf-8")
    for suffix in ("woff2", "ttf"):
        (folder / f"fa-solid-900.{suffix}").unlink()


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("build-finished", finish, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
