"""Reference implementations, entry by entry, and random inputs for the tests.

The loops are slow and have no broadcasting, no transpose and no masked fill to get wrong. They
work on single numbers that autograd follows, so that they give gradients too.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attn_notes import scores
from attn_notes.attention import attention_weights, weighted_sum

# Every axis a different prime, so that no two can be taken for one another.
B, H, L, S, D, DV = 2, 3, 5, 7, 11, 13
INF = math.inf

# Scores of queries of width Q and keys of width K; the last three need Q == K.
SCORES = {
    "additive": lambda Q, K: scores.AdditiveScore(Q, K, 13),
    "concat": lambda Q, K: scores.ConcatScore(Q, K, 13),
    "bilinear": scores.BilinearScore,
    "dot": lambda Q, K: scores.DotProductScore(),
    "scaled": lambda Q, K: scores.ScaledDotProductScore(),
    "gaussian": lambda Q, K: scores.GaussianScore(),
}

half_precisions = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
every_precision = pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16]
)


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """A leaf tensor that requires a gradient."""
    return torch.randn(shape, generator=rng(seed), dtype=torch.float64).to(dtype).requires_grad_()


def filled(module: nn.Module, seed: int = 7) -> nn.Module:
    """The module in float64, every parameter drawn again: biases and norms count as well."""
    module, generator = module.double(), rng(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.copy_(noise / math.sqrt(parameter.shape[-1]))
    return module


def stacked(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Parameters by name, with the three projections of each attention stacked into one."""
    whole = dict(state)
    for name in state:
        if "q_proj." in name:
            parts = [whole.pop(name.replace("q_proj.", f"{part}_proj.")) for part in "qkv"]
            whole[name.replace("q_proj.", "qkv_proj.")] = torch.cat(parts)
    return whole


def attention_inputs(
    *lead: int, rows: int = L, columns: int = S, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, Tensor, Tensor]:
    """A query, a key and a value."""
    sizes = (rows, D), (columns, D), (columns, DV)
    return tuple(normal(*lead, *size, seed=n, dtype=dtype) for n, size in enumerate(sizes, 1))


def explicit(query: Tensor, key: Tensor, value: Tensor, **keywords: Any) -> Tensor:
    """Attention by the path that stores the weights."""
    return weighted_sum(attention_weights(query, key, **keywords), value)


def coin(*shape: int, seed: int = 0, heads: float = 0.5) -> Tensor:
    """A bool mask, True with probability `heads`."""
    return torch.rand(shape, generator=rng(seed)) < heads


def mask_with_empty_row(*lead: int) -> Tensor:
    """Query 2 may read nothing."""
    mask = coin(*lead, L, S, seed=4)
    mask[..., 2, :] = False
    return mask


def gradients(output: Tensor, inputs: Sequence[Tensor], seed: int = 99) -> tuple[Tensor, ...]:
    """The gradients of a weighted sum of `output`: every entry counts, each differently."""
    weight = torch.randn(output.shape, generator=rng(seed), dtype=torch.float64).to(output.dtype)
    found = torch.autograd.grad((output * weight).sum(), inputs, allow_unused=True)
    return tuple(
        torch.zeros_like(x) if g is None else g for x, g in zip(inputs, found, strict=True)
    )


def assert_same(
    got: Callable[..., Tensor], expected: Callable[..., Tensor], *inputs: Tensor
) -> None:
    """Equal values and gradients, in the precision of the inputs, which nothing has changed."""
    before = [x.detach().clone() for x in inputs]
    a, b = got(*inputs), expected(*inputs)
    torch.testing.assert_close(a, b)
    if a.requires_grad or b.requires_grad:
        torch.testing.assert_close(gradients(a, inputs), gradients(b, inputs))
    assert all(x.equal(old) for x, old in zip(inputs, before, strict=True))


def attention_by_loop(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor, *more: Any
) -> Tensor:
    """Attention of one sequence and one head, number by number; `more` is a bias and a scale."""
    bias, scale = (*more, None, None)[:2]
    scale = 1 / math.sqrt(query.shape[1]) if scale is None else scale
    rows = []
    for i in range(len(query)):
        allowed = [j for j in range(len(key)) if mask[i, j]]
        scores = []
        for j in allowed:
            score = sum(query[i, d] * key[j, d] for d in range(query.shape[1])) * scale
            scores.append(score if bias is None else score + bias[i, j])
        top = max((float(score.detach()) for score in scores), default=0.0)
        exps = [(score - top).exp() for score in scores]
        read = [exp / sum(exps) * value[j] for exp, j in zip(exps, allowed, strict=True)]
        rows.append(sum(read, torch.zeros_like(value[0])))
    return torch.stack(rows)
