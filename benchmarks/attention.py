"""The package's two paths of attention beside torch's own and beside the textbook's.

One process, one round of each in turn, so that a busy moment hits all alike.
"""

import math
from collections.abc import Callable
from itertools import product

import torch
from torch import Tensor
from torch.nn import functional as F

from attn_notes import get_device
from attn_notes.attention import attention_weights, scaled_dot_product_attention
from benchmarks.report import ROUNDS, interleaved, print_load, print_table

SHAPES = ((8, 8, 256, 64), (1, 8, 1024, 64), (32, 4, 32, 32))  # (B, H, L, D)

Function = Callable[[Tensor, Tensor, Tensor, bool], Tensor]


def explicit(query: Tensor, key: Tensor, value: Tensor, is_causal: bool) -> Tensor:
    return attention_weights(query, key, is_causal=is_causal) @ value


def textbook(query: Tensor, key: Tensor, value: Tensor, is_causal: bool) -> Tensor:
    """Equation 1 of Vaswani et al. (2017), with no check and no rule for empty rows."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    if is_causal:
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(future, float("-inf"))
    return scores.softmax(-1) @ value


def fused(query: Tensor, key: Tensor, value: Tensor, is_causal: bool) -> Tensor:
    return scaled_dot_product_attention(query, key, value, is_causal=is_causal)


def torchs(query: Tensor, key: Tensor, value: Tensor, is_causal: bool) -> Tensor:
    return F.scaled_dot_product_attention(query, key, value, is_causal=is_causal)


FUNCTIONS: dict[str, Function] = {
    "explicit": explicit, "textbook": textbook, "fused": fused, "torch": torchs
}  # fmt: skip


def call(
    function: Function, inputs: list[Tensor], is_causal: bool, upstream: Tensor | None
) -> list[Tensor]:
    """The output; with a gradient from `upstream`, those of query, key and value after it."""
    query, key, value = inputs
    output = function(query, key, value, is_causal)
    if upstream is None:
        return [output]
    return [output, *torch.autograd.grad(output, inputs, upstream)]


def measure(
    shape: tuple[int, ...], *, is_causal: bool, backward: bool, device: torch.device
) -> dict[str, float]:
    """Median milliseconds of each function, after asserting that all agree."""
    rng = torch.Generator().manual_seed(0)
    query, key, value, grad = (torch.randn(shape, generator=rng).to(device) for _ in range(4))
    inputs = [tensor.requires_grad_(backward) for tensor in (query, key, value)]
    upstream = grad if backward else None
    work = {
        name: lambda function=function: call(function, inputs, is_causal, upstream)
        for name, function in FUNCTIONS.items()
    }
    wanted = work["torch"]()
    for run in work.values():
        torch.testing.assert_close(run(), wanted, rtol=1e-4, atol=1e-4)
    return interleaved(work, device)


def main() -> None:
    device = get_device()
    print(f"device {device}, {torch.get_num_threads()} threads, torch {torch.__version__}")
    print_load()
    header = ["(B, H, L, D)", "mask", "pass", *FUNCTIONS, "explicit/textbook", "fused/torch"]
    rows = []
    for shape, is_causal, backward in product(SHAPES, (False, True), (False, True)):
        times = measure(shape, is_causal=is_causal, backward=backward, device=device)
        ratios = (times["explicit"] / times["textbook"], times["fused"] / times["torch"])
        kind = ["causal" if is_causal else "none", "both" if backward else "forward"]
        numbers = [f"{time:.2f}" for time in times.values()]
        rows.append([str(shape), *kind, *numbers, *(f"{ratio:.2f}" for ratio in ratios)])
    print(f"median milliseconds of {ROUNDS} interleaved rounds; both = forward and backward")
    print_table(header, rows)


if __name__ == "__main__":
    main()
