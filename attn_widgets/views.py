"""One kind of attention over one text, as the head explorer's front end reads it.

Small maps are sent whole, in 12 bits a weight. Of larger ones come thumbnails of every head, and
each head by itself in 8 bits a weight, compressed, which the browser unpacks when it is chosen.
"""

import base64
import math
import zlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from attn_notes.patterns import PATTERNS, pattern_cells, pattern_score, select_cells
from attn_widgets import encoding, neurons

WHOLE = 600_000  # most weights that are sent whole: 144 heads of 64 tokens
THUMBNAILS = 200_000  # most cells of all thumbnails together
MOST = 40_000_000  # weights in all: 144 heads of 512 tokens
POWER = 5 / 3  # 8 bits hold powers of 3/5: a small weight keeps its first digits, and zlib its gain
# Level 0 is a weight of 0, which looks like a closed key, and level 1 one that is nearly 0.
POSITIVE = 254  # levels of the others, from 1 on


class Maps(NamedTuple):
    """What every head of every layer reads, (H, L, S) a layer, between these tokens."""

    layers: Sequence[Tensor]
    queries: Sequence[str]
    keys: Sequence[str] | None = None  # None: the queries read one another
    mask: Tensor | None = None  # (L, S), or (N, L, S) where layers differ; bool, True = may attend
    kv_heads: int | None = None  # how many heads have keys and values of their own; None: all
    vectors: Mapping[int, neurons.Vectors] = MappingProxyType({})  # by layer: queries and keys


class Reading(NamedTuple):
    """What a model reads in one text or picture: what a view of its heads is made of."""

    maps: dict[str, Maps]  # by the kind of attention
    special: Sequence[str] = ()  # the tokens that the model's tokenizer has added
    extra: Mapping[str, Any] = MappingProxyType({})  # "next", "image": see reading.py


def check_size(sizes: Sequence[tuple[int, int, int, int]]) -> None:
    """Raise where maps of these (layers, heads, L, S) are too many, and say what would fit."""
    total = sum(map(math.prod, sizes))
    if total <= MOST:
        return
    heads = sum(N * H for N, H, _, _ in sizes)
    N, _, L, S = max(sizes, key=math.prod)
    layers = MOST * N // total
    fits = [f"{math.isqrt(MOST // heads)} tokens"]
    fits += [f"{layers} of the {N} layers, weights[:{layers}]"] * (layers > 0)
    got = f"{heads} heads of up to {L} x {S} tokens are {total / 1e6:.0f} million weights"
    most = f"more than {MOST // 10**6} million"
    raise ValueError(f"{got}, {most}: give at most {' or '.join(fits)}")


def kept_places(tokens: Sequence[str], special: Sequence[str], hide: bool) -> list[int]:
    """The places of the tokens on show: all, or those that are not special."""
    return [n for n, token in enumerate(tokens) if not (hide and token in special)]


@encoding.on_one_thread()
def find_mask(layers: Sequence[Tensor]) -> Tensor | None:
    """The mask that the weights show, (L, S), or (N, L, S) where layers differ; None without one.

    It is causal if no head of any layer reads a later token. A layer has a window if its heads
    read every place up to some distance, and none beyond. The last query is that of the last key,
    as with a cache. Where heads read nothing but themselves, the weights say nothing of a mask.
    """
    L, S = layers[0].shape[-2:]
    if not 1 < L <= S:
        return None
    away = torch.arange(S, device="cpu") - torch.arange(S - L, S, device="cpu")[:, None]  # (L, S)
    read = [layer.amax(0) > 0 for layer in layers]  # (L, S), by any head
    is_causal = not any(bool(one[away > 0].any()) for one in read)
    if is_causal and not any(bool(one[away < 0].any()) for one in read):
        return None
    allowed = away <= 0 if is_causal else away.abs() <= S
    masks = [_window(one, away, allowed) for one in read]
    if all(mask.equal(masks[0]) for mask in masks):
        return None if bool(masks[0].all()) else masks[0]
    return torch.stack(masks)


def _window(read: Tensor, away: Tensor, allowed: Tensor) -> Tensor:
    """What a layer may read of what is allowed: the window that it fills, or else all."""
    reach = int(away[read].abs().max()) if bool(read.any()) else 0
    near = allowed & (away.abs() <= reach)
    return near if reach and near.equal(read) else allowed


@encoding.on_one_thread()
def encode_maps(name: str, maps: Maps, special: Sequence[str]) -> dict[str, Any]:
    """A view as the front end reads it: with all weights, or, where they are many, thumbnails."""
    layers, queries, keys, mask, kv_heads, vectors = maps
    (H, L, S), shared = layers[0].shape, keys is None
    queries = encoding.check_tokens("query_tokens", queries, L)
    keys = queries if keys is None else encoding.check_tokens("key_tokens", keys, S)
    places = [kept_places(tokens, special, True) for tokens in (queries, keys)]
    view: dict[str, Any] = {
        "name": name,
        "size": [len(layers), H, L, S],
        "queries": queries,
        "keys": None if shared else keys,
        "mask": None if mask is None else encoding.encode_mask(mask),
        "scores": _encode_scores(layers, queries, shared, special),
    }
    if kv_heads not in (None, H):
        view["kv_heads"] = _check_groups(kv_heads, H)
    if vectors:
        view["neurons"] = neurons.encode(vectors)
    if len(layers) * H * L * S <= WHOLE:
        return {**view, "weights": encoding.encode_roots(torch.stack([*layers]))}
    thumbnails = [_encode_thumbnails(layers, mask)]
    if [*map(len, places)] != [L, S] and all(places):  # and those without special tokens
        rest = [select_cells(layer, *places) for layer in layers]
        may = None if mask is None else cut_mask(mask, *places)
        thumbnails.append(_encode_thumbnails(rest, may))
    return {**view, "thumbnails": thumbnails}


def _check_groups(kv_heads: Any, H: int) -> int:
    """The number of key-value heads, each of which as many of the H heads share."""
    if isinstance(kv_heads, int) and 0 < kv_heads <= H and H % kv_heads == 0:
        return kv_heads
    raise ValueError(f"kv_heads must divide the {H} heads of a layer, got {kv_heads!r}")


def cut_mask(mask: Tensor, rows: Sequence[int], columns: Sequence[int]) -> Tensor:
    """Some rows and columns of a mask, of one layer or of all."""
    return mask[..., rows, :][..., columns]


def _pool(mask: Tensor, size: tuple[int, int]) -> Tensor:
    """Which cells of a smaller map hold a place that may be read."""
    small = F.adaptive_max_pool2d(mask.float().view(-1, *mask.shape[-2:]), size) > 0
    return small if mask.dim() > 2 else small[0]


@encoding.on_one_thread()
def squeeze_head(head: Tensor) -> str:
    """The weights (L, S) of a head by itself, compressed, as text."""
    levels = (1 + head ** (1 / POWER) * POSITIVE).where(head > 0, 0).round().to(torch.uint8)
    # Runs and no matches: those of weights are not worth the search.
    packer = zlib.compressobj(1, zlib.DEFLATED, 15, 9, zlib.Z_RLE)
    return base64.b64encode(packer.compress(levels.numpy().tobytes()) + packer.flush()).decode()


def _encode_thumbnails(layers: Sequence[Tensor], mask: Tensor | None) -> dict[str, Any]:
    """The strongest weights of all heads on few cells, and which of these may be read."""
    H, L, S = layers[0].shape
    side = max(math.isqrt(THUMBNAILS // (len(layers) * H)), 4)
    size = min(L, side), min(S, side)
    small = torch.stack([F.adaptive_max_pool2d(layer, size) for layer in layers])
    may = None if mask is None else _pool(mask, size)
    return {
        "weights": encoding.encode_roots(small, bits=8),
        "mask": None if may is None else encoding.encode_mask(may),
    }


def _encode_scores(
    layers: Sequence[Tensor], queries: list[str], shared: bool, special: Sequence[str]
) -> dict[str, Any]:
    """What heads are ranked by, (layers, heads) each: patterns, and the entropy in bits.

    Patterns are those of a text that reads itself, without any that no token of it can show.
    """
    found = {}
    for pattern in PATTERNS if shared else ():
        cells = pattern_cells(pattern, queries, special=special, device="cpu")
        if bool(cells.any()):
            scores = torch.stack([pattern_score(x, cells) for x in layers])
            found[pattern] = encoding.encode(scores, bits=12)
    rows = kept_places(queries, special, True) or [*range(len(queries))]
    entropy = [torch.special.entr(x[:, rows]).sum(-1).mean(-1) / math.log(2) for x in layers]
    most = max(math.log2(layers[0].shape[-1]), 1.0)
    return {**found, "entropy": encoding.encode(torch.stack(entropy), high=most, bits=16)}
