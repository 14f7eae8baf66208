"""Between the projections of an attention layer: see and change what it computes (chapter 11)."""

import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attn_notes.cache import KVCache
from attn_notes.inside.models import OURS, Layer, Part
from attn_notes.multihead import MultiHeadAttention

See = Callable[[Part, Tensor], Tensor]  # what becomes of a part of all heads, (B, H, L, ...)


@contextmanager
def tapped(layer: Layer, parts: Collection[Part], see: See) -> Iterator[None]:
    """Let `see` read and replace the parts of all heads whenever the layer computes them.

    Queries (B, H, L, D) and keys (B, G, S, D) are those of the scores: behind their norms and
    rotations, keys with those of a cache. Values are (B, G, S, Dv), the pattern (B, H, L, S) before
    dropout (behind it in the reference library), outputs (B, H, L, Dv).
    """

    def before_projection(_: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        heads = args[0].unflatten(-1, (layer.num_heads, -1)).transpose(-3, -2)  # (B, H, L, D)
        return see("output", heads).transpose(-3, -2).flatten(-2), *args[1:]

    with ExitStack() as undo:
        if "output" in parts:
            undo.callback(layer.out_proj.register_forward_pre_hook(before_projection).remove)
        if inner := {*parts} - {"output"}:
            tap = _tap_ours if layer.family is OURS else _tap_reference
            undo.enter_context(tap(layer.module, inner, see))
        yield


@contextmanager
def _tap_ours(module: MultiHeadAttention, parts: Collection[Part], see: See) -> Iterator[None]:
    """The cache is the last to have keys and values, a rotation queries, a dropout the pattern."""
    shown: list[Tensor] = []

    def before(_: nn.Module, args: Any, options: dict[str, Any]) -> Any:
        rotary, cache = options.get("rotary"), options.get("cache")
        turned: Iterator[Any] = iter([partial(see, "query"), lambda keys: keys])  # queries first

        def turn(x: Tensor) -> Tensor:
            return next(turned)(x if rotary is None else rotary(x))

        own = {"rotary": turn, "cache": _SeenCache(KVCache() if cache is None else cache, see)}
        return args, {**options, **own, "need_weights": options.get("need_weights") or open_}

    def before_dropout(_: nn.Module, args: tuple[Tensor]) -> tuple[Tensor]:
        shown[:] = [see("pattern", args[0])]
        return (shown[0],)

    def after(_: nn.Module, _args: Any, output: tuple[Tensor, Tensor | None]) -> Any:
        return (output[0], shown[0])  # the weights that were used

    open_ = "pattern" in parts
    with ExitStack() as undo:
        undo.callback(module.register_forward_pre_hook(before, with_kwargs=True).remove)
        if open_:
            undo.callback(module.dropout.register_forward_pre_hook(before_dropout).remove)
            undo.callback(module.register_forward_hook(after).remove)
        yield


class _SeenCache:
    """A cache that shows the keys and values that it gives."""

    def __init__(self, cache: KVCache, see: See) -> None:
        self.cache, self.see, self.length = cache, see, cache.length

    def update(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """As in `KVCache`."""
        keys, values = self.cache.update(key, value)
        return self.see("key", keys), self.see("value", values)


NAME = "attn_notes"  # of our attention function, in the reference library's table
SEEN: dict[nn.Module, list[tuple[Collection[Part], See]]] = {}  # who looks, the outermost first


@contextmanager
def _tap_reference(layer: Any, parts: Collection[Part], see: See) -> Iterator[None]:
    """The library calls the attention function that the config names: for a while, this one."""
    module = layer.self if hasattr(layer, "self") else layer
    modeling = sys.modules.get("transformers.modeling_utils")
    eager = getattr(sys.modules[type(module).__module__], "eager_attention_forward", None)
    config = getattr(module, "config", None)
    if modeling is None or eager is None or config is None:
        wanted = "an attention of transformers with `eager_attention_forward`"
        got = f"got {type(module).__name__} of {type(module).__module__}"
        raise ValueError(f"for {', '.join(sorted(parts))} a layer must be {wanted}, {got}")
    masks = sys.modules["transformers.masking_utils"]
    modeling.ALL_ATTENTION_FUNCTIONS.register(NAME, _attend)
    masks.ALL_MASK_ATTENTION_FUNCTIONS.register(NAME, masks.eager_mask)
    before = config._attn_implementation
    SEEN.setdefault(module, []).append((parts, see))
    config._attn_implementation = NAME
    try:
        yield
    finally:
        config._attn_implementation = before
        SEEN[module].pop()
        if not SEEN[module]:
            del SEEN[module]


def _attend(
    module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **options: Any
) -> tuple[Tensor, Tensor]:
    """The model's own open attention, whose numbers are shown on their way; (B, L, H, D)."""
    seen = SEEN.get(module, [])
    for _, see in seen:
        query, key, value = see("query", query), see("key", key), see("value", value)
    if mask is None and query.shape[2] > 1 and getattr(module, "is_causal", False):
        raise ValueError("a causal layer must be run by its model, which makes its mask, got none")
    if mask is not None and mask.dtype == torch.bool:  # made for the fused kernel
        closed = torch.finfo(query.dtype).min
        mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill(~mask, closed)
    eager = sys.modules[type(module).__module__].eager_attention_forward
    output, weights = eager(module, query, key, value, mask, **options)
    patterns = [see for parts, see in seen if "pattern" in parts]
    if not patterns:
        return output, weights
    for see in patterns:
        weights = see("pattern", weights)  # (B, H, L, S)
    value = value.repeat_interleave(weights.shape[1] // value.shape[1], dim=1)
    return (weights @ value).transpose(1, 2), weights
