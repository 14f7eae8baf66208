"""The exercises of chapter 5: splitting heads, counting parameters, and the whole layer."""

from collections.abc import Collection, Mapping
from itertools import product
from typing import Any

from torch import Tensor

from attn_exercises.base import compare, draw, exercise, of_function, pair, refuse
from attn_notes.attention import attention_weights
from attn_notes.checks.properties import CheckFailed, influence
from attn_notes.masks import causal_mask, padding_mask
from attn_notes.multihead import MultiHeadAttention, merge_heads, split_heads


@of_function
def layer_parameters(answer: Any) -> None:
    """The number of parameters from the sizes alone."""
    for E, (H, G), kdim, bias in product((12, 8), ((4, 4), (4, 2), (2, 1)), (5, 8), (True, False)):
        layer = MultiHeadAttention(E, H, num_kv_heads=G, kdim=kdim, vdim=kdim, bias=bias)
        right, shared = sum(p.numel() for p in layer.parameters()), E // H * G
        mistakes = {
            "keys and values have G · D rows, not G": right - 2 * (shared - G) * (kdim + bias),
            "is out_proj missing?": right - E * E - bias * E,
            "are the matrices of keys and values G / H as high?": (2 * E + 2 * kdim + 4 * bias) * E,
            "are the biases missing?": right - bias * 2 * (E + shared),
            "bias=False means no biases": right + 2 * (E + shared),
            "the biases of keys and values have G · D numbers": right + bias * 2 * (E - shared),
            "keys and values are made from inputs of width kdim": right + 2 * shared * (E - kdim),
        }
        case = f"with embed_dim {E}, {H} heads, {G} for keys and values, kdim {kdim}, bias {bias}: "
        compare(answer(E, H, G, kdim, bias), right, "the count", mistakes, case)
    refuse(answer, LAYERS | {"Linear"}, "count from the sizes alone: build no layer")


LAYERS = {"MultiHeadAttention", "SelfAttention", "MultiheadAttention"}
LAYERS |= {"multi_head_attention_forward"}
NAMES = ("query", "key", "value", "w_q", "w_k", "w_v", "w_o", "mask")
MISTAKES: dict[str, dict[str, Any]] = {
    "tokens and heads are mixed: view to (B, L, H, D), then transpose": {
        "split": lambda x, heads: x.view(len(x), heads, -1, x.shape[-1] // heads)
    },
    "the root is that of E, but a head is only D wide": {"scale": 8**-0.5},
    "the scores are not divided by the root of D": {"scale": 1.0},
    "the mask changes nothing": {"mask": None},
    "query head h reads key-value head h · G // H": {
        "repeat": lambda x: x.repeat(1, 4 // x.shape[1], 1, 1)
    },
    "w_o is missing: the heads are side by side, and not yet mixed": {"w_o": None},
    "the merge mixes tokens and heads: transpose first": {"merge": lambda x: x.reshape(2, 5, 8)},
}


@of_function
def multi_head(answer: Any) -> None:
    """The whole layer, grouped heads and masks included."""
    (numbers,) = draw((2, 4, 5, 7), seed=11)
    causal = causal_mask(5, 7, device=numbers.device)  # (L, S)
    short = padding_mask([3, 7], 7, device=numbers.device)  # (B, 1, S)
    _check_layer(answer, "")
    _check_layer(answer, "with a mask (L, S): ", mask=causal)
    _check_layer(answer, "with a mask (B, L, S): ", mask=short & causal)
    _check_layer(answer, "with a mask (B, H, L, S): ", mask=numbers > -1)
    _check_layer(answer, "with 2 key-value heads for 4 of the queries: ", G=2)
    _check_layer(answer, "with 1 key-value head for 4 of the queries: ", G=1, mask=short & causal)
    _check_layer(answer, "with 2 key-value heads and a mask (B, H, L, S): ", G=2, mask=numbers > -1)
    query, key, w = draw((3, 6, 12), (3, 4, 12), (12, 12))
    given = query, key, key, w, w, w, w
    got = pair(answer(*given, 2, None), "the output and the weights")
    right = _layer(dict(zip((*NAMES, "width"), [*given, None, 6], strict=True)))
    for one, wanted, what in zip(got, right, ("the output", "the weights"), strict=True):
        compare(one, wanted, what, case="with 2 heads of width 6: ")
    refuse(answer, LAYERS, "put the layer together from its parts")


def _check_layer(answer: Any, case: str, *, mask: Tensor | None = None, G: int = 4) -> None:
    """Compare the answer with a layer of four heads whose key and value are different tensors."""
    inputs = draw((2, 5, 8), (2, 7, 8), (2, 7, 8))
    matrices = draw((8, 8), (2 * G, 8), (2 * G, 8), (8, 8), seed=7)
    got = pair(answer(*inputs, *matrices, 4, mask), "the output and the weights")
    given: dict[str, Any] = dict(zip(NAMES, [*inputs, *matrices, mask], strict=True))
    mistakes = MISTAKES | {
        "the mask is inverted": {"mask": None if mask is None else ~mask},
        "the values are made from key, not from value": {"value": given["key"]},
    }
    fitting = NAMES[3:7] if G == 4 else ("w_q", "w_o")  # square, so that they fit either way
    turned = {name: given[name].T for name in fitting}
    mistakes |= {f"{name} is not transposed: x @ w.T": {name: turned[name]} for name in turned}
    mistakes["the matrices are not transposed: x @ w.T"] = turned
    output, weights = _layer(given)
    wrong = {mistake: _layer(given | change) for mistake, change in mistakes.items()}
    tables = {"return the output first, then the weights": output}
    tables |= {mistake: made[1] for mistake, made in wrong.items()}
    compare(got[1], weights, "the weights", tables, case)
    outputs = {mistake: made[0] for mistake, made in wrong.items()}
    compare(got[0], output, "the output", outputs, case)


def _layer(given: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
    """Output and weights of heads of width 2, with what is given beyond `NAMES` done wrong."""
    query, key, value, w_q, w_k, w_v, w_o, mask = (given[name] for name in NAMES)
    split, share, D = given.get("split", split_heads), len(w_q) // len(w_k), given.get("width", 2)
    q, k, v = (split(x @ w.T, len(w) // D) for x, w in ((query, w_q), (key, w_k), (value, w_v)))
    repeat = given.get("repeat", lambda x: x.repeat_interleave(share, dim=1))
    mask = mask[:, None] if mask is not None and mask.dim() == 3 else mask
    weights = attention_weights(q, repeat(k), attn_mask=mask, scale=given.get("scale"))
    heads = given.get("merge", merge_heads)(weights @ repeat(v))
    return heads if w_o is None else heads @ w_o.T, weights


@of_function
def moved_by_head(answer: Any) -> None:
    """How long is what each word writes through one head?"""
    for E in (8, 12):
        scores, v, w_o = draw((5, 7), (7, 4), (E, 4), seed=3)
        weights = scores.softmax(-1)
        lengths = (v @ w_o.T).norm(dim=-1)  # (7,)
        mistakes = {
            "that is the length before w_o: the head writes after it": weights * v.norm(dim=-1),
            "the weight is missing: each length is multiplied by it": lengths.expand(5, 7),
            "that is the weights alone: multiply each by a length": weights,
            "that is the length of each whole output": (weights @ v @ w_o.T).norm(dim=-1),
            "the root is missing": (weights * lengths).square(),
        }
        compare(answer(weights, v, w_o), weights * lengths, "the lengths", mistakes)


@exercise
def sees_future(answer: Any) -> None:
    """Which outputs of a causal layer see the future after a merge without a transpose?"""
    answer = answer.tolist() if isinstance(answer, Tensor) else answer
    if not isinstance(answer, Collection) or isinstance(answer, str | Mapping):
        raise CheckFailed(f"the answer should be a set of positions, got {type(answer).__name__}")
    if strange := [i for i in answer if isinstance(i, bool | Tensor) or i not in range(6)]:
        raise CheckFailed(f"the positions are 0 to 5, got {strange[0]!r}")
    (words,) = draw((1, 6, 8), seed=5)
    moved = influence(_merged_without_transpose, words) > 1e-6
    leaks = set(moved.triu(1).any(-1).nonzero().flatten().tolist())
    for i in sorted(leaks ^ set(answer)):
        seen = "a later input" if i in leaks else "no later input than itself"
        raise CheckFailed(f"output {i} sees {seen}: which rows of which head does it hold?")


def _merged_without_transpose(x: Tensor) -> Tensor:
    """Two causal heads of width 4, split as they should be, and merged by reshape alone."""
    heads = split_heads(x, 2)  # (1, 2, 6, 4)
    return (attention_weights(heads, heads, is_causal=True) @ heads).reshape(x.shape)
