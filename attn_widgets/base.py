"""What every widget of the book is: an anywidget, and an element that a page can mount."""

import html
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from attn_notes.palette import visible
from attn_widgets.assets import module_source, page_of_its_own, page_style

# (caption, column headers, rows of (header, *cells)): the widget without JavaScript.
Table = tuple[str, Sequence[str], Sequence[Sequence[str]]]

_HOST_TRAITS = frozenset(anywidget.AnyWidget.class_trait_names(sync=True))  # such as layout


class BookWidget(anywidget.AnyWidget):
    """A widget with two hosts: live in a notebook, and on a published page without a kernel.

    A subclass names its front-end module in `_widget` and declares its state as synced traits;
    the page gets the same traits as JSON. `_table` says the same as plain text, and `_summary` in
    words and rounded numbers.
    """

    _widget = ""
    _table: Callable[[], Table]
    _summary: Callable[[], str]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        # anywidget subclasses us once more for each instance: only the named class is ours.
        if "_widget" in cls.__dict__:
            cls._esm = module_source(cls._widget)
            cls._css = page_style()
        super().__init_subclass__(**kwargs)

    def page_state(self) -> dict[str, Any]:
        """The initial state of the page's element, ready for JSON: our own synced traits."""
        ours = (name for name in self.keys if name not in _HOST_TRAITS)
        return {name: getattr(self, name) for name in ours if not name.startswith("_")}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._summary()})"

    def page_html(self, **changes: Any) -> str:
        """The element `<attn-widget>` on one line: its state as JSON, and a plain table."""
        described = {"widget": self._widget, "state": self.page_state() | changes}
        state = json.dumps(described, sort_keys=True, allow_nan=False)
        for character in "<>&":  # no token may end the script element or start a comment
            state = state.replace(character, f"\\u{ord(character):04x}")
        script = f'<script type="application/json">{state}</script>'
        fallback = f'<div class="attn-fallback">{table_html(*self._table())}</div>'
        return f"<attn-widget>{script}{fallback}</attn-widget>"

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        bundle = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
        return {**data, "text/plain": repr(self), "text/html": self.stored_html()}, metadata

    def stored_html(self) -> str:
        """What a notebook stores for pages, and shows where no widget can run."""
        return self.page_html()

    def save_html(self, path: str | Path) -> None:
        """Write one page that holds the widget as it now stands, and works without a network."""
        given = (getattr(self, "data", None) or {}).get("title")
        title = html.escape(visible(given or type(self).__name__))
        quiet = {"typing": "off"} if "typing" in self.keys else {}  # nobody will answer
        text = page_of_its_own(self.page_html(**quiet), self._widget, title)
        Path(path).write_text(text, encoding="utf-8")


class Pictured:
    """A widget whose map can be drawn and saved: `_picture` is what `plot_attention` is given."""

    _picture: Callable[[], dict[str, Any]]

    def plot(self) -> Any:
        """The map on show as a figure; returns matplotlib's axes."""
        from attn_notes.plotting import plot_attention  # noqa: PLC0415, widgets load no matplotlib

        return plot_attention(**self._picture())

    def save_png(self, path: str | Path, *, dpi: int = 200) -> None:
        """Write the map on show as a PNG file, on a transparent ground."""
        self._save(path, format="png", dpi=dpi)

    def save_svg(self, path: str | Path) -> None:
        """Write the map on show as an SVG file."""
        self._save(path, format="svg")

    def _save(self, path: str | Path, **options: Any) -> None:
        import matplotlib.pyplot as plt  # noqa: PLC0415

        from attn_notes.plotting import STYLE  # noqa: PLC0415

        with plt.rc_context(STYLE):  # type: ignore[arg-type]  # keys are rcParams' own literals
            figure = self.plot().figure
            figure.savefig(path, **options)
            plt.close(figure)


class DataWidget(BookWidget):
    """A widget that keeps what it was made from, as JSON, in `data`."""

    data = traitlets.Dict().tag(sync=True)


class Offered(traitlets.TraitType[Any, Any]):
    """A trait whose values the widget offers: a function of the widget lists them."""

    def __init__(self, offered: Callable[[Any], Sequence[Any]], default: Any = 0) -> None:
        super().__init__(default)
        self._offered = offered
        self.tag(sync=True)

    def validate(self, obj: Any, value: Any) -> Any:
        """The value, which must be among those offered now."""
        choices = self._offered(obj)
        if value not in choices:
            wanted = f"one of {', '.join(map(str, choices))}"
            if isinstance(choices, range):
                wanted = f"from {choices[0]} to {choices[-1]}"
            raise traitlets.TraitError(f"{self.name} must be {wanted}, got {value!r}")
        return value


def plural(count: int, noun: str) -> str:
    """The number and its noun: 1 head, 2 heads."""
    return f"{count} {noun}{'s' * (count != 1)}"


def table_html(caption: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A plain table; every string in it is data."""

    def cell(tag: str, text: str) -> str:
        return f"{tag}<bdi>{html.escape(visible(text))}</bdi></{tag[1:3]}>"

    head = "<td></td>" + "".join(cell('<th scope="col">', text) for text in columns)

    def line(first: str, *rest: str) -> str:
        cells = "".join(f"<td>{html.escape(text)}</td>" for text in rest)
        header = cell('<th scope="row">', first)
        return f"<tr>{header}{cells}</tr>"

    body = "".join(line(*map(str, row)) for row in rows)
    parts = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    return f"<table><caption>{html.escape(caption)}</caption>{parts}</table>"
