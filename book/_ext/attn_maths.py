"""MathJax in one file of the site, and what stands in a formula's place until it is typeset."""

import html
import importlib.util
import re
import shutil
from pathlib import Path
from typing import Any

from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx

# What a page needs of MathJax in one file, as its own bundles do; theirs have a menu besides, which
# the book switches off and which weighs as much as all that typesets.
PARTS = (
    *("startup", "core", "input/tex", "output/chtml", "output/chtml/fonts/tex"),
    *("a11y/assistive-mml", "input/tex/extensions/boldsymbol"),
)
BUNDLE = """window.MathJax ||= {{}};
(MathJax.loader ||= {{}}).load = [];
{startup}
MathJax.loader.preLoad("startup", "core", "input/tex", "input/tex-base", "[tex]/ams",
  "[tex]/newcommand", "[tex]/noundefined", "[tex]/require", "[tex]/autoload",
  "[tex]/configmacros", "output/chtml", "output/chtml/fonts/tex.js", "a11y/assistive-mml",
  "[tex]/boldsymbol");
{rest}
"""


def write_mathjax(app: Sphinx) -> None:
    """The file a page loads, its fonts, and the extensions that some formulas ask for."""
    if app.builder.format != "html":
        return
    spec = importlib.util.find_spec("sphinx-mathjax-offline")
    if spec is None or spec.origin is None:
        raise RuntimeError("sphinx-mathjax-offline must be installed: `make book` does that")
    source = Path(spec.origin).parent / "static" / "mathjax"
    target = Path(app.outdir) / "_static" / "mathjax"
    startup, *rest = ((source / f"{part}.js").read_text(encoding="utf-8") for part in PARTS)
    target.mkdir(parents=True, exist_ok=True)
    bundle = BUNDLE.format(startup=startup, rest="\n".join(rest))
    (target / "tex-chtml.js").write_text(bundle, encoding="utf-8")
    for folder in ("output/chtml/fonts/woff-v2", "input/tex/extensions"):
        shutil.copytree(source / folder, target / folder, dirs_exist_ok=True)


# An inline formula is as wide before it is typeset as after, nearly: no line breaks anew.
INLINE = re.compile(r'<span class="math notranslate nohighlight">\\\((.*?)\\\)</span>', re.DOTALL)
GROUP = r"(\{(?:[^{}]|\{[^{}]*\})*\}|\\[a-z]+|\w|.)"
FRACTION = re.compile(rf"\\([td]?)frac\s*{GROUP}\s*{GROUP}")
INDEX = re.compile(rf"[_^]{GROUP}(?:[_^]{GROUP})?")  # below and above at once, as wide as the wider
NAMED = re.compile(r"\\(arg|cos|det|exp|ln|log|max|min|sin|softmax|tanh)(?![a-z])")
UNSEEN = re.compile(
    r"\\(?:math[a-z]+|text[a-z]*|operatorname|left|right|[bB]ig+[lr]?|hat|bar|tilde|boldsymbol"
    r"|[,;:!])(?![a-z])"
)
RELATION = re.compile(
    r"\\(?:in|notin|leq?|geq?|neq?|approx|to|cdot|times|propto|sim|ll|gg|mid|odot|oplus|mapsto"
    r"|(?:left|right)arrow)(?![a-z])|=|&[lg]t;|(?<=[^({,=])[+-]"
)
GLYPH = re.compile(r"\\[a-zA-Z]+|\\.|&\w+;|[^\s{}_^&~]")
WIDE = re.compile(r"[A-HJ-Zmw-]|\\(?:sum|prod|quad|infty|[cl]?dots)")
NARROW = re.compile(r"[ijltrsfI.,:;|()\[\]!'/]")
# Ems, fitted to the book's formulas as MathJax sets them: nine of ten within half an em.
LETTER, CAPITAL, STROKE, SPACED, SMALL = 0.56, 0.84, 0.42, 1.17, 0.86


def glyph_ems(glyph: str) -> float:
    return CAPITAL if WIDE.fullmatch(glyph) else STROKE if NARROW.fullmatch(glyph) else LETTER


def ems(tex: str, spaced: float = SPACED) -> float:
    """About how wide a formula will be: its letters, relations, fractions and indices."""
    tex = NAMED.sub(lambda name: " ".join(name[1]), tex)
    while found := FRACTION.search(tex):  # as wide as its wider part
        part = max(found[2], found[3], key=ems).strip("{}")
        small = "" if found[1] == "d" else "_"  # like an index, in a line of text
        tex = f"{tex[: found.start()]}{small}{{{part}}}{tex[found.end() :]}"
    line = re.sub(r"\s*([-+=,])\s*", r"\1", UNSEEN.sub(" ", tex))
    indices = [max(ems(part or "", LETTER) for part in one) for one in INDEX.findall(line)]
    line = INDEX.sub("~", line)
    glyphs = GLYPH.findall(RELATION.sub(" ", line))
    relations = spaced * len(RELATION.findall(line))
    return relations + SMALL * sum(indices) + sum(map(glyph_ems, glyphs))


MANY = 30  # as in maths.js: a page with fewer has no MathJax before the reader's first deed
# What docutils does not know, or writes with a sign that few fonts have.
INSTEAD = {
    r"\\[bB]ig+[lr]?(?![a-z])": "",
    r"\\boldsymbol(?![a-z])": r"\\mathbfit",
    r"\\setminus(?![a-z])": r"\\backslash ",
}


def mathml(tex: str) -> str:
    """The formula as a browser sets it without MathJax; nothing where docutils cannot say it."""
    for command, instead in INSTEAD.items():
        tex = re.sub(command, instead, tex)
    try:
        return re.sub(r"\n\s*", "", tex2mathml(tex))
    except MathError:
        return ""


def stand_in(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    """Writes on each inline formula how wide it will be, and beside a few how they are printed."""
    few = context.get("body", "").count('class="math ') <= MANY

    def sized(found: re.Match[str]) -> str:
        width = f' style="--ems: {ems(found[1]):.1f}"'
        shown = found[0].replace('nohighlight"', f'nohighlight"{width}', 1)
        return shown + few * mathml(html.unescape(found[1]))

    if "body" in context:
        context["body"] = INLINE.sub(sized, context["body"])


def setup(app: Sphinx) -> None:
    app.connect("builder-inited", write_mathjax)
    app.connect("html-page-context", stand_in, priority=600)  # after punctuation is glued on
