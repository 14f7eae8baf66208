"""The exercises of chapter 5: splitting heads, counting them, and building the whole layer."""

from functools import partial
from itertools import product
from typing import Any

from torch import Tensor

from attn_notes.attention import attention_weights
from attn_notes.checks.exercises.base import CheckFailed, compare, draw, exercise, prediction
from attn_notes.checks.properties import influence
from attn_notes.masks import causal_mask, padding_mask
from attn_notes.multihead import MultiHeadAttention, merge_heads, split_heads

__all__ = ["count_parameters", "moved_by_head", "multi_head", "sees_future", "split_or_mix"]

SPLITS = {
    "a": ("whole", "the view cuts the features, the transpose moves the axes: that is split_heads"),
    "b": ("mixed", "this view cuts the memory into H pieces, wherever a token may end"),
    "c": ("whole", "feature j goes to head j % H: another order, but no token loses any"),
    "d": ("error", "the features are no longer side by side, and a view cannot copy"),
    "e": ("mixed", "reshape copies in the order of the axes: head 0 of all tokens comes first"),
    "f": ("whole", "flatten copies after the transpose: that is merge_heads"),
}
split_or_mix = prediction(SPLITS, '"whole", "mixed" or "error"')
"""Which expressions keep tokens whole, mix them, or raise?"""


@exercise
def count_parameters(answer: Any) -> None:
    """The number of parameters from the sizes alone."""
    for E, (H, G), kdim, bias in product((8, 12), ((4, 4), (4, 2), (2, 1)), (8, 5), (True, False)):
        layer = MultiHeadAttention(E, H, num_kv_heads=G, kdim=kdim, vdim=kdim, bias=bias)
        right = sum(p.numel() for p in layer.parameters())
        mistakes = {
            "is out_proj missing?": right - E * E - bias * E,
            "are the matrices of keys and values G / H as high?": (2 * E + 2 * kdim + 4 * bias) * E,
        }
        got = answer(E, H, num_kv_heads=G, kdim=kdim, bias=bias)
        case = f"with embed_dim {E}, {H} heads, {G} for keys and values, kdim {kdim}, bias {bias}: "
        compare(got, right, "the number", mistakes=mistakes, case=case)


@exercise
def multi_head(answer: Any) -> None:
    """The whole layer, from the chapter's parts."""
    (query,) = draw((2, 5, 8))
    causal = causal_mask(5, 7, device=query.device)  # (L, S)
    short = padding_mask([3, 7], 7, device=query.device)  # (B, 1, S)
    _check_layer(answer, query, "")
    _check_layer(answer, query, "with a mask (L, S): ", mask=causal)
    _check_layer(answer, query, "with a mask (B, L, S): ", mask=short & causal)
    _check_layer(answer, query, "with 2 key-value heads for 4 of the queries: ", G=2)


def _check_layer(
    answer: Any, query: Tensor, case: str, *, mask: Tensor | None = None, G: int = 4
) -> None:
    """Compare the answer with a layer of four heads."""
    key, *matrices = draw((2, 7, 8), (8, 8), (2 * G, 8), (2 * G, 8), (8, 8), seed=7)
    output, table = answer(query, key, key, *matrices, 4, mask)
    w_q, w_k, w_v, w_o = matrices
    flat_q, flat_k, flat_v = query @ w_q.T, key @ w_k.T, key @ w_v.T
    q, k, v = split_heads(flat_q, 4), split_heads(flat_k, G), split_heads(flat_v, G)
    cut_q, cut_k = flat_q.view(q.shape), flat_k.view(k.shape)
    own_k, own_v, cut_k = (x.repeat_interleave(4 // G, dim=1) for x in (k, v, cut_k))
    heads_mask = mask[:, None] if mask is not None and mask.dim() == 3 else mask
    attend = partial(attention_weights, attn_mask=heads_mask)
    weights = attend(q, own_k)
    heads = weights @ own_v  # (B, H, L, D)
    mistakes = {
        "tokens and heads are mixed: view to (B, L, H, D), then transpose": attend(cut_q, cut_k),
        "the root is that of E, but a head is only D wide": attend(q, own_k, scale=8**-0.5),
        "the scores are not divided by the root of D": attend(q, own_k, scale=1.0),
        "the mask changes nothing": attention_weights(q, own_k),
    }
    compare(table, weights, "the weights", mistakes=mistakes, case=case)
    mistakes = {"w_o is missing: the heads are side by side, and not yet mixed": merge_heads(heads)}
    compare(output, merge_heads(heads) @ w_o.T, "the output", mistakes=mistakes, case=case)


@exercise
def moved_by_head(answer: Any) -> None:
    """How long is what each word hands over, through one head?"""
    scores, v, w_o = draw((5, 7), (7, 4), (8, 4), seed=3)
    weights = scores.softmax(-1)
    offered = (v @ w_o.T).norm(dim=-1)  # (7,)
    mistakes = {
        "that is the length before w_o: the head writes after it": weights * v.norm(dim=-1),
        "the weight is missing: that is what each word offers": offered.expand(5, 7),
    }
    compare(answer(weights, v, w_o), weights * offered, "the lengths", mistakes=mistakes)


@exercise
def sees_future(answer: Any) -> None:
    """Which outputs of a causal layer see the future after a merge without a transpose?"""
    (words,) = draw((1, 6, 8), seed=5)
    moved = influence(_merged_without_transpose, words) > 1e-6
    leaks = set(moved.triu(1).any(-1).nonzero().flatten().tolist())
    for i in sorted(leaks ^ answer):
        seen = "the future too" if i in leaks else "no later input than itself"
        raise CheckFailed(f"output {i} sees {seen}: which rows does it hold?")


def _merged_without_transpose(x: Tensor) -> Tensor:
    """Two causal heads of width 4, split as they should be, and merged by reshape alone."""
    heads = split_heads(x, 2)  # (1, 2, 6, 4)
    return (attention_weights(heads, heads, is_causal=True) @ heads).reshape(x.shape)
