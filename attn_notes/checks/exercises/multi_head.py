"""The exercises of chapter 5: splitting heads, counting them, and building the whole layer."""

from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

import torch
from torch import Tensor

from attn_notes.attention import attention_weights
from attn_notes.checks.exercises.base import exercise, expect_tensor
from attn_notes.checks.properties import CheckFailed, influence
from attn_notes.device import get_device
from attn_notes.masks import causal_mask, padding_mask
from attn_notes.multihead import MultiHeadAttention, merge_heads, split_heads

__all__ = ["count_parameters", "moved_by_head", "multi_head", "sees_future", "split_or_mix"]

MultiHead = Callable[..., tuple[Tensor, Tensor]]

SPLITS = {
    "a": ("whole", "the view cuts the features, the transpose moves the axes: that is split_heads"),
    "b": ("mixed", "this view cuts the memory into H pieces, wherever a token may end"),
    "c": ("whole", "feature j goes to head j % H: another deal, but every token keeps its own"),
    "d": ("error", "the features are no longer side by side, and a view cannot copy"),
    "e": ("mixed", "reshape copies in the order of the axes: head 0 of all tokens comes first"),
    "f": ("whole", "flatten copies after the transpose: that is merge_heads"),
}


@exercise
def split_or_mix(answer: Mapping[str, str | None]) -> None:
    """Which expressions keep tokens whole, mix them, or raise?"""
    for name, (truth, why) in SPLITS.items():
        guess = answer[name]
        if guess not in {"whole", "mixed", "error"}:
            raise CheckFailed(f'{name} has no guess: write "whole", "mixed" or "error"')
        if guess != truth:
            raise CheckFailed(f"{name} is not {guess!r}: {why}")


@exercise
def count_parameters(answer: Callable[..., int]) -> None:
    """The number of parameters from the sizes alone."""
    for E, (H, G), kdim, bias in product((8, 12), ((4, 4), (4, 2), (2, 1)), (8, 5), (True, False)):
        layer = MultiHeadAttention(E, H, num_kv_heads=G, kdim=kdim, vdim=kdim, bias=bias)
        expected = sum(parameter.numel() for parameter in layer.parameters())
        got = answer(E, H, num_kv_heads=G, kdim=kdim, bias=bias)
        if got == expected:
            continue
        case = f"embed_dim {E}, {H} heads, {G} for keys and values, kdim {kdim}, bias {bias}"
        hint = _count_hint(got, expected, E=E, H=H, G=G, bias=bias)
        raise CheckFailed(f"with {case}: {expected} parameters, got {got}{hint}")


def _count_hint(got: int, expected: int, *, E: int, H: int, G: int, bias: bool) -> str:
    """What a wrong count looks like."""
    if got == expected * H:
        return "; the heads share the width, each has E / H of it"
    if got == expected - E * E - bias * E:
        return "; is out_proj missing?"
    if bias and got == expected - (2 * E + 2 * E * G // H):
        return "; are the biases missing?"
    if bias and G < H and got - expected == 2 * E - 2 * E * G // H:
        return "; the biases of keys and values shrink with them"
    return "; are the matrices of keys and values G / H as high?" if G < H else ""


@exercise
def multi_head(answer: MultiHead) -> None:
    """The whole layer, from the chapter's parts."""
    query, key, layer = _case()
    _compare(answer, layer, query, key, "")
    short = padding_mask([3, 7], 7, device=query.device)  # (B, 1, S)
    masks = {
        "a mask (L, S)": causal_mask(5, 7, device=query.device),
        "a mask (B, L, S)": short & causal_mask(5, 7, offset=2, device=query.device),
        "a mask (B, H, L, S)": short[:, None].expand(2, 4, 5, 7).contiguous(),
    }
    for name, mask in masks.items():
        _compare(answer, layer, query, key, f"with {name}: ", mask=mask)
    query, key, layer = _case(num_kv_heads=2)
    _compare(answer, layer, query, key, "with 2 key-value heads for 4 of the queries: ")


def _case(num_kv_heads: int = 4) -> tuple[Tensor, Tensor, MultiHeadAttention]:
    """Queries (2, 5, 8), keys (2, 7, 8) and a layer of four heads."""
    generator = torch.Generator().manual_seed(7)
    layer = MultiHeadAttention(8, 4, num_kv_heads=num_kv_heads, bias=False)
    device = get_device()
    for parameter in layer.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator).to(device)
    query, key = (torch.randn(2, n, 8, generator=generator).to(device) for n in (5, 7))
    return query, key, layer


def _compare(
    answer: MultiHead,
    layer: MultiHeadAttention,
    query: Tensor,
    key: Tensor,
    case: str,
    *,
    mask: Tensor | None = None,
) -> None:
    """Hold the answer against the package's layer, and name the mistake where one is known."""
    names = ("q_proj", "k_proj", "v_proj", "out_proj")
    matrices = [getattr(layer, name).weight.detach() for name in names]
    with torch.no_grad():
        output, weights = layer(query, key, attn_mask=mask, need_weights=True)
        try:
            got = answer(query, key, key, *matrices, 4, mask)
        except NotImplementedError:
            raise
        except (RuntimeError, ValueError) as error:
            raise CheckFailed(f"{case}{_why_it_raises(case, error)}") from error
    if not isinstance(got, tuple) or len(got) != 2:
        raise CheckFailed(f"the answer should be (output, weights), got {type(got).__name__}")
    if mask is None:
        with torch.no_grad():
            _name_the_mistake(got, weights, layer, query, key)
    elif _same(got[1], layer(query, key, need_weights=True)[1]):
        raise CheckFailed(f"{case}the mask changes nothing")
    expect_tensor(got[1], weights, f"{case}the weights", atol=1e-4)
    expect_tensor(got[0], output, f"{case}the output", atol=1e-4)


def _why_it_raises(case: str, error: Exception) -> str:
    if "(B, L, S)" in case:
        return "beside scores (B, H, L, S) a mask needs its head axis: mask[:, None]"
    if "key-value" in case:
        return "w_k and w_v have G · D rows: split them into G heads, and repeat each for its group"
    return f"the answer raises {type(error).__name__}: {error}"


def _name_the_mistake(
    got: tuple[Tensor, Tensor], right: Tensor, layer: MultiHeadAttention, query: Tensor, key: Tensor
) -> None:
    """Raise where the answer is one of the mistakes that everyone makes once."""
    if _same(got[1], right):
        found, known = got[0], _wrong_outputs(layer, right, key)
    else:
        found, known = got[1], _wrong_weights(layer, query, key)
    for mistake, wrong in known.items():
        if _same(found, wrong):
            raise CheckFailed(mistake)


def _same(got: Any, expected: Tensor) -> bool:
    return (
        isinstance(got, Tensor)
        and got.shape == expected.shape
        and torch.allclose(got, expected, atol=1e-4)
    )


def _wrong_weights(layer: MultiHeadAttention, query: Tensor, key: Tensor) -> dict[str, Tensor]:
    """Weights (B, H, L, S) of a layer that is almost right, by what is wrong with it."""
    G = layer.num_kv_heads
    flat_q, flat_k = layer.q_proj(query), layer.k_proj(key)
    q, k = split_heads(flat_q, 4), split_heads(flat_k, G)
    own = k.repeat_interleave(4 // G, dim=1)
    cut_q, cut_k = flat_q.view(q.shape), flat_k.view(k.shape).repeat_interleave(4 // G, dim=1)
    return {
        "tokens and heads are mixed: a view to (B, H, L, D) cuts the memory; view to "
        "(B, L, H, D), then transpose": attention_weights(cut_q, cut_k),
        "the scores are divided by the square root of E, and a head is only D wide": (
            attention_weights(q, own, scale=8**-0.5)
        ),
        "the scores are not divided by the square root of D": (
            attention_weights(q, own, scale=1.0)
        ),
        "query head h reads key-value head h · G // H, so neighbours share one: "
        "repeat_interleave, not repeat": attention_weights(q, k.repeat(1, 4 // G, 1, 1)),
    }


def _wrong_outputs(layer: MultiHeadAttention, weights: Tensor, key: Tensor) -> dict[str, Tensor]:
    """Outputs (B, L, E) of right weights, by what is wrong after them."""
    G = layer.num_kv_heads
    v = split_heads(layer.v_proj(key), G)
    heads = weights @ v.repeat_interleave(4 // G, dim=1)  # (B, H, L, D)
    wrong = {
        "w_o is missing: the heads are side by side, and not yet mixed": merge_heads(heads),
        "the heads are merged without transposing back: tokens get each other's heads": (
            layer.out_proj(heads.reshape(2, 5, 8))
        ),
    }
    if G < 4:
        tiled = merge_heads(weights @ v.repeat(1, 4 // G, 1, 1))
        wrong["the values are shared in another order than the keys"] = layer.out_proj(tiled)
    return wrong


@exercise
def moved_by_head(answer: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
    """How long is what each word hands over, through one head?"""
    generator = torch.Generator().manual_seed(3)
    weights = torch.rand(5, 7, generator=generator).softmax(-1).to(get_device())
    v, w_o = (torch.randn(*n, generator=generator).to(get_device()) for n in ((7, 4), (8, 4)))
    expected = weights * (v @ w_o.T).norm(dim=-1)
    got = answer(weights, v, w_o)
    mistakes = {
        "that is the length before w_o: the head writes after it": weights * v.norm(dim=-1),
        "the weight is missing: that is what each word offers": expected / weights,
    }
    for mistake, wrong in mistakes.items():
        if isinstance(got, Tensor) and got.shape == wrong.shape and torch.allclose(got, wrong):
            raise CheckFailed(mistake)
    if isinstance(got, Tensor) and got.shape == (5,):
        raise CheckFailed(
            "that is one length for each query: take the norm of each part before they are added"
        )
    expect_tensor(got, expected, "the lengths")


@exercise
def sees_future(answer: set[int] | None) -> None:
    """Which outputs of a causal layer see the future after a merge without a transpose?"""
    if answer is None:
        raise CheckFailed("write a set of positions from 0 to 5, or set() for none")
    moved = influence(_merged_in_a_hurry, _six_words()) > 1e-6
    leaks = {i for i in range(6) if bool(moved[i, i + 1 :].any())}
    for i in sorted(leaks - answer):
        seen = moved[i].nonzero().flatten().tolist()
        raise CheckFailed(f"output {i} sees the future too: inputs {seen} move it")
    for i in sorted(answer - leaks):
        raise CheckFailed(f"output {i} sees no later input than itself: which rows does it hold?")


def _six_words() -> Tensor:
    return torch.randn(1, 6, 8, generator=torch.Generator().manual_seed(5)).to(get_device())


def _merged_in_a_hurry(x: Tensor) -> Tensor:
    """Two causal heads of width 4, split as they should be, and merged by reshape alone."""
    heads = split_heads(x, 2)  # (1, 2, 6, 4)
    return (attention_weights(heads, heads, is_causal=True) @ heads).reshape(x.shape)
