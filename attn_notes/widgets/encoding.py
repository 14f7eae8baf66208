"""Encode tensors for the front end, which `static/core.js` decodes, and check them first."""

import base64
import math
import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

__all__ = [
    "as_finite",
    "as_weights",
    "check_axes",
    "check_tokens",
    "decode",
    "encode",
    "encode_mask",
    "encode_roots",
    "encode_scores",
    "replace_surrogates",
    "visible",
]

WIDEST = 100  # range of scores that 16 bits resolve to 0.0015
ROUNDING = 1e-4  # how far outside 0 to 1 a weight may be
LOOSE = 0.01  # how far from 1 the sum of a row may be: half precision on a long sequence

# C1 controls; line separators and marks that would turn the text around them; isolates, whose end
# could be forged; halves of a surrogate pair, which no file can hold.
UNPRINTABLE = "[\x80-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"


# ---------------------------------------------------------------- checks


def as_finite(name: str, numbers: Any, *axes: int) -> Tensor:
    """A float64 copy on the CPU of finite numbers with one of these numbers of axes."""
    try:
        tensor = torch.as_tensor(numbers, device="cpu").detach().clone()
    except (TypeError, ValueError, RuntimeError) as error:
        kind = type(numbers).__name__
        raise TypeError(f"{name} must be a tensor of numbers, got {kind}") from error
    if tensor.is_complex():
        raise TypeError(f"{name} must be real numbers, got {tensor.dtype}")
    if tensor.dim() not in axes or not tensor.numel():
        wanted = " or ".join(map(str, axes))
        got = tuple(tensor.shape)
        raise ValueError(f"{name} must have {wanted} axes and not be empty, got shape {got}")
    if not bool(tensor.isfinite().all()):
        at = tuple((~tensor.isfinite()).nonzero()[0].tolist())
        raise ValueError(f"{name} must be finite, got {tensor[at].item()} at {at}")
    return tensor.double()


def as_weights(name: str, weights: Any, *axes: int, normalised: bool = False) -> Tensor:
    """As `as_finite`, from 0 to 1 but for rounding; where `normalised`, the rows sum to 1.

    The layers that a model returns, a tuple of (1, H, L, S), become (layers, H, L, S).
    """
    layers = list(weights) if isinstance(weights, list | tuple) else []
    if layers and all(isinstance(layer, Tensor) and layer.dim() == 4 for layer in layers):
        if any(len(layer) != 1 for layer in layers):
            got = tuple(layers[0].shape)
            raise ValueError(f"{name} of layers must be of one sequence, (1, H, L, S), got {got}")
        weights = torch.cat(layers)
    tensor = as_finite(name, weights, *axes)
    low, high = float(tensor.min()), float(tensor.max())
    if low < -ROUNDING or high > 1 + ROUNDING:
        raise ValueError(f"{name} must be from 0 to 1, got {low:.7g} to {high:.7g}")
    sums = tensor.sum(-1)
    if normalised and (sums - 1).abs().max() > LOOSE:
        at = tuple(((sums - 1).abs() > LOOSE).nonzero()[0].tolist())
        raise ValueError(f"rows of {name} must sum to 1, got a sum of {sums[at]:.4g} at {at}")
    return tensor.clamp(0, 1)


def check_tokens(name: str, tokens: Sequence[str], size: int | None = None) -> list[str]:
    """A list of `size` strings that can be sent to a browser."""
    if isinstance(tokens, str):
        raise TypeError(f"{name} must be a list of strings, got the one string {tokens!r}")
    for token in tokens:
        if not isinstance(token, str):
            raise TypeError(f"{name} must be strings, got {type(token).__name__}")
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


def visible(token: str) -> str:
    """The token on one line, with control characters and lone spaces made visible."""
    if not token.strip(" "):
        return "␣" * max(1, len(token))
    text = re.sub(UNPRINTABLE, "\ufffd", token).replace("\x7f", "␡")
    return re.sub("[\x00-\x1f]", lambda found: chr(0x2400 + ord(found[0])), text)


# ---------------------------------------------------------------- quanta


def encode(
    numbers: Tensor, *, low: float = 0.0, high: float = 1.0, bits: int = 16
) -> dict[str, Any]:
    """Numbers quantised from `low` to `high` into 12 or 16 bits each, clamped at both ends."""
    levels = ((numbers.double() - low) / (high - low)).clamp(0, 1) * (2**bits - 1)
    return {**_pack(levels.round().long(), bits), "lo": low, "hi": high}


def encode_roots(weights: Tensor) -> dict[str, Any]:
    """The square roots of weights in 12 bits each: two characters a number, small ones truest.

    A quantum of the root is 1/4095: a weight near 1 is true to 0.00025, a weight of 0.001 to
    0.00001. When a reader hides tokens, small weights are divided by their small sum.
    """
    return {**encode(weights.sqrt(), bits=12), "power": 2}


def encode_scores(scores: Tensor) -> dict[str, Any]:
    """Scores in 16 bits each, on their own range, which is widened if they are all equal."""
    low, high = float(scores.min()), float(scores.max())
    if high - low > WIDEST:
        raise ValueError(
            f"scores must lie within {WIDEST} of one another, got {low:.4g} to {high:.4g}: mask "
            "the keys that must not be read"
        )
    pad = max(0.5, abs(low) * 1e-9) if low == high else 0.0  # 1e20 + 0.5 is 1e20
    return encode(scores, low=low - pad, high=high + pad)


def encode_mask(mask: Tensor) -> dict[str, Any]:
    """A bool tensor in one bit a cell, the first cell highest."""
    if mask.dtype != torch.bool:
        raise TypeError(f"mask must be a bool tensor (True = may attend), got {mask.dtype}")
    return _pack(mask.detach().cpu().long(), 1)


def decode(array: dict[str, Any]) -> Tensor:
    """The float64 numbers, to within half a quantum, or the bool mask that was encoded."""
    raw, shape, bits = base64.b64decode(array["b64"]), array["shape"], array["bits"]
    data = torch.tensor(list(raw), dtype=torch.long, device="cpu")
    if bits == 16:
        levels = data[::2] + 256 * data[1::2]
    else:
        digits = (data[:, None] >> _places(8) & 1).flatten()[: bits * math.prod(shape)]
        levels = (digits.view(-1, bits) << _places(bits)).sum(-1)
    if bits == 1:
        return levels.view(shape).bool()
    quantum = (array["hi"] - array["lo"]) / (2**bits - 1)
    return (array["lo"] + levels.view(shape).double() * quantum) ** array.get("power", 1)


def _pack(levels: Tensor, bits: int) -> dict[str, Any]:
    """Whole numbers in base64: 16 bits each, little-endian, or fewer, the highest bit first."""
    flat = levels.flatten()
    if bits == 16:
        data = torch.stack((flat & 255, flat >> 8), dim=-1)
    else:
        digits = (flat[:, None] >> _places(bits) & 1).flatten()
        data = (F.pad(digits, (0, -len(digits) % 8)).view(-1, 8) << _places(8)).sum(-1)
    text = base64.b64encode(bytes(data.flatten().tolist())).decode()
    return {"b64": text, "shape": list(levels.shape), "bits": bits}


def _places(bits: int) -> Tensor:
    """Binary places, the highest first: (bits,)."""
    return torch.arange(bits - 1, -1, -1, device="cpu")
