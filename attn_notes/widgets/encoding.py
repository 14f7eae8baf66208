"""Numbers on their way to a widget: quanta instead of decimals, checked before they leave."""

import base64
import math
import re
import struct
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

__all__ = [
    "decode",
    "encode",
    "encode_mask",
    "encode_scores",
    "encode_weights",
    "finite",
    "tokens_for",
    "visible",
    "whole",
]


UNPRINTABLE = (
    (0x80, 0x9F),  # C1 controls
    (0x2028, 0x202E),  # line separators, and marks that would turn the text around them
    (0x2066, 0x2069),  # isolates, whose end could be forged
    (0xD800, 0xDFFF),  # halves of a surrogate pair, which no file can hold
)


CODES = {8: "B", 16: "H"}  # of the module struct
WIDEST = 100  # range of scores that 16 bits resolve to 0.0015


def finite(name: str, tensor: Any, *axes: int) -> Tensor:
    """`tensor` as float64 on the CPU, its own copy, checked to be finite.

    Args:
        name: what the messages call it.
        tensor: a tensor, or nested numbers.
        axes: how many axes it may have.

    Returns:
        The numbers, detached, on the CPU, float64.

    Raises:
        TypeError: not numbers.
        ValueError: another number of axes, an empty axis, NaN or infinity.

    Example:
        >>> finite("weights", [[0.5, 0.5]], 2).dtype
        torch.float64
    """
    try:
        numbers = torch.as_tensor(tensor, device="cpu").detach().clone()
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(
            f"{name} must be a tensor of numbers, got {type(tensor).__name__}"
        ) from error
    if numbers.is_complex():
        raise TypeError(f"{name} must be real numbers, got {numbers.dtype}")
    numbers = numbers.double()
    if numbers.dim() not in axes:
        wanted = " or ".join(str(n) for n in axes)
        raise ValueError(f"{name} must have {wanted} axes, got shape {tuple(numbers.shape)}")
    if numbers.numel() == 0:
        raise ValueError(f"{name} must not be empty, got shape {tuple(numbers.shape)}")
    if not bool(numbers.isfinite().all()):
        at = tuple(int(i) for i in (~numbers.isfinite()).nonzero()[0])
        raise ValueError(f"{name} must be finite, got {numbers[at].item()} at {at}")
    return numbers


def encode(numbers: Tensor, *, low: float, high: float, bits: int = 16) -> dict[str, Any]:
    """Quantise numbers from `low` to `high` into 8, 12 or 16 bits each.

    Args:
        numbers: any shape, from `low` to `high`; beyond them they are clamped.
        low: what quantum 0 stands for.
        high: what the largest quantum stands for.
        bits: 16 where a number is shown, 8 for overviews; 12, see `encode_weights`.

    Returns:
        `{"b64", "shape", "bits", "lo", "hi"}`, ready for JSON; `core.js` decodes it.

    Raises:
        ValueError: bits other than 8, 12 or 16, or a range from `low` to `high` that is not
            positive and finite.

    Example:
        >>> encode(torch.tensor([0.0, 1.0]), low=0.0, high=1.0, bits=8)["b64"]
        'AP8='
    """
    if bits not in (8, 12, 16):
        raise ValueError(f"bits must be 8, 12 or 16, got {bits}")
    if not 0 < high - low < math.inf:
        raise ValueError(f"the range must be positive and finite, got {low} to {high}")
    levels = ((numbers.double() - low) / (high - low)).clamp(0, 1) * (2**bits - 1)
    quanta = levels.round().long().flatten().tolist()
    return {
        "b64": base64.b64encode(_packed(quanta, bits)).decode(),
        "shape": list(numbers.shape),
        "bits": bits,
        "lo": low,
        "hi": high,
    }


def encode_weights(weights: Tensor) -> dict[str, Any]:
    """Quantise the square roots of weights into 12 bits each: two characters a number.

    So a page holds many sentences of many heads. A quantum of the root is 1/4095: a weight near 1
    is true to 0.00025, a weight of 0.001 to 0.00001. It is the small ones that need it, because
    a reader may hide the tokens that are read most and have the rest divided by its sum.

    Args:
        weights: any shape, from 0 to 1.

    Returns:
        As `encode`, with the power, 2, that makes a weight of a root.

    Example:
        >>> decode(encode_weights(torch.tensor([0.0, 0.25, 1.0]))).round(decimals=3)
        tensor([0.0000, 0.2500, 1.0000], dtype=torch.float64)
    """
    roots = weights.double().clamp(min=0).sqrt()
    return {**encode(roots, low=0.0, high=1.0, bits=12), "power": 2}


def encode_scores(scores: Tensor) -> dict[str, Any]:
    """Quantise scores on their own range, widened so that constant ones have one too.

    Args:
        scores: any shape, finite, within 100 of one another: a wider range would leave too few
            quanta for the differences that a softmax sees.

    Returns:
        As `encode`, 16 bits each.

    Raises:
        ValueError: a range beyond 100.

    Example:
        >>> decode(encode_scores(torch.tensor([-1.0, 3.0])))
        tensor([-1.,  3.], dtype=torch.float64)
    """
    low, high = float(scores.min()), float(scores.max())
    if high - low > WIDEST:
        raise ValueError(
            f"scores must lie within {WIDEST} of one another, got {low:.4g} to {high:.4g}: a key "
            "that may not be read belongs in the mask"
        )
    pad = max(0.5, abs(low) * 1e-9) if low == high else 0.0  # 1e20 + 0.5 is 1e20
    return encode(scores, low=low - pad, high=high + pad)


def encode_mask(mask: Tensor) -> dict[str, Any]:
    """Pack a bool tensor into bits, the first one highest.

    Args:
        mask: any shape, bool.

    Returns:
        `{"b64", "shape", "bits"}` with one bit a cell.

    Raises:
        TypeError: a mask that is not bool.

    Example:
        >>> encode_mask(torch.tensor([True, False, False, False, False, False, False, True]))["b64"]
        'gQ=='
    """
    if mask.dtype != torch.bool:
        raise TypeError(f"mask must be a bool tensor (True = may attend), got {mask.dtype}")
    flat = mask.detach().cpu().flatten().tolist()
    bits = "".join("1" if cell else "0" for cell in flat)
    packed = bytes(int(bits[n : n + 8].ljust(8, "0"), 2) for n in range(0, len(bits), 8))
    return {"b64": base64.b64encode(packed).decode(), "shape": list(mask.shape), "bits": 1}


def decode(array: dict[str, Any]) -> Tensor:
    """What one of the others encoded, to within half a quantum: what the page shows.

    Args:
        array: their result.

    Returns:
        float64 numbers, or a bool mask, of the encoded shape.

    Example:
        >>> decode(encode(torch.tensor([0.0, 0.25]), low=0.0, high=1.0)).round(decimals=4)
        tensor([0.0000, 0.2500], dtype=torch.float64)
    """
    raw, shape, bits = base64.b64decode(array["b64"]), array["shape"], array["bits"]
    if bits == 1:
        cells = "".join(f"{byte:08b}" for byte in raw)
        flat = [cell == "1" for cell in cells[: torch.Size(shape).numel()]]
        return torch.tensor(flat, dtype=torch.bool, device="cpu").view(shape)
    levels = torch.tensor(_unpacked(raw, bits), dtype=torch.float64, device="cpu").view(shape)
    numbers = array["lo"] + levels * (array["hi"] - array["lo"]) / (2**bits - 1)
    return numbers ** array.get("power", 1)


def _packed(quanta: Sequence[int], bits: int) -> bytes:
    """Little-endian numbers; those of 12 bits are three hexadecimal digits each, in a row."""
    if bits == 12:
        digits = "".join(f"{number:03x}" for number in quanta)
        return bytes.fromhex(digits + "0" * (len(digits) % 2))
    return struct.pack(f"<{len(quanta)}{CODES[bits]}", *quanta)


def _unpacked(raw: bytes, bits: int) -> Sequence[int]:
    """What `_packed` packed."""
    if bits == 12:
        digits = raw.hex()
        return [int(digits[n : n + 3], 16) for n in range(0, len(digits) - 2, 3)]
    return struct.unpack(f"<{len(raw) * 8 // bits}{CODES[bits]}", raw)


def tokens_for(name: str, tokens: Sequence[str] | None, size: int) -> list[str] | None:
    """`tokens` as a list, checked to be one string a row or column.

    Args:
        name: what the messages call them.
        tokens: strings of any content, or None for plain numbers.
        size: how many there must be.

    Returns:
        The list, or None.

    Raises:
        TypeError: something that is not a string, or one string instead of a list of them.
        ValueError: another number of tokens.

    Example:
        >>> tokens_for("key_tokens", ["a"], 2)
        Traceback (most recent call last):
        ValueError: key_tokens must be 2, one a row or column, got 1
    """
    if tokens is None:
        return None
    if isinstance(tokens, str):
        raise TypeError(f"{name} must be a list of strings, got the one string {tokens!r}")
    tokens = list(tokens)
    for token in tokens:
        if not isinstance(token, str):
            raise TypeError(f"{name} must be strings, got {type(token).__name__}")
    if len(tokens) != size:
        raise ValueError(f"{name} must be {size}, one a row or column, got {len(tokens)}")
    return [whole(token) for token in tokens]


def whole(text: str) -> str:
    r"""Text whose halves of surrogate pairs are replaced: no message to a browser can hold them.

    Args:
        text: any string.

    Returns:
        A string that UTF-8 can encode.

    Example:
        >>> ascii(whole("a\ud800"))
        "'a\\ufffd'"
    """
    return re.sub(r"[\ud800-\udfff]", "\ufffd", text)


def visible(token: str) -> str:
    r"""A token as it can be printed on one line: control characters and lone spaces made visible.

    Args:
        token: any string.

    Returns:
        A string with no control character and no line break, not empty.

    Example:
        >>> visible("a\nb"), visible(" ")
        ('a␊b', '␣')
    """
    if not token.strip(" "):
        return "␣" * max(1, len(token))
    text = []
    for c in token:
        code = ord(c)
        if code < 32:
            text.append(chr(0x2400 + code))
        elif code == 127:
            text.append("␡")
        elif any(first <= code <= last for first, last in UNPRINTABLE):
            text.append("\ufffd")
        else:
            text.append(c)
    return "".join(text)
