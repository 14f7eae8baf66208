"""Any torch function as a widget: `explore(function, **controls)`."""

import ctypes
import io
import itertools
import math
import threading
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout, suppress
from functools import partial
from typing import Any

import torch
import traitlets
from torch import Tensor

from attn_widgets import encoding
from attn_widgets.base import DataWidget, Table, plural
from attn_widgets.heatmap import weights_table

Control = tuple[float, float, float] | Sequence[Any] | bool

MOST_CELLS = 37_500  # of all frames on a page: 100 kB at two bytes a cell, in base64
MOST_PRINTED = 2000  # characters of what a function prints
PATIENCE = 0.25  # seconds that a call may still take once a newer one waits


def explore(
    function: Callable[..., Tensor],
    *,
    page: bool = False,
    query_tokens: Sequence[str] | None = None,
    key_tokens: Sequence[str] | None = None,
    title: str = "",
    curve: tuple[str, Sequence[float]] | None = None,
    **controls: Control,
) -> "Explorer":
    """Turn a function that returns weights into a heatmap with one control for each argument.

    With a live kernel the function is called as the reader moves, in a thread: a move interrupts
    a slow call for the one before. What the function prints is shown, and so is its error.

    Args:
        function: takes one keyword argument a control; returns weights from 0 to 1, always (L, S).
        page: whether the widget also answers on a published page, where no kernel runs: the
            function is called at once for the whole grid of the controls, 100 kB of results at
            most. It must give the same for the same arguments.
        query_tokens: L strings, the rows.
        key_tokens: S strings, the columns; by default those of the rows where L = S.
        title: a line above the map.
        curve: a name and a number for each position of the first slider, such as a loss: a line
            beside the map, with a mark where the slider stands.
        **controls: for each argument of `function`: `(low, high, step)` for a slider, a list of
            choices (numbers or strings) for a menu, or `True`/`False` for a box and its start.
            A slider starts at `low`, a menu at its first choice; the first slider can be played.

    Returns:
        The widget; `widget.values` holds the arguments now chosen.

    Example:
        >>> def flat(keys):
        ...     return torch.full((2, 3), 1 / 3, device="cpu")
        >>> explore(flat, keys=[3])
        Explorer(keys=3; 2 queries x 3 keys)
    """
    tokens = query_tokens, key_tokens
    return Explorer(function, controls, tokens, title, page=page, curve=curve)


class Explorer(DataWidget):
    """The widget that `explore` makes, from the same arguments."""

    _widget = "explore"
    values = traitlets.Dict().tag(sync=True)
    answered = traitlets.Dict().tag(sync=True)  # the values that the rest belongs to
    frame = traitlets.Dict().tag(sync=True)
    error = traitlets.Unicode("").tag(sync=True)
    printed = traitlets.Unicode("").tag(sync=True)
    shared_scale = traitlets.Bool(False).tag(sync=True)

    def __init__(
        self,
        function: Callable[..., Tensor],
        controls: dict[str, Control],
        tokens: tuple[Sequence[str] | None, Sequence[str] | None],
        title: str,
        *,
        page: bool,
        curve: tuple[str, Sequence[float]] | None = None,
    ) -> None:
        self._function, self._latest, self._is_moved = function, LatestCall(), False
        listed = [_listed(name, control) for name, control in controls.items()]
        grid = {one["name"]: one["choices"] for one in listed}
        first = {name: choices[0] for name, choices in grid.items()}
        first.update({name: c for name, c in controls.items() if isinstance(c, bool)})
        self._device = torch.get_default_device()  # a thread starts with torch's own
        start = self._call(first)
        self._frames = self._sample(grid, start.shape) if page else None
        axes = encoding.check_axes(len(start), start.shape[1], *tokens)
        data = {"controls": listed, **axes, "title": encoding.replace_surrogates(title)}
        if curve is not None:
            data["curve"] = _checked_curve(curve, listed)
        frame = encoding.encode_weights(start)
        super().__init__(data=data, values=first, answered=first, frame=frame)
        self.observe(self._recompute, "values")

    def _sample(self, grid: dict[str, list[Any]], shape: torch.Size) -> Tensor:
        """The function's weights over the whole grid, (points, L, S), in the grid's order."""
        fit = [len(choices) for choices in grid.values()]
        count, most = math.prod(fit), MOST_CELLS // shape.numel()
        if count > most:
            while math.prod(fit) > max(most, 1):  # thin out the longest control first
                fit[fit.index(max(fit))] -= 1
            fitting = f"{' x '.join(map(str, fit))} would fit ({', '.join(grid)})"
            fitting = fitting if most else f"at most {MOST_CELLS} cells fit"
            wanted = f"{count} frames of {shape.numel()} cells are beyond 100 kB of a page"
            raise ValueError(f"{wanted}; {fitting}; without page=True any size is answered live")
        points = itertools.product(*grid.values())
        named = (dict(zip(grid, point, strict=True)) for point in points)
        return torch.stack([self._call(values, shape) for values in named])

    @traitlets.validate("values")
    def _check_values(self, proposal: Any) -> dict[str, Any]:
        """Each value as the choice it stands for: JSON has no 1.0, and sends it as 1."""
        grid = {control["name"]: control["choices"] for control in self.data["controls"]}
        values = proposal["value"]
        if set(values) != set(grid) or any(values[name] not in grid[name] for name in grid):
            raise traitlets.TraitError(f"values must be among {grid}, got {values}")
        return {name: choices[choices.index(values[name])] for name, choices in grid.items()}

    def _call(self, values: dict[str, Any], shape: torch.Size | None = None) -> Tensor:
        """The function's weights at `values`, checked."""
        weights = self._function(**values)
        if not isinstance(weights, Tensor) or weights.dim() != 2:
            got = tuple(weights.shape) if isinstance(weights, Tensor) else type(weights).__name__
            raise TypeError(f"the function must return weights of shape (L, S), got {got}")
        if shape is not None and weights.shape != shape:
            new = f"{tuple(weights.shape)} at {values}"
            raise ValueError(f"the function must keep its shape {tuple(shape)}, got {new}")
        return encoding.as_weights(f"the function's weights at {values}", weights, 2)

    def set_state(self, sync_data: dict[str, Any]) -> None:
        """As of every widget; remember meanwhile that it is the reader who moves."""
        self._is_moved = True
        try:
            super().set_state(sync_data)
        finally:
            self._is_moved = False

    def _recompute(self, _: Any) -> None:
        """Answer the reader's move in a thread, and a change in Python at once."""
        work = partial(self._answer, dict(self.values))
        if self._is_moved:
            self._latest.start(work, self._publish)
        else:
            self._publish(work())

    def _answer(self, values: dict[str, Any]) -> dict[str, Any]:
        """The traits that show what the function gives, prints and raises."""
        found, error, printed = self.frame, "", io.StringIO()
        try:
            with redirect_stdout(printed), self._device:
                weights = self._call(values, torch.Size(self.frame["shape"]))
            found = encoding.encode_weights(weights)
        except Exception as raised:  # the reader's function may raise anything
            error = encoding.replace_surrogates(f"{type(raised).__name__}: {raised}")
        text = encoding.replace_surrogates(printed.getvalue()[-MOST_PRINTED:])
        return {"frame": found, "error": error, "printed": text, "answered": values}

    def _publish(self, traits: dict[str, Any]) -> None:
        with self.hold_sync():  # one message: no moment at which the parts do not fit
            for name, value in traits.items():
                setattr(self, name, value)

    def shown(self) -> Tensor:
        """The weights on the map, (L, S)."""
        return encoding.decode(self.frame)

    def page_state(self) -> dict[str, Any]:
        """As `BookWidget.page_state`, with the frames that answer without a kernel, or None."""
        frames = None if self._frames is None else encoding.encode_weights(self._frames)
        return {**super().page_state(), "frames": frames}

    def _summary(self) -> str:
        values = ", ".join(f"{name}={value}" for name, value in self.values.items())
        L, S = self.frame["shape"]
        frames = "" if self._frames is None else f"{plural(len(self._frames), 'frame')} of "
        return f"{values}; {frames}{L} queries x {S} keys"

    def _table(self) -> Table:
        return weights_table(self.shown(), None, self.data["queries"], self.data["keys"])


def _listed(name: str, control: Control) -> dict[str, Any]:
    """A control as the front end reads it, with every value that it can take."""
    if isinstance(control, bool):
        return {"name": name, "kind": "box", "choices": [False, True]}
    if isinstance(control, list) and control:
        return {"name": name, "kind": "menu", "choices": list(control)}
    if not isinstance(control, tuple):
        wanted = "(low, high, step), a list of choices, or True/False"
        raise TypeError(f"a control is {wanted}, got {name}={control!r}")
    low, high, step = control
    steps = (high - low) / step + 1e-6 if step > 0 else 0.0
    if not 1 <= steps < MOST_CELLS:  # before a list of them fills the memory
        wanted = f"a slider (low, high, step) must have from 2 to {MOST_CELLS} positions"
        raise ValueError(f"{wanted}, got {name}={control!r}")
    digits = 6 - math.floor(math.log10(step))  # 0.1 + 0.2 is 0.3 to a reader
    choices = [round(low + n * step, digits) for n in range(math.floor(steps) + 1)]
    return {"name": name, "kind": "slider", "choices": choices}


def _checked_curve(curve: tuple[str, Sequence[float]], listed: list[dict[str, Any]]) -> Any:
    """The curve along the first slider as the front end reads it, in six digits."""
    label, values = curve[0], [float(f"{float(value):.6g}") for value in curve[1]]
    count = next((len(one["choices"]) for one in listed if one["kind"] == "slider"), 0)
    if not count:
        names = ", ".join(one["name"] for one in listed)
        raise ValueError(f"a curve needs a slider (low, high, step), got none among {names}")
    if len(values) != count or not all(map(math.isfinite, values)):
        wanted = f"a curve must have a finite number for each of the slider's {count} positions"
        raise ValueError(f"{wanted}, got {len(values)}: {values}")
    return {"label": encoding.replace_surrogates(label), "values": values}


class LatestCall:
    """Runs one call at a time in a thread; of those that wait, only the newest is run."""

    def __init__(self) -> None:
        self._last: threading.Thread | None = None
        self._working: threading.Thread | None = None  # the one that may be interrupted
        self._lock = threading.Lock()  # held by who publishes, or interrupts

    def start(self, work: Callable[[], Any], publish: Callable[[Any], None]) -> None:
        """Pass the result of `work` to `publish`, unless a newer call starts in the meantime."""
        given = self._last, work, publish
        self._last = threading.Thread(target=self._run, args=given, daemon=True)
        self._last.start()

    def _run(
        self, before: threading.Thread | None, work: Callable[[], Any], publish: Callable[..., None]
    ) -> None:
        if before is not None:
            before.join(PATIENCE)
            self._interrupt(before)
            before.join()
        if (this := threading.current_thread()) is not self._last:
            return
        with suppress(SystemExit):
            self._working = this
            result = work()
            with self._lock:
                self._working = None
                publish(result)

    def _interrupt(self, thread: threading.Thread) -> None:
        """Raise in a thread at work what no `except Exception` catches.

        Python code ends at its next line, an operation of torch when it is through.
        """
        with self._lock:
            # One that only waits must live, to interrupt the one before it.
            if thread is self._working and thread.is_alive():
                ident, error = ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, error)
