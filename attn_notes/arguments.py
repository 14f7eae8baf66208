"""Checks of arguments: an error says what must hold, then what came.

Numbers first, then tensors, then the shapes that attention asks for, then installed libraries.
"""

import math
from collections.abc import Iterable
from numbers import Integral
from typing import Any, Literal, get_args, get_origin, get_type_hints

import torch
from torch import Tensor, nn

from attn_notes.modes import is_autocast

Device = torch.device | str | None


def check_integers(least: int | None = None, /, **numbers: int) -> None:
    """Raise unless all are integers (of Python or numpy; no bool), and at least `least`."""
    for name, number in numbers.items():
        is_integer = isinstance(number, int | torch.SymInt | Integral)  # SymInt: in a traced graph
        if not is_integer or isinstance(number, bool):
            raise TypeError(f"{name} must be an integer, got {number!r}")
        if least is not None and number < least:
            raise ValueError(f"{name} must be at least {least}, got {number}")


def check_positive(**numbers: float) -> None:
    """Raise unless all are finite numbers above 0."""
    for name, number in numbers.items():
        if not 0 < number < math.inf:
            raise ValueError(f"{name} must be a positive number, got {number}")


def check_fractions(**numbers: float) -> None:
    """Raise unless all are numbers from 0 to 1."""
    for name, number in numbers.items():
        if not 0 <= number <= 1:
            raise ValueError(f"{name} must be from 0 to 1, got {number}")


def check_divides(name: str, parts: int, whole: str, size: int) -> None:
    """Raise unless `parts` divides `size`."""
    if size % parts:
        raise ValueError(f"{name} must divide {whole}, got {name} = {parts} and {whole} = {size}")


def check_choices(settings: object) -> None:
    """Raise unless each field of a dataclass that is bool, or one of a few values, is so."""
    for name, kind in get_type_hints(type(settings)).items():
        choices = (False, True) if kind is bool else get_args(kind)
        is_choice = kind is bool or get_origin(kind) is Literal
        if is_choice and (choice := getattr(settings, name)) not in choices:
            raise ValueError(f"{name} must be one of {choices}, got {choice!r}")


def check_tensors(**tensors: Tensor) -> None:
    """Raise unless all are tensors: a list has no shape to check."""
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{name} must be a tensor, got {type(tensor).__name__}")


def check_integer_tensors(**tensors: Tensor) -> None:
    """Raise unless all are tensors of integers; their values are not read."""
    check_tensors(**tensors)
    for name, tensor in tensors.items():
        if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool:
            raise TypeError(f"{name} must be integers, got {tensor.dtype}")


def check_floating(**tensors: Tensor) -> None:
    """Raise unless all are floating-point tensors of the same dtype; autocast may mix dtypes."""
    check_tensors(**tensors)
    dtypes = [tensor.dtype for tensor in tensors.values()]
    agree = len({*dtypes}) == 1 or is_autocast(next(iter(tensors.values())))
    if not agree or not all(dtype.is_floating_point for dtype in dtypes):
        must = "floating point" + " and of the same dtype" * (len(tensors) > 1)
        raise TypeError(f"{_listed(tensors)} must be {must}, got {_listed(map(str, dtypes))}")


def look_up(table: nn.Embedding, ids: Tensor, name: str) -> Tensor:
    """The rows of `table` at these ids; an id out of range is named (on a GPU torch fails)."""
    check_integer_tensors(**{name: ids})
    try:
        return table(ids.long())  # torch takes neither uint8 nor int16
    except IndexError:  # "index out of range in self": neither which nor in what
        low, high = (int(bound) for bound in ids.aminmax())
        last = table.num_embeddings - 1
        got = f"got ids from {low} to {high}"
        raise ValueError(f"{name} must be ids from 0 to {last}, {got}") from None


def check_shapes(**tensors: tuple[Tensor, str]) -> None:
    """Raise unless x=(x, "... L 8") and the others have such axes: a name is one size in all."""
    check_tensors(**{name: tensor for name, (tensor, _) in tensors.items()})
    sizes: dict[str, Any] = {}
    for tensor, axes in tensors.values():
        names = axes.split()
        shape: tuple[Any, ...] = tensor.shape
        if names[0] == "...":  # the leading axes, however many
            rest = len(shape) - len(names) + 1
            shape = (shape[:rest], *shape[rest:]) if rest >= 0 else ()
        fits = len(names) == len(shape)
        for name, size in zip(names, shape, strict=False):
            wanted = int(name) if name.isdigit() else sizes.setdefault(name, size)
            fits = fits and size == wanted
        if not fits:
            shapes = [str(tuple(x.split())).replace("'", "") for _, x in tensors.values()]
            got = shapes_of(**{name: x for name, (x, _) in tensors.items()})
            must = f"{_listed(tensors)} must have shape{'s' * (len(shapes) > 1)}"
            raise ValueError(f"{must} {_listed(shapes)}, got {got}")


def check_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor | None = None,
    *,
    attn_mask: Tensor | None = None,
    attn_bias: Tensor | None = None,
) -> None:
    """Raise unless query (..., L, D), key (..., S, D), value (..., S, Dv), mask and bias fit."""
    named = {"query": query, "key": key}
    if value is not None:
        named["value"] = value
    check_floating(**named)
    q, k, v = query.shape, key.shape, (key if value is None else value).shape
    if min(len(q), len(k)) > 1 and q[-1] != k[-1]:
        got = shapes_of(query=query, key=key)
        raise ValueError(f"query and key must share head_dim (last axis), got {got}")
    if min(len(q), len(k), len(v)) < 2 or not q[:-2] == k[:-2] == v[:-2] or k[-2] != v[-2]:
        names = "(..., L, D), (..., S, D) and (..., S, Dv)"
        raise ValueError(f"query, key and value must be {names}, got {shapes_of(**named)}")
    if not q[-1]:
        raise ValueError(f"head_dim must be at least 1, got {shapes_of(query=query, key=key)}")
    if attn_mask is not None or attn_bias is not None:
        check_mask_and_bias(attn_mask, attn_bias, torch.Size((*q[:-1], k[-2])))


def check_mask_and_bias(mask: Tensor | None, bias: Tensor | None, shape: torch.Size) -> None:
    """Raise unless both, where given, broadcast to scores of this shape."""
    if bias is not None:
        check_floating(attn_bias=bias)
        check_broadcast("attn_bias", bias, shape)
    if mask is not None:
        check_mask(mask, shape)


def check_bool(mask: Tensor) -> None:
    """Raise unless the mask is a bool tensor."""
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        got = getattr(mask, "dtype", type(mask).__name__)
        raise TypeError(f"mask must be a bool tensor (True = may attend), got {got}")


def check_mask(mask: Tensor, shape: torch.Size, *, of: str = "scores") -> None:
    """Raise unless the mask is bool and broadcasts to scores (the message says `of`) of this shape.

    Three axes on four would line the batch up with the heads, and are refused.
    """
    check_bool(mask)
    if mask.dim() == 3 and len(shape) == 4:
        wanted = f"a head axis for {of} (B, H, L, S), so pass mask[:, None]"
        shapes = f"got mask {tuple(mask.shape)} and {of} {tuple(shape)}"
        raise ValueError(f"mask must have {wanted}; {shapes}")
    check_broadcast("mask", mask, shape, of=of)


def check_broadcast(name: str, tensor: Tensor, shape: torch.Size, *, of: str = "scores") -> None:
    """Raise unless the tensor broadcasts to scores (or `of`) of this shape, widening no axis."""
    sizes = zip(reversed(tensor.shape), reversed(shape), strict=False)
    if tensor.dim() > len(shape) or any(t not in (1, s) for t, s in sizes):
        got = f"got {name} {tuple(tensor.shape)} and {of} {tuple(shape)}"
        raise ValueError(f"{name} must broadcast to the {of}, {got}")


def shapes_of(**tensors: Tensor) -> str:
    """The shapes that came, for an error's words: `query (5, 8) and key (7, 4)`."""
    return _listed(f"{name} {tuple(tensor.shape)}" for name, tensor in tensors.items())


def check_source(source: Tensor, lengths: Tensor | None) -> Tensor:
    """Raise unless there is one length per source (B, S); return the lengths, S by default."""
    if lengths is None:
        check_shapes(source=(source, "B S"))
        return torch.full(source.shape[:1], source.shape[1], device=source.device)
    check_shapes(source=(source, "B S"), lengths=(lengths, "B"))
    return lengths


def check_step(tokens: Tensor, rows: int) -> None:
    """Raise unless there is one token for each row of the state."""
    check_tensors(tokens=tokens)
    if tokens.shape != (rows,):
        wanted = f"tokens must have shape (B,), one for each row of the state, {rows}"
        raise ValueError(f"{wanted}, got {tuple(tokens.shape)}")


def _listed(words: Iterable[str]) -> str:
    """`a`, `a and b`, or `a, b and c`."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
