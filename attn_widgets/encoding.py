"""Encode tensors for the front end, which `static/numbers.js` decodes, and check them first."""

import base64
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

WIDEST = 100  # range of scores that 16 bits resolve to 0.0015
ROUNDING = 1e-4  # how far outside 0 to 1 a weight may be
LONGEST = 10_000  # characters of a token, of which a page shows the first few
LOOSE = 0.01  # how far from 1 the sum of a row may be: half precision on a long sequence


@contextmanager
def on_one_thread() -> Iterator[None]:
    """Use one of torch's threads: many short steps wait for the slowest thread of a busy machine.

    On two cores under a load of ten, a view of 144 heads of 256 tokens took 25 seconds on two
    threads and 1.2 on one.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def as_finite(name: str, numbers: Any, *axes: int) -> Tensor:
    """A float64 copy on the CPU of finite numbers with one of these numbers of axes."""
    tensor = torch.as_tensor(numbers, device="cpu").detach()
    if tensor.is_complex():
        raise TypeError(f"{name} must be real numbers, got {tensor.dtype}")
    if tensor.dim() not in axes or not tensor.numel():
        wanted, got = " or ".join(map(str, axes)), tuple(tensor.shape)
        raise ValueError(f"{name} must have {wanted} axes and not be empty, got shape {got}")
    if not bool(tensor.isfinite().all()):
        raise ValueError(f"{name} must be finite, got NaN or infinity")
    return tensor.to(torch.float64, copy=True)


def as_weights(name: str, weights: Any, *axes: int, normalised: bool = False) -> Tensor:
    """As `as_finite`, from 0 to 1 but for rounding; where `normalised`, the rows sum to 1."""
    return check_weights(name, as_finite(name, weights, *axes), normalised=normalised)


def check_weights(name: str, tensor: Tensor, *, normalised: bool = False) -> Tensor:
    """A copy of finite weights, which lie between 0 and 1 but for rounding."""
    low, high = map(float, tensor.aminmax())
    if not math.isfinite(high - low):
        raise ValueError(f"{name} must be finite, got NaN or infinity")
    if low < -ROUNDING or high > 1 + ROUNDING:
        raise ValueError(f"{name} must be from 0 to 1, got {low:.7g} to {high:.7g}")
    apart = (tensor.sum(-1) - 1).abs().max() if normalised else 0.0
    if apart > LOOSE:
        raise ValueError(f"rows of {name} must sum to 1, got a sum that differs by {apart:.4g}")
    return tensor.clamp(0, 1)


def check_tokens(name: str, tokens: Sequence[str], size: int | None = None) -> list[str]:
    """A list of `size` strings that can be sent to a browser."""
    if isinstance(tokens, str):
        raise TypeError(f"{name} must be a list of strings, got the one string {tokens!r}")
    for token in tokens:
        if not isinstance(token, str):
            raise TypeError(f"{name} must be strings, got {type(token).__name__}")
        if len(token) > LONGEST:
            raise ValueError(f"{name} must have at most {LONGEST} characters, got {len(token)}")
    if size is not None and len(tokens) != size:
        raise ValueError(f"{name} must be {size}, one a row or column, got {len(tokens)}")
    return [replace_surrogates(token) for token in tokens]


def check_axes(
    L: int, S: int, query_tokens: Sequence[str] | None, key_tokens: Sequence[str] | None
) -> dict[str, list[str] | None]:
    """The tokens of a map's rows and columns; those of the rows serve a square map twice."""
    if key_tokens is None and L == S:
        key_tokens = query_tokens
    return {
        "queries": None if query_tokens is None else check_tokens("query_tokens", query_tokens, L),
        "keys": None if key_tokens is None else check_tokens("key_tokens", key_tokens, S),
    }


def replace_surrogates(text: str) -> str:
    """The text with U+FFFD for each half of a surrogate pair, which UTF-8 cannot encode."""
    return re.sub(r"[\ud800-\udfff]", "\ufffd", text)


def encode(numbers: Tensor, low: float = 0.0, high: float = 1.0, bits: int = 16) -> dict[str, Any]:
    """Numbers quantised from `low` to `high` into 8, 12 or 16 bits each, clamped at both ends."""
    levels = ((numbers.double() - low) / (high - low)).clamp(0, 1) * (2**bits - 1)
    return {**_pack(levels.round().long(), bits), "lo": low, "hi": high}


def encode_weights(weights: Tensor, bits: int = 16) -> dict[str, Any]:
    """Weights from 0 to 1, of which those above 0 keep a quantum: 0 looks like a closed key."""
    return encode(weights.clamp(min=1 / (2**bits - 1)).where(weights > 0, 0), bits=bits)


def encode_roots(weights: Tensor, bits: int = 12) -> dict[str, Any]:
    """The square roots of weights: a small weight may be divided by a small sum."""
    return {**encode_weights(weights.sqrt(), bits), "power": 2}


def encode_scores(scores: Tensor) -> dict[str, Any]:
    """Scores in 16 bits each, on their own range, which is widened if they are all equal."""
    low, high = float(scores.min()), float(scores.max())
    if high - low > WIDEST:
        got = f"got {low:.4g} to {high:.4g}: mask the keys that must not be read"
        raise ValueError(f"scores must lie within {WIDEST} of one another, {got}")
    pad = max(0.5, abs(low) * 1e-9) if low == high else 0.0  # 1e20 + 0.5 is 1e20
    return encode(scores, low=low - pad, high=high + pad)


def encode_mask(mask: Tensor) -> dict[str, Any]:
    """A bool tensor in one bit a cell, the first cell highest."""
    return _pack(mask.detach().cpu().long(), 1)


def decode(array: dict[str, Any]) -> Tensor:
    """The float64 numbers, to within half a quantum, or the bool mask that was encoded."""
    shape, bits = array["shape"], array["bits"]
    levels = from_base64(array["b64"], torch.uint16 if bits == 16 else torch.uint8).long()
    if bits % 8:
        digits = (levels[:, None] >> _places(8) & 1).flatten()[: bits * math.prod(shape)]
        levels = (digits.view(-1, bits) << _places(bits)).sum(-1)
    if bits == 1:
        return levels.view(shape).bool()
    quantum = (array["hi"] - array["lo"]) / (2**bits - 1)
    return (array["lo"] + levels.view(shape).double() * quantum) ** array.get("power", 1)


def _pack(levels: Tensor, bits: int) -> dict[str, Any]:
    """Whole numbers in base64: whole bytes each, little-endian, or bits, the highest first."""
    data = levels.to(torch.uint8 if bits == 8 else torch.uint16)
    if bits % 8:
        digits = (levels.flatten()[:, None] >> _places(bits) & 1).flatten()
        digits = F.pad(digits, (0, -len(digits) % 8))
        data = (digits.view(-1, 8) << _places(8)).sum(-1).to(torch.uint8)
    return {"b64": to_base64(data), "shape": list(levels.shape), "bits": bits}


def to_base64(data: Tensor) -> str:
    """The bytes of a tensor, little-endian, as text."""
    return base64.b64encode(data.flatten().view(torch.uint8).numpy().tobytes()).decode()


def from_base64(text: str, dtype: torch.dtype) -> Tensor:
    """The numbers (N,) that `to_base64` wrote."""
    if not text:
        return torch.empty(0, dtype=dtype, device="cpu")
    return torch.frombuffer(bytearray(base64.b64decode(text)), dtype=dtype)


def _places(bits: int) -> Tensor:
    """Binary places, the highest first: (bits,)."""
    return torch.arange(bits - 1, -1, -1, device="cpu")
