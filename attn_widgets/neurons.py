"""Queries and keys of a model's heads, whose products add up to its scores."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attn_notes.inside.models import Layer, find_layers
from attn_notes.inside.taps import tapped
from attn_widgets import encoding

MOST = 8_000_000  # numbers in all queries and keys: 16 MB
SLACK, ROUNDINGS = 0.01, 8  # how far a score may be from what the weights say
READ = 1e-5  # weights whose logarithm is compared
ASK = "ask for fewer, such as layers=[0], or give a shorter text"


class Vectors(NamedTuple):
    """What a layer's scores are made of: query times key, times the scale, summed over D."""

    query: Tensor  # (H, L, D), behind norms and rotations
    key: Tensor  # (G, S, D), likewise: as many heads share one as G goes into H
    scale: float

    def products(self, head: int, token: int) -> Tensor:
        """The terms (S, D) of the scores of a token, of which a row sums to the score."""
        group = head * len(self.key) // len(self.query)
        return self.query[head, token] * self.key[group] * self.scale


@contextmanager
def watching(model: Any, numbers: Sequence[int] | None) -> Iterator[dict[int, Vectors]]:
    """Keep the queries and keys of these layers, by default of all, while the model runs."""
    layers = [*find_layers(model).values()]
    chosen = range(len(layers)) if numbers is None else numbers
    if wrong := [n for n in chosen if n not in range(len(layers))]:
        raise ValueError(f"layers must be from 0 to {len(layers) - 1}, got {wrong[0]!r}")
    seen: dict[tuple[int, str], Tensor] = {}
    found: dict[int, Vectors] = {}

    def keep(number: int, part: str, x: Tensor) -> Tensor:
        seen[number, part] = x.detach()[0].cpu()
        return x

    with ExitStack() as undo:
        for n in chosen:
            undo.enter_context(tapped(layers[n], ("query", "key"), partial(keep, n)))
        yield found
    for n in chosen:
        query, key = seen[n, "query"], seen[n, "key"]
        found[n] = Vectors(query, key, _scale(layers[n], query.shape[-1]))


def _scale(layer: Layer, width: int) -> float:
    """What a layer multiplies its products by: what it says itself, or one over the root of D."""
    module = getattr(layer.module, "self", layer.module)
    return float(getattr(module, "scaling", width**-0.5))


def check(found: dict[int, Vectors], kinds: Mapping[str, Sequence[Tensor]]) -> dict[int, Vectors]:
    """The same, if these scores make the weights (H, L, S); raise where something is added."""
    if "" not in kinds:
        raise ValueError(f"also='neurons' must come with one kind of attention, got {[*kinds]}")
    if (total := sum(x.query.numel() + x.key.numel() for x in found.values())) > MOST:
        got = f"got {total / 1e6:.0f} million"
        raise ValueError(f"queries and keys must be {MOST // 10**6} million at most, {got}: {ASK}")
    for number, (query, key, scale) in found.items():
        weights, group = kinds[""][number], len(query) // len(key)
        keys = key.double().repeat_interleave(group, dim=0)  # (H, S, D)
        scores = query.double() @ keys.mT * scale  # (H, L, S)
        read = weights > READ
        rest = (weights.double().log() - scores).masked_fill(~read, 0)
        first = rest.gather(-1, weights.argmax(-1, keepdim=True))  # (H, L, 1), a row's normaliser
        apart = float((rest - first).masked_fill(~read, 0).abs().max())
        size = float(scores.masked_fill(~read, 0).abs().max())
        if not apart <= SLACK + ROUNDINGS * torch.finfo(query.dtype).eps * size:
            wanted = "scores that are queries times keys alone, with no bias or cap"
            got = f"got layer {number}, whose scores differ by {apart:.2g}"
            raise ValueError(f"also='neurons' must have {wanted}, {got}")
    return found


def encode(found: Mapping[int, Vectors]) -> dict[str, Any]:
    """The layers as the front end reads them, in 16 bits a number, each head on its own range."""
    return {
        str(number): {
            "queries": [_encode(head) for head in x.query],
            "keys": [_encode(head) for head in x.key],
            "scale": x.scale,
        }
        for number, x in found.items()
    }


def _encode(head: Tensor) -> dict[str, Any]:
    low, high = map(float, head.aminmax())
    return encoding.encode(head.double(), low=low, high=high if high > low else low + 1)
