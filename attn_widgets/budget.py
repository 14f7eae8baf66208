"""What a cache costs and what saving on it does to a head's output (chapter 12)."""

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import torch
import traitlets
from torch import Tensor

from attn_notes.arguments import check_attention, check_divides, check_integers
from attn_notes.attention import scaled_dot_product_attention
from attn_notes.masks import causal_mask, sliding_window_mask
from attn_notes.multihead import merge_heads, split_heads
from attn_widgets.base import DataWidget, Offered, Table
from attn_widgets.encoding import as_finite, replace_surrogates

__all__ = ["METHODS", "Budget", "CacheBudget", "measure_errors"]

METHODS = ("full", "grouped", "single", "latent", "window", "bits")
SETTINGS = {"grouped": "kv_heads", "latent": "latent", "window": "window", "bits": "bits"}
FULL = 16  # bits of a number that is kept as it is, and of a scale or an offset
LENGTHS = tuple(2**n for n in range(8, 21))
WIDTHS, LAYERS = (32, 64, 128, 256), 128
MOST = 4096  # heads, numbers of a head or latent, tokens of a window
FEWEST = 1e-12  # a range of numbers that is divided into steps
Errors = Mapping[str, Mapping[int, float]]


class Budget(NamedTuple):
    """Of each of the `METHODS`, at the settings on show."""

    per_token: Tensor  # (6,): bytes for each token of the measured texts, in a layer
    total: Tensor  # (6,): bytes that a text of `length` tokens takes in all layers
    error: Tensor  # (6,): as measured; NaN where it was not


def measure_errors(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    kv_heads: Iterable[int],
    latents: Iterable[int],
    windows: Iterable[int],
    bits: Iterable[int],
    group: int = 32,
) -> dict[str, dict[int, float]]:
    r"""How far causal heads' outputs are from their own when less is kept of keys and values.

    The error is $\lVert\tilde o-o\rVert/\lVert o\rVert$ over all heads and queries. Nothing is
    trained anew. The batch's first half gives the basis of the latents, and its second half
    the errors.

    Args:
        query: (B, H, L, D), with B at least 2.
        key: (B, H, L, D).
        value: (B, H, L, Dv).
        kv_heads: numbers G that divide H: the keys of H / G heads in a row become their mean, and
            so do the values.
        latents: numbers C up to H (D + Dv): the keys and values of a token, side by side, are
            projected on the C directions that hold most of their squares.
        windows: a query reads itself and the W - 1 tokens before it.
        bits: from 1 to 16: each group of numbers is rounded to $2^b$ levels from its least
            to its greatest. A key's number is grouped with those of other tokens, and a value's
            with the others of its token (Liu et al., 2024).
        group: how many numbers share a scale and an offset.

    Returns:
        Of "grouped", "latent", "window" and "bits" the error of each setting.
    """
    q, k, v = (
        as_finite(name, x, 4) for name, x in (("query", query), ("key", key), ("value", value))
    )
    if len(q) < 2:
        raise ValueError(f"the batch must have at least 2 sequences, got {len(q)}")
    check_integers(1, group=group)
    check_attention(q, k, v)
    half, L, (H, D) = len(q) // 2, q.shape[2], (k.shape[1], k.shape[3])
    _check_range("latents", latents := [*latents], H * (D + v.shape[3]))
    _check_range("bits", bits := [*bits], FULL)
    kept = torch.cat([merge_heads(k), merge_heads(v)], -1)  # (B, L, H (D + Dv))
    directions = torch.linalg.svd(kept[:half].flatten(0, 1), full_matrices=False).Vh
    q, k, v, kept = q[half:], k[half:], v[half:], kept[half:]
    mask = causal_mask(L, device="cpu")
    output = scaled_dot_product_attention(q, k, v, attn_mask=mask)  # (B / 2, H, L, Dv)

    def error(k: Tensor, v: Tensor, mask: Tensor = mask) -> float:
        changed = scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return float((changed - output).norm() / output.norm())

    def projected(C: int) -> tuple[Tensor, Tensor]:
        again = kept @ directions[:C].mT @ directions[:C]
        keys, values = again.split([H * D, again.shape[-1] - H * D], dim=-1)
        return split_heads(keys, H), split_heads(values, H)

    return {
        "grouped": {G: error(shared(k, G), shared(v, G)) for G in kv_heads},
        "latent": {C: error(*projected(C)) for C in latents},
        "window": {W: error(k, v, sliding_window_mask(L, window=W, device="cpu")) for W in windows},
        "bits": {b: error(rounded(k, b, group, -2), rounded(v, b, group, -1)) for b in bits},
    }


def _check_range(name: str, numbers: list[int], most: int) -> None:
    for number in numbers:
        check_integers(**{name: number})
        if not 1 <= number <= most:
            raise ValueError(f"{name} must be from 1 to {most}, got {number}")


def shared(heads: Tensor, num_kv_heads: int) -> Tensor:
    """Each group of heads (B, H, L, D) replaced by its mean."""
    H = heads.shape[1]
    check_divides("kv_heads", num_kv_heads, "H", H)
    mean = heads.unflatten(1, (num_kv_heads, -1)).mean(2)  # (B, G, L, D)
    return mean.repeat_interleave(H // num_kv_heads, dim=1)


def rounded(x: Tensor, bits: int, group: int, dim: int) -> Tensor:
    """The numbers in `2**bits` levels, from the least of each group along `dim` to the greatest."""
    pieces = []
    for piece in x.split(group, dim):
        low, high = piece.amin(dim, keepdim=True), piece.amax(dim, keepdim=True)
        step = ((high - low) / (2**bits - 1)).clamp_min(FEWEST)
        pieces.append(((piece - low) / step).round() * step + low)
    return torch.cat(pieces, dim)


class CacheBudget(DataWidget):
    """Bytes of a cache beside a measured error, for six ways to keep keys and values.

    The bytes beside an error are those of the texts on which it was measured, divided by their
    tokens: of 256 tokens a window of 64 keeps a quarter. What a text of `length` tokens takes is
    said as well.

    A model with more heads, or wider ones, keeps the same shares: as many heads to a key, and a
    latent as much narrower than the keys and values.

    Args:
        errors: of "grouped", "latent", "window" and "bits" the error of each setting, as
            `measure_errors` returns them; "grouped" must have 1, a single key for all heads.
        num_heads: H, of the heads that were measured.
        head_dim: D, of these.
        num_tokens: how long the texts were on which the errors were measured, at most 2^20.
        num_layers: of the model.
        group: how many numbers share a scale and an offset of 16 bits each.
        measured: what was measured, in a few words.

    Example:
        >>> errors = {"grouped": {1: 0.9, 2: 0.6}, "latent": {16: 0.3}}
        >>> errors.update({"window": {8: 0.2}, "bits": {8: 0.004}})
        >>> CacheBudget(errors, num_heads=4, head_dim=8, num_tokens=32)
        CacheBudget(grouped 2: 64 bytes a token and layer, error 0.600; 12 MiB in all)
    """

    _widget = "budget"
    method = traitlets.Enum(METHODS, "grouped").tag(sync=True)
    kv_heads = Offered(lambda self: self._settings("grouped"))
    latent = Offered(lambda self: self._settings("latent"))
    window = Offered(lambda self: self._settings("window"))
    bits = Offered(lambda self: self._settings("bits"))
    length = Offered(lambda self: self.data["lengths"], 2**15)
    num_layers = traitlets.Int(6, min=1, max=LAYERS).tag(sync=True)
    num_heads = Offered(lambda self: self.data["heads"])
    head_dim = Offered(lambda self: self.data["widths"])

    def __init__(
        self,
        errors: Errors,
        *,
        num_heads: int,
        head_dim: int,
        num_tokens: int,
        num_layers: int = 6,
        group: int = 32,
        measured: str = "the heads given",
    ) -> None:
        check_integers(
            1, num_heads=num_heads, head_dim=head_dim, num_tokens=num_tokens, group=group
        )
        if num_tokens > LENGTHS[-1]:
            raise ValueError(f"num_tokens must be at most {LENGTHS[-1]}, got {num_tokens}")
        if max(num_heads, head_dim) > MOST // 8:
            got = f"got {num_heads} and {head_dim}"
            raise ValueError(f"num_heads and head_dim must be at most {MOST // 8}, {got}")
        rows = {name: _checked(name, dict(errors.get(name, {}))) for name in SETTINGS}
        for G, _ in rows["grouped"]:
            check_divides("errors['grouped']", G, "num_heads", num_heads)
        if rows["grouped"][0][0] != 1:
            raise ValueError("errors['grouped'] must have 1, a single key for all heads")
        data = {
            "errors": rows,
            "heads": [n * num_heads for n in (1, 2, 4, 8)],
            "widths": sorted({head_dim, *WIDTHS}),
            "measured": [num_heads, head_dim],
            "group": group,
            "tokens": num_tokens,
            "lengths": list(LENGTHS),
            "said": replace_surrogates(measured)[:200],
        }
        middle = {SETTINGS[name]: row[len(row) // 2][0] for name, row in rows.items()}
        super().__init__(
            data=data, num_heads=num_heads, head_dim=head_dim, num_layers=num_layers, **middle
        )

    def _settings(self, method: str) -> list[int]:
        return [setting for setting, _ in self.data["errors"][method]]

    def setting(self, method: str) -> int:
        """Of a method: key-value heads, numbers of a latent, tokens of a window, or bits."""
        heads, width = self.data["measured"]
        if method in ("full", "single"):
            return self.num_heads if method == "full" else 1
        chosen = getattr(self, SETTINGS[method])
        if method == "grouped":
            return chosen * self.num_heads // heads
        if method == "latent":
            return round(chosen * self.num_heads * self.head_dim / (heads * width))
        return chosen

    def shown(self) -> Budget:
        """What each method costs and how far it is off."""
        numbers = dict.fromkeys(METHODS, 2 * self.num_heads * self.head_dim)
        for name in ("grouped", "single"):
            numbers[name] = 2 * self.setting(name) * self.head_dim
        numbers["latent"] = self.setting("latent")
        bits = dict.fromkeys(METHODS, float(FULL))
        if self.bits < FULL:
            bits["bits"] = self.bits + 2 * FULL / self.data["group"]
        kept = [numbers[name] * bits[name] / 8 for name in METHODS]  # of a token that is kept
        per_token = [x * self._share(name) for x, name in zip(kept, METHODS, strict=True)]
        tokens = [
            min(self.length, self.window) if name == "window" else self.length for name in METHODS
        ]
        total = [x * n * self.num_layers for x, n in zip(kept, tokens, strict=True)]
        error = [self._error(name) for name in METHODS]
        double, cpu = torch.float64, torch.device("cpu")
        rows = (per_token, total, error)
        return Budget(*(torch.tensor(row, dtype=double, device=cpu) for row in rows))

    def _share(self, method: str) -> float:
        """The share of the measured texts' tokens that a method keeps."""
        return min(1.0, self.window / self.data["tokens"]) if method == "window" else 1.0

    def _error(self, method: str) -> float:
        if method == "full":
            return 0.0
        if method == "single":  # measured with fewer heads to the key
            unlike = self.num_heads != self.data["measured"][0]
            return math.nan if unlike else self.data["errors"]["grouped"][0][1]
        return dict(self.data["errors"][method])[getattr(self, SETTINGS[method])]

    def _summary(self) -> str:
        at = METHODS.index(self.method)
        per_token, total, error = (float(x[at]) for x in self.shown())
        known = "not measured" if math.isnan(error) else f"error {error:.3f}"
        which = f"{self.method} {self.setting(self.method)}"
        return f"{which}: {per_token:g} bytes a token and layer, {known}; {in_bytes(total)} in all"

    def _table(self) -> Table:
        rows = []
        for name, per_token, total, error in zip(METHODS, *self.shown(), strict=True):
            known = "not measured" if error.isnan() else f"{error:.3f}"
            rows.append(
                [name, str(self.setting(name)), f"{per_token:g}", in_bytes(float(total)), known]
            )
        said, tokens = self.data["said"], self.data["tokens"]
        caption = (
            f"The cache of {self.length} tokens in {self.num_layers} layers; bytes a token and "
            f"errors of {said} on texts of {tokens} tokens, nothing trained anew."
        )
        return caption, ["setting", "bytes a token and layer", "in all", "error"], rows


def _checked(name: str, errors: dict[int, float]) -> list[list[Any]]:
    """Pairs of a setting and its error, the least setting first."""
    if not errors:
        raise ValueError(
            f"errors must have {', '.join(SETTINGS)}, and settings of each, got none of {name}"
        )
    if not all(isinstance(x, int) and 1 <= x <= MOST for x in errors):
        got = ", ".join(map(str, errors))
        raise ValueError(f"settings of {name} must be whole numbers from 1 to {MOST}, got {got}")
    for setting, error in errors.items():
        if not (math.isfinite(error) and error >= 0):
            raise ValueError(
                f"errors must be finite and not negative, got {error} of {name} {setting}"
            )
    return [[setting, round(float(errors[setting]), 4)] for setting in sorted(errors)]


def in_bytes(number: float) -> str:
    """Bytes with three digits and a unit."""
    size, units = number, ["bytes", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1000 and len(units) > 1:  # 1000 KiB have a digit too many
        size, units = size / 1024, units[1:]
    return f"{size * (1 + 1e-12):.3g} {units[0]}"  # half a digit goes up, as in JavaScript
