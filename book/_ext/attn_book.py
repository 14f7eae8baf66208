"""The book's one Sphinx extension: what a page carries, and the index made at build time.

It adds the theme's style sheet to every page and the widgets' script and style to the pages that
hold a widget; makes figures of images and their captions, with drawings inlined; folds code that a
first reading can do without; and fills the solutions index.
"""

import html
import json
import re
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.environment import BuildEnvironment
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import inspect
from sphinx.util.docutils import SphinxDirective
from traitlets import HasTraits

PARTS = (
    *("attn_access", "attn_bibliography", "attn_icons", "attn_maths", "attn_publish"),
    *("attn_search", "attn_stills"),
)
HERE = Path(__file__).resolve().parent
STATIC = HERE.parent / "_static"
# Of a page's widgets, as tools/heights.py measures them.
HEIGHTS = json.loads((HERE / "heights.json").read_text(encoding="utf-8"))
IN_DEPTH = re.compile(r"book/0?(\d+[b-z])_\w+")
WIDGET = "<attn-widget"
DRAWS = re.compile(r"[\w, ()]+ = plt\.subplots\(")
MOST_LINES_SHOWN = 16  # of the package's source, unfolded
OPTION = re.compile(r'<span class="pre">(--[a-z][a-z-]+)</span>')
FORMULA_END = re.compile(r'(<span class="math notranslate nohighlight">[^<]*</span>)([.,;:!?)’”]+)')


class SolutionsIndex(nodes.General, nodes.Element):
    """Stands where the index of exercises and solutions will be."""


class SolutionsIndexDirective(SphinxDirective):
    """`{solutions-index}`: every exercise of the book, linked to its solution."""

    def run(self) -> list[nodes.Node]:
        return [SolutionsIndex()]


def add_static_folder(app: Sphinx, config: Config) -> None:
    """Only the files that a page needs; Jupyter Book would load every script in the folder."""
    config.html_static_path.append(str(STATIC))
    app.add_css_file("book.css", priority=900)


def number_pages_in_depth(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Page `07b_…` is 7b, not the section of chapter 7 that follows the last one of its page."""
    pages = []
    for page, toc in env.tocs.items():
        found = IN_DEPTH.fullmatch(page)
        if found:
            number: Any = (found[1],)  # Sphinx has whole numbers here
            env.titles[page]["secnumber"] = number
            env.toc_secnumbers[page][""] = number
            next(toc.findall(nodes.reference))["secnumber"] = number
            pages.append(page)
    return pages


def typeset_docstring(
    app: Sphinx, what: str, name: str, item: Any, options: Any, lines: list[str]
) -> None:
    """Docstrings are written for a terminal: $x$ is a formula there, and |x| an absolute value."""
    if lines and lines[0].startswith("Alias for field number"):  # a NamedTuple's own words
        lines.clear()
        return
    paragraphs = "\n".join(lines).split("\n\n")
    for i, paragraph in enumerate(paragraphs):
        if ">>>" not in paragraph:
            pieces = re.sub(r"\$([^$]+)\$", r":math:`\1`", paragraph).split("`")
            pieces[::2] = [piece.replace("|", r"\|") for piece in pieces[::2]]
            paragraphs[i] = "`".join(pieces)
    # The empty comment keeps napoleon from reading "the mask: as painted" as a name and its type.
    opening = ["..", ""] if what in {"attribute", "data", "property"} else []
    lines[:] = opening + "\n\n".join(paragraphs).split("\n")


def sign_widget(
    app: Sphinx, what: str, name: str, item: Any, options: Any, signature: str, returned: str
) -> tuple[str, str] | None:
    """A widget takes what its `__init__` says, not what traitlets' `__new__` does: anything."""
    if what != "class" or not issubclass(item, HasTraits):
        return None
    own = inspect.signature(item.__init__, bound_method=True)
    shown = inspect.stringify_signature(
        own, show_return_annotation=False, unqualified_typehints=True
    )
    return shown, returned


def write_assets(app: Sphinx) -> None:
    """The widgets' files, before a page that names them is written."""
    if app.builder.format != "html":
        return
    import attn_widgets
    from attn_widgets.assets import WIDGETS

    static = Path(app.outdir) / "_static"
    static.mkdir(parents=True, exist_ok=True)
    (static / "attn-widgets.css").write_text(attn_widgets.page_style(), encoding="utf-8")
    for earlier in static.glob("attn-widgets-*.js"):  # of pages that may not be written anew
        kinds = earlier.stem.split("-")[2:]
        earlier.unlink()
        if {*kinds} <= {*WIDGETS}:
            write_script(app, kinds)


def write_script(app: Sphinx, kinds: list[str]) -> str:
    """The script of these widgets, and no others: its name."""
    import attn_widgets

    name = f"attn-widgets-{'-'.join(kinds)}.js"
    script = Path(app.outdir) / "_static" / name
    if not script.exists():
        script.write_text(attn_widgets.page_script(*kinds), encoding="utf-8")
    return name


class FoldDropdowns(SphinxPostTransform):
    """Folded hints and solutions as <details>: they open by keyboard and without scripts."""

    default_priority = 900  # after sphinx-exercise has resolved its titles
    formats = ("html",)

    def run(self, **kwargs: Any) -> None:
        for node in list(self.document.findall(nodes.Element)):
            classes = node.get("classes", [])
            if {"exercise", "solution"} & set(classes):
                for section in node.findall(nodes.section):
                    section["ids"] = []  # "solution-content", the same for all of them
            if "dropdown" in classes and node.children and isinstance(node[0], nodes.title):
                place = node.parent.index(node)
                node.parent[place : place + 1] = self.fold(node[0], node[1:], classes, node["ids"])

    @staticmethod
    def fold(
        title: nodes.title, body: list[nodes.Node], classes: list[str], ids: list[str]
    ) -> list[nodes.Node]:
        for link in list(title.findall(nodes.reference)):
            link.replace_self(link.children)  # a click on the line opens it, and does no more
        opening = f'<details class="{" ".join(["admonition", *classes])}"><summary>'
        return [
            nodes.raw("", opening, format="html"),
            nodes.inline("", "", *title.children, classes=["admonition-title"]),
            nodes.raw("", "</summary>", format="html"),
            # A link to something inside a <details> opens it; a link to the element does not.
            nodes.container("", *body, ids=ids),
            nodes.raw("", "</details>", format="html"),
        ]


class CaptionFigures(SphinxPostTransform):
    """An image and the paragraph after it become a figure: in Markdown a caption is a paragraph.

    The image is the last one of a cell's output, or a drawing alone in its paragraph.
    """

    default_priority = 20  # after myst-nb has chosen the outputs and the references are resolved
    formats = ("html",)

    def run(self, **kwargs: Any) -> None:
        for image in list(self.document.findall(nodes.image)):
            holder, drawing = image.parent, "/drawings/" in f"/{image['uri']}"
            if drawing and isinstance(holder, nodes.paragraph):
                place = holder.parent.index(holder)
                holder.parent[place : place + 1] = self.figure(self.inlined(image), holder)
            elif (cell := self.cell_of(image)) and image is list(cell.findall(nodes.image))[-1]:
                place = holder.index(image)
                holder[place : place + 1] = self.figure(image, cell)

    @staticmethod
    def cell_of(image: nodes.image) -> nodes.Element | None:
        """The cell whose output the image is."""
        above = image.parent
        while above is not None and "cell" not in above.get("classes", []):
            above = above.parent
        return above

    @staticmethod
    def figure(picture: nodes.Node, before: nodes.Element) -> list[nodes.Node]:
        """The picture with the paragraph that follows `before` as its caption."""
        after = before.next_node(descend=False, siblings=True)
        words: list[nodes.Node] = []
        if isinstance(after, nodes.paragraph):
            after.parent.remove(after)
            words = list(after.children)
            if len(words) == 1 and isinstance(words[0], nodes.emphasis):
                words = list(words[0].children)  # the page sets a caption in its own type
        # The style sheet sets the words below the picture, or beside it in the margin.
        around = ("<figure><figcaption>", "</figcaption>", "</figure>")
        start, middle, end = (nodes.raw("", text, format="html") for text in around)
        return [start, nodes.paragraph("", "", *words), middle, picture, end]

    def inlined(self, image: nodes.image) -> nodes.raw:
        """The drawing itself, so that its links work and it takes the colours of the page."""
        svg = (Path(self.app.srcdir) / image["uri"]).read_text(encoding="utf-8")
        label = html.escape(image.get("alt", ""), quote=True)
        opening = f'<svg role="group" aria-label="{label}" '
        return nodes.raw("", svg[svg.index("<svg") :].replace("<svg ", opening, 1), format="html")


def holds_a_widget(cell: nodes.Element) -> bool:
    return any(WIDGET in raw.astext() for raw in cell.findall(nodes.raw))


class FoldCode(SphinxPostTransform):
    """Folds what a first reading can do without, each under a line that names it.

    That is the code of a figure, whose cell begins with `plt.subplots` or is tagged to be folded;
    the code to start an exercise from; and a long source of the package. A folded cell that shows
    nothing joins the folded cell after it, under the same line.
    """

    default_priority = 198  # before myst-nb folds what is tagged to be
    formats = ("html",)

    def run(self, **kwargs: Any) -> None:
        for cell in list(self.document.findall(nodes.container)):
            if cell.get("nb_element") != "cell_code" or not cell.children:
                continue
            if len(cell) < 2:
                self.join(cell, cell.next_node(descend=False, siblings=True))
                continue
            source, folded = cell[0].astext(), "tag_hide-input" in cell["classes"]
            if "tag_stub" in cell["classes"]:
                self.fold(cell, "Show the code to start from", "Hide the code to start from")
            elif (folded or DRAWS.match(source)) and any(cell.findall(nodes.image)):
                self.fold(cell, "Code of this figure")
                cell["classes"].append("attn-drawn")
            elif folded and holds_a_widget(cell):
                self.fold(cell, "Code of this widget")
            if shown := re.search(r"show_source\(([\w.]+)\)", source):
                for listing in list(cell[1].findall(nodes.literal_block)):
                    self.fold_long(listing, shown[1])

    @staticmethod
    def join(cell: nodes.Element, after: nodes.Node | None) -> None:
        """A folded cell without output into the folded one that follows at once."""
        if not isinstance(after, nodes.container):
            return
        if all("tag_hide-input" in one["classes"] for one in (cell, after)):
            after[0].insert(0, cell[0].children)
            cell.parent.remove(cell)

    @staticmethod
    def fold(cell: nodes.Element, show: str, hide: str = "") -> None:
        cell["hide_mode"] = "input"
        cell["prompt_show"], cell["prompt_hide"] = show, hide or show

    @staticmethod
    def fold_long(listing: nodes.literal_block, name: str) -> None:
        count = len(listing.astext().splitlines())
        if count <= MOST_LINES_SHOWN:
            return
        summary = f"Show the source of <code>{html.escape(name)}</code>, {count} lines"
        before = f'<details class="hide"><summary>{summary}</summary>'
        around = [nodes.raw("", part, format="html") for part in (before, "</details>")]
        listing.replace_self([around[0], listing.deepcopy(), around[1]])


class WidgetBeforeCode(SphinxPostTransform):
    """Folded code goes below the widget or the figure that it makes."""

    default_priority = 300  # after myst-nb has folded the code
    formats = ("html",)

    def run(self, **kwargs: Any) -> None:
        cells = [n for n in self.document.findall(nodes.container) if "cell" in n["classes"]]
        for cell in cells:
            made_here = "tag_hide-input" in cell["classes"] and holds_a_widget(cell)
            if made_here or "attn-drawn" in cell["classes"]:
                cell.children.reverse()


def finish_page(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    """The widgets' files where there is one; formulas with commas."""
    body = context.get("body", "")
    if WIDGET in body:
        app.add_css_file("attn-widgets.css", priority=910)
        from attn_widgets.assets import ELEMENT, reserve_room

        name = write_script(app, sorted({*ELEMENT.findall(body)}))
        app.add_js_file(name, loading_method="defer")
        body = reserve_room(body, HEIGHTS.get(Path(pagename).name, []))
    if pagename == app.config.root_doc:
        context["docstitle"] = ""  # the opening page's title is the book's
    if body:  # no line breaks between a formula and its comma, nor within `--an-option`
        body = FORMULA_END.sub(r'<span class="formula-end">\1\2</span>', body)
        context["body"] = OPTION.sub(r'<span class="pre option">\1</span>', body)


def fill_solutions_index(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Replaces the placeholder once every page has been read: chapters in order, each a list."""
    registry = getattr(app.env, "sphinx_exercise_registry", {})
    kinds: dict[str, dict[str, Any]] = {"exercise": {}, "solution": {}}
    for label, entry in registry.items():
        kinds[entry["type"].partition("-")[0]][label] = entry
    solved = {one["node"]["target_label"]: label for label, one in kinds["solution"].items()}
    for placeholder in list(doctree.findall(SolutionsIndex)):
        content: list[nodes.Node] = []
        for page in sorted({one["docname"] for one in kinds["exercise"].values()}):
            link = partial(_link, app.builder.get_relative_uri(docname, page))
            rows = [
                _entry(link, label, one["node"], solved.get(label))
                for label, one in kinds["exercise"].items()
                if one["docname"] == page
            ]
            content += [
                nodes.rubric("", "", link("", app.env.titles[page].astext())),
                nodes.bullet_list("", *rows, classes=["solutions-index"]),
            ]
        placeholder.replace_self(content)


def _entry(
    link: Callable[[str, str], nodes.Node],
    label: str,
    exercise: nodes.Element,
    solution: str | None,
) -> nodes.list_item:
    """The title of an exercise, its stars and minutes, and a link to its solution."""
    heading = exercise[0].astext().removeprefix("Exercise").strip(" ()") or label
    facts = re.findall(r"★+|\d+ min\w*", exercise.astext())[:2]
    line = nodes.paragraph("", "", link(label, heading), nodes.Text("  " + ", ".join(facts)))
    if solution:
        line += [nodes.Text("  · "), link(solution, "solution")]
    return nodes.list_item("", line)


def _link(page: str, label: str, text: str) -> nodes.reference:
    return nodes.reference("", text, refuri=f"{page}#{label}".rstrip("#"), internal=True)


def refresh_solutions_index(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """An incremental build rewrites the index whatever page changed."""
    return [page for page in env.found_docs if page.endswith("solutions")]


def checksum_of_extensions() -> int:
    """Changes whenever one of the book's extensions does; pages made by an older one are stale."""
    parts = [*HERE.glob("*.py"), HERE / "heights.json"]
    return zlib.crc32(b"".join(path.read_bytes() for path in sorted(parts)))


def setup(app: Sphinx) -> dict[str, Any]:
    for name in PARTS:
        app.setup_extension(name)
    app.add_node(SolutionsIndex)
    app.add_directive("solutions-index", SolutionsIndexDirective)
    for transform in (FoldDropdowns, CaptionFigures):
        app.add_post_transform(transform)
    for transform in (FoldCode, WidgetBeforeCode):
        app.add_post_transform(transform)
    app.connect("config-inited", add_static_folder)
    app.connect("builder-inited", write_assets)
    app.connect("autodoc-process-docstring", typeset_docstring, priority=400)
    app.connect("autodoc-process-signature", sign_widget)
    app.connect("html-page-context", finish_page)
    app.connect("doctree-resolved", fill_solutions_index)
    # After Sphinx has given its numbers, at priority 500.
    app.connect("env-get-updated", number_pages_in_depth, priority=600)
    app.connect("env-updated", refresh_solutions_index)
    return {"env_version": checksum_of_extensions()}  # another one: Sphinx reads every page again
