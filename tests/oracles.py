"""Reference implementations, entry by entry, and random inputs for the tests.

The loops are slow and have no broadcasting, no transpose and no masked fill to get wrong. They
work on single numbers that autograd follows, so that they give gradients too.
"""

import itertools
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

# Every axis a different prime, so that no two can be taken for one another.
B, H, L, S, D, DV = 2, 3, 5, 7, 11, 13


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


def stacked(module: nn.Module) -> dict[str, Tensor]:
    """Its parameters by name, with the three projections of each attention stacked into one."""
    state = module.state_dict()
    for name in [name for name in state if "q_proj." in name]:
        parts = [state.pop(name.replace("q_proj.", f"{part}_proj.")) for part in "qkv"]
        state[name.replace("q_proj.", "qkv_proj.")] = torch.cat(parts)
    return state


def coin(*shape: int, seed: int = 0, heads: float = 0.5) -> Tensor:
    """A bool mask, True with probability `heads`."""
    return torch.rand(shape, generator=rng(seed)) < heads


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
    """Equal values and equal gradients in every input, in the precision of the inputs."""
    a, b = got(*inputs), expected(*inputs)
    torch.testing.assert_close(a, b)
    if a.requires_grad or b.requires_grad:
        torch.testing.assert_close(gradients(a, inputs), gradients(b, inputs))


def softmax_by_loop(row: list[Tensor], allowed: list[bool]) -> list[Tensor]:
    """The softmax of the allowed entries of one row; zeros where none is."""
    readable = [score for score, may in zip(row, allowed, strict=True) if may]
    if not readable:
        return [0.0 * score for score in row]
    top = max(float(score.detach()) for score in readable)
    total = sum((score - top).exp() for score in readable)
    return [
        (score - top).exp() / total if may else 0.0 * score
        for score, may in zip(row, allowed, strict=True)
    ]


def weights_by_loop(
    query: Tensor,
    key: Tensor,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    scale: float | None = None,
) -> Tensor:
    """Attention weights of one sequence and one head, one dot product at a time."""
    (rows, width), columns = query.shape, key.shape[0]
    scale = 1 / math.sqrt(width) if scale is None else scale
    weights = []
    for i in range(rows):
        scores = []
        for j in range(columns):
            score = sum(query[i, d] * key[j, d] for d in range(width)) * scale
            scores.append(score if bias is None else score + bias[i, j])
        allowed = [mask is None or bool(mask[i, j]) for j in range(columns)]
        weights.append(torch.stack(softmax_by_loop(scores, allowed)))
    return torch.stack(weights)


def average_by_loop(weights: Tensor, value: Tensor) -> Tensor:
    """Row i: the sum over keys j of weight (i, j) times value j."""
    return torch.stack(
        [
            sum((weights[i, j] * value[j] for j in range(value.shape[0])), value[0] * 0.0)
            for i in range(weights.shape[0])
        ]
    )


def over_leading_axes(function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """`function` of each sequence and head separately, stacked. All leading axes agree."""
    lead = tensors[0].shape[:-2]
    found = [
        function(*(tensor[at] for tensor in tensors)) for at in itertools.product(*map(range, lead))
    ]
    return torch.stack(found).view(*lead, *found[0].shape)
