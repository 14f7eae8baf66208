"""Any torch function as a widget: `explore(function, **controls)`."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import traitlets
from torch import Tensor

from attn_notes.widgets import encoding
from attn_notes.widgets.base import DataWidget, Table, plural
from attn_notes.widgets.heatmap import weights_table

__all__ = ["Explorer", "explore"]

Control = tuple[float, float, float] | Sequence[Any] | bool

MOST_CELLS = 37_500  # of all frames on a page: 100 kB at two bytes a cell, in base64


def explore(
    function: Callable[..., Tensor],
    *,
    query_tokens: Sequence[str] | None = None,
    key_tokens: Sequence[str] | None = None,
    title: str = "",
    **controls: Control,
) -> "Explorer":
    """Turn a function that returns weights into a heatmap with one control for each argument.

    With a live kernel the function is called as the reader moves. A published page has its results
    over the whole grid of the controls, taken when the widget is made: 100 kB of them at most.
    So it must give the same for the same arguments.

    Args:
        function: takes one keyword argument a control; returns weights from 0 to 1, always (L, S).
        query_tokens, key_tokens: L and S strings; the rows' serve the columns too where L = S.
        title: a line above the map.
        **controls: for each argument of `function`: `(low, high, step)` for a slider, a list of
            choices (numbers or strings) for a menu, or `True`/`False` for a box and its start.
            A slider starts at `low`, a menu at its first choice.

    Returns:
        The widget; `widget.values` holds the arguments now chosen.

    Example:
        >>> def flat(keys):
        ...     return torch.full((2, 3), 1 / 3, device="cpu")
        >>> explore(flat, keys=[3])
        Explorer(keys=3; 1 frame of 2 queries x 3 keys)
    """
    return Explorer(function, controls, title, query_tokens=query_tokens, key_tokens=key_tokens)


class Explorer(DataWidget):
    """The widget that `explore` makes, from the same arguments."""

    _widget = "explore"
    values = traitlets.Dict().tag(sync=True)
    frame = traitlets.Dict().tag(sync=True)
    error = traitlets.Unicode("").tag(sync=True)
    shared_scale = traitlets.Bool(False).tag(sync=True)

    def __init__(
        self,
        function: Callable[..., Tensor],
        controls: dict[str, Control],
        title: str,
        **tokens: Any,
    ) -> None:
        self._function = function
        grid = {name: _choices(name, control) for name, control in controls.items()}
        first = {name: choices[0] for name, choices in grid.items()}
        first.update({name: c for name, c in controls.items() if isinstance(c, bool)})
        L, S = shape = self._call(first).shape
        fit = [len(choices) for choices in grid.values()]
        count, most = math.prod(fit), MOST_CELLS // (L * S)
        if count > most:
            while math.prod(fit) > max(most, 1):  # thin out the longest control first
                fit[fit.index(max(fit))] -= 1
            fitting = f"{' x '.join(map(str, fit))} would fit ({', '.join(grid)})"
            fitting = fitting if most else f"at most {MOST_CELLS} cells fit"
            raise ValueError(f"{count} frames of {L * S} cells are beyond 100 kB; {fitting}")
        points = list(itertools.product(*grid.values()))
        self._frames = [self._call(dict(zip(grid, point, strict=True)), shape) for point in points]
        kinds = {bool: "box", tuple: "slider", list: "menu"}
        listed = [
            {"name": name, "kind": kinds[type(controls[name])], "choices": choices}
            for name, choices in grid.items()
        ]
        axes = encoding.check_axes(L, S, **tokens)
        data = {"controls": listed, **axes, "title": encoding.replace_surrogates(title)}
        start = self._frames[points.index(tuple(first.values()))]  # as on a page: not called again
        super().__init__(data=data, values=first, frame=encoding.encode(start))
        self.observe(self._recompute, "values")

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

    def _recompute(self, _: Any) -> None:
        """Answer the reader's move; an error of the function is shown."""
        try:
            weights = self._call(dict(self.values), torch.Size(self.frame["shape"]))
            self.frame = encoding.encode(weights)
            self.error = ""
        except Exception as error:  # the reader's function may raise anything
            self.error = f"{type(error).__name__}: {error}"

    def shown(self) -> Tensor:
        """The weights on the map, (L, S)."""
        return encoding.decode(self.frame)

    def page_state(self) -> dict[str, Any]:
        """As `BookWidget.page_state`, with the frames that answer without a kernel."""
        return {**super().page_state(), "frames": encoding.encode(torch.stack(self._frames))}

    def _summary(self) -> str:
        values = ", ".join(f"{name}={value}" for name, value in self.values.items())
        L, S = self.frame["shape"]
        return f"{values}; {plural(len(self._frames), 'frame')} of {L} queries x {S} keys"

    def _table(self) -> Table:
        return weights_table(self.shown(), None, self.data["queries"], self.data["keys"])


def _choices(name: str, control: Control) -> list[Any]:
    """Every value that a control can take on the page."""
    if isinstance(control, bool):
        return [False, True]
    if isinstance(control, list) and control:
        return list(control)
    if not isinstance(control, tuple):
        wanted = "(low, high, step), a list of choices, or True/False"
        raise TypeError(f"a control is {wanted}, got {name}={control!r}")
    low, high, step = control
    steps = (high - low) / step + 1e-6 if step > 0 else 0.0
    if not 1 <= steps < MOST_CELLS:  # before a list of them fills the memory
        wanted = f"a slider (low, high, step) must have from 2 to {MOST_CELLS} positions"
        raise ValueError(f"{wanted}, got {name}={control!r}")
    digits = 6 - math.floor(math.log10(step))  # 0.1 + 0.2 is 0.3 to a reader
    return [round(low + n * step, digits) for n in range(math.floor(steps) + 1)]
