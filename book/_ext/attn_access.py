"""What Sphinx writes and a screen reader cannot follow: lists without items, empty headings."""

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

# A signature of several lines: a list of descriptions without a term.
SIGNATURE = re.compile(r'(<span class="sig-paren">\(</span>\s*)<dl>(.*?)</dl>', re.DOTALL)
# The corner of a table whose rows and columns both have headings.
CORNER = re.compile(r"<th( class=\"[^\"]*\")?>(<p></p>)?</th>")


class NotesInItems(SphinxPostTransform):
    """A side note, which the theme puts between the items of a list, into the item it is for."""

    default_priority = 2  # after the theme's
    formats = ("html",)

    def run(self, **kwargs: Any) -> None:
        for item in list(self.document.findall(nodes.list_item)):
            items = item.parent
            note = items[items.index(item) - 1] if items.index(item) else item
            if isinstance(note, nodes.inline):
                items.remove(note)
                item.insert(0, note)


def as_lines(found: re.Match[str]) -> str:
    """The parameters of a signature, each on its line."""
    lines = found[2].replace("<dd>", "<div>").replace("</dd>", "</div>")
    return f'{found[1]}<div class="sig-lines">{lines}</div>'


def mend(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    """A list's children must be items: the role that docutils gives a work has been withdrawn."""
    if "body" in context:
        works = context["body"].replace('role="doc-biblioentry"', 'role="listitem"')
        context["body"] = CORNER.sub(r"<td\1></td>", SIGNATURE.sub(as_lines, works))


def setup(app: Sphinx) -> None:
    app.add_post_transform(NotesInItems)
    app.connect("html-page-context", mend)
