"""Any torch function as a widget: `explore(function, **controls)`."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import traitlets
from torch import Tensor

from attn_notes.widgets.base import BookWidget, Table
from attn_notes.widgets.encoding import decode, encode, finite, tokens_for, whole
from attn_notes.widgets.heatmap import weights_table

__all__ = ["Explorer", "explore"]

Control = tuple[float, float, float] | Sequence[Any] | bool

MOST_BYTES = 100_000  # of frames on a page


def explore(
    function: Callable[..., Tensor],
    *,
    query_tokens: Sequence[str] | None = None,
    key_tokens: Sequence[str] | None = None,
    title: str = "",
    **controls: Control,
) -> "Explorer":
    """Turn a function that returns weights into a heatmap with one control for each argument.

    With a live kernel the function is called as the reader moves. On a published page, which has
    none, the map answers from frames: the function's results over the whole grid of the
    controls, taken once when the widget is made. So it must give the same for the same arguments.

    Args:
        function: takes one keyword argument a control, returns weights (L, S), from 0 to 1, of
            one shape for all arguments.
        query_tokens: L strings for the rows; serve the columns too where L = S.
        key_tokens: S strings for the columns.
        title: a line above the map.
        **controls: for each argument of `function`: `(low, high, step)` for a slider, a list of
            choices (numbers or strings) for a menu, or `True`/`False` for a box and its start.
            A slider starts at `low`, a menu at its first choice.

    Returns:
        The widget; `widget.values` holds the arguments now chosen.

    Raises:
        TypeError: a function that returns anything but a tensor (L, S), or a control that is
            none of the three.
        ValueError: no control; a slider that goes nowhere; frames beyond 100 kB, with the grid
            that would fit; weights that are not finite, outside 0 to 1, or change their shape.

    Example:
        >>> def flat(keys):
        ...     return torch.full((2, 3), 1 / 3, device="cpu")
        >>> explore(flat, keys=[3])
        Explorer(keys=3; 1 frame of 2 queries x 3 keys)
    """
    if not controls:
        raise ValueError("explore needs at least one control, such as width=(0.1, 2.0, 0.1)")
    return Explorer(function, controls, query_tokens, key_tokens, title)


class Explorer(BookWidget):
    """The widget that `explore` makes, from the same arguments.

    Args:
        function: as in `explore`.
        controls: those of `explore`, by name.
        query_tokens: as in `explore`.
        key_tokens: as in `explore`.
        title: as in `explore`.

    Raises:
        TypeError: as `explore` does.
        ValueError: as `explore` does.

    Example:
        >>> Explorer(lambda size: torch.eye(size, device="cpu"), {"size": [2]}, None, None, "")
        Explorer(size=2; 1 frame of 2 queries x 2 keys)
    """

    _widget = "explore"

    data = traitlets.Dict().tag(sync=True)
    values = traitlets.Dict().tag(sync=True)
    frame = traitlets.Dict().tag(sync=True)
    error = traitlets.Unicode("").tag(sync=True)
    shared_scale = traitlets.Bool(False).tag(sync=True)

    def __init__(
        self,
        function: Callable[..., Tensor],
        controls: dict[str, Control],
        query_tokens: Sequence[str] | None,
        key_tokens: Sequence[str] | None,
        title: str,
    ) -> None:
        self._function = function
        grid = {name: _choices(name, control) for name, control in controls.items()}
        first = {name: choices[0] for name, choices in grid.items()}
        first.update({name: c for name, c in controls.items() if isinstance(c, bool)})
        L, S = self._call(first).shape
        _check_size(grid, L * S)
        self._frames = [
            self._call(dict(zip(grid, point, strict=True)), (L, S))
            for point in itertools.product(*grid.values())
        ]
        queries = tokens_for("query_tokens", query_tokens, L)
        keys = tokens_for("key_tokens", key_tokens, S)
        if keys is None and L == S:
            keys = queries
        kinds = {name: _kind(control) for name, control in controls.items()}
        data = {
            "controls": [
                {"name": name, "kind": kinds[name], "choices": grid[name]} for name in grid
            ],
            "queries": queries,
            "keys": keys,
            "title": whole(title),
        }
        points = itertools.product(*grid.values())
        start = list(points).index(tuple(first.values()))
        frame = _encode(self._frames[start])  # not called once more: live and page start alike
        super().__init__(data=data, values=first, frame=frame)
        self.observe(self._recompute, "values")

    @traitlets.validate("values")
    def _on_the_grid(self, proposal: Any) -> dict[str, Any]:
        """Each value as the choice it stands for: JSON has no 1.0, and sends it as 1."""
        grid = {control["name"]: control["choices"] for control in self.data["controls"]}
        values = proposal["value"]
        if set(values) != set(grid):
            raise traitlets.TraitError(f"values must name {', '.join(grid)}, got {values}")
        for name, value in values.items():
            if value not in grid[name]:
                raise traitlets.TraitError(f"{name} must be one of {grid[name]}, got {value!r}")
        return {name: choices[choices.index(values[name])] for name, choices in grid.items()}

    def _call(self, values: dict[str, Any], shape: tuple[int, ...] | None = None) -> Tensor:
        """The function's weights at `values`, checked."""
        weights = self._function(**values)
        if not isinstance(weights, Tensor) or weights.dim() != 2:
            got = tuple(weights.shape) if isinstance(weights, Tensor) else type(weights).__name__
            raise TypeError(f"the function must return weights of shape (L, S), got {got}")
        weights = finite("the function's weights", weights, 2)
        if shape is not None and weights.shape != shape:
            raise ValueError(
                f"the function must keep its shape {tuple(shape)}, got {tuple(weights.shape)} "
                f"at {values}"
            )
        if weights.min() < 0 or weights.max() > 1 + 1e-6:
            raise ValueError(
                "the function's weights must be from 0 to 1, got "
                f"{weights.min():.4g} to {weights.max():.4g} at {values}"
            )
        return weights

    def _recompute(self, _: Any) -> None:
        """Answer the reader's move; what the function raises is shown, not swallowed."""
        shape = tuple(self.frame["shape"])
        try:
            self.frame = _encode(self._call(dict(self.values), shape))
            self.error = ""
        except Exception as error:  # the reader's function may raise anything
            self.error = f"{type(error).__name__}: {error}"

    def shown(self) -> Tensor:
        """The weights that the map shows now.

        Returns:
            (L, S), float64.
        """
        return decode(self.frame)

    def page_state(self) -> dict[str, Any]:
        """The state for a page: the same traits, and the frames that answer without a kernel.

        Returns:
            Trait names and values, ready for JSON.
        """
        return {**super().page_state(), "frames": _encode(torch.stack(self._frames))}

    def _summary(self) -> str:
        values = ", ".join(f"{name}={value}" for name, value in self.values.items())
        L, S = self.frame["shape"]
        count = len(self._frames)
        frames = f"{count} frame{'s' if count > 1 else ''}"
        return f"{values}; {frames} of {L} queries x {S} keys"

    def _table(self) -> Table:
        return weights_table(self.shown(), None, self.data["queries"], self.data["keys"])


def _encode(weights: Tensor) -> dict[str, Any]:
    return encode(weights, low=0.0, high=1.0)


def _kind(control: Control) -> str:
    if isinstance(control, bool):
        return "box"
    return "slider" if isinstance(control, tuple) else "menu"


def _choices(name: str, control: Control) -> list[Any]:
    """Every value that a control can take on the page."""
    if isinstance(control, bool):
        return [False, True]
    if isinstance(control, tuple):
        return _positions(name, control)
    if not isinstance(control, list) or not control:
        raise TypeError(
            "a control is (low, high, step), a list of choices, or True/False, got "
            f"{name}={control!r}"
        )
    if not all(isinstance(x, int | float | str) for x in control):
        raise TypeError(f"a menu holds numbers or strings, got {name}={control!r}")
    if not all(math.isfinite(x) for x in control if isinstance(x, float)):
        raise ValueError(f"a menu's numbers must be finite, got {name}={control!r}")
    if len(set(control)) < len(control):  # 1 and True are one value to Python
        raise ValueError(f"a menu's choices must differ, got {name}={control!r}")
    return list(control)


def _positions(name: str, control: tuple[Any, ...]) -> list[float]:
    """Every position of a slider (low, high, step)."""
    if len(control) != 3 or not all(isinstance(x, int | float) for x in control):
        raise TypeError(f"a slider is (low, high, step), got {name}={control!r}")
    low, high, step = control
    if not (low < high and step > 0 and math.isfinite(low + high + step)):
        raise ValueError(f"a slider needs low < high and step > 0, got {name}={control!r}")
    if (high - low) / step > MOST_BYTES:  # before a list of them fills the memory
        raise ValueError(f"a slider must have fewer positions to fit, got {name}={control!r}")
    count = math.floor((high - low) / step + 1e-6) + 1
    if count < 2:
        raise ValueError(f"a slider needs two positions at least, got {name}={control!r}")
    digits = 6 - math.floor(math.log10(step))  # 0.1 + 0.2 is 0.3 to a reader
    return [round(low + n * step, digits) for n in range(count)]


def _check_size(grid: dict[str, list[Any]], cells: int) -> None:
    """Raise unless the frames of the whole grid fit a page, saying which grid would."""
    points = math.prod(len(choices) for choices in grid.values())
    # Two bytes a cell, four characters for three bytes.
    most = int(MOST_BYTES * 3 / 4 / 2 / cells)
    if points <= most:
        return
    shape = " x ".join(str(len(choices)) for choices in grid.values())
    if most < 1:
        raise ValueError(
            f"one frame of {cells} cells is beyond {MOST_BYTES // 1000} kB; at most "
            f"{MOST_BYTES * 3 // 8} cells fit"
        )
    fit = {name: len(choices) for name, choices in grid.items()}
    while math.prod(fit.values()) > most:  # thin out the longest control first
        longest = max(fit, key=lambda name: fit[name])
        fit[longest] -= 1
    would = " x ".join(str(count) for count in fit.values())
    raise ValueError(
        f"{shape} = {points} frames of {cells} cells are beyond {MOST_BYTES // 1000} kB; "
        f"{would} would fit ({', '.join(grid)}): use larger steps or fewer choices"
    )
