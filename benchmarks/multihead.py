"""Multi-head attention beside torch's own, a block of one fused projection, and the textbook's.

The same weights in all, and the outputs asserted equal first. One process, a round of each in
turn, so that a busy moment hits all alike.
"""

import math
from functools import partial
from itertools import product

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attn_notes import get_device
from attn_notes.multihead import MultiHeadAttention, merge_heads, split_heads
from benchmarks.report import ROUNDS, interleaved, print_load, print_table

SHAPES = ((8, 256, 512, 8), (1, 1024, 512, 8), (32, 32, 128, 4))  # (batch, length, width, heads)
PASSES = ("inference", "forward", "both")
GOALS = "goals: ours/best 1.10 (smallest shape 1.20), ours/torch 1.05"

Result = tuple[Tensor, Tensor | None]  # the output, and the weights of each head if asked for


class Ours(nn.Module):
    def __init__(self, layer: MultiHeadAttention, need_weights: bool) -> None:
        super().__init__()
        self.layer, self.need_weights = layer, need_weights

    def forward(self, x: Tensor) -> Result:
        return self.layer(x, need_weights=self.need_weights)


class Torchs(nn.Module):
    def __init__(self, layer: MultiHeadAttention, need_weights: bool) -> None:
        super().__init__()
        width, out = layer.q_proj.in_features, layer.out_proj
        self.layer = nn.MultiheadAttention(width, layer.num_heads, batch_first=True)
        stacked = {f"in_proj_{name}": value for name, value in stack(layer).items()}
        self.layer.load_state_dict(
            {**stacked, "out_proj.weight": out.weight, "out_proj.bias": out.bias}
        )
        self.need_weights = need_weights

    def forward(self, x: Tensor) -> Result:
        return self.layer(x, x, x, need_weights=self.need_weights, average_attn_weights=False)


class Block(nn.Module):
    """One fused projection, torch's fused kernel, output projection: it has no weights to give."""

    def __init__(self, layer: MultiHeadAttention) -> None:
        super().__init__()
        width, self.num_heads = layer.q_proj.in_features, layer.num_heads
        self.qkv_proj, self.out_proj = nn.Linear(width, 3 * width), layer.out_proj
        self.qkv_proj.load_state_dict(stack(layer))

    def forward(self, x: Tensor) -> Result:
        q, k, v = (split_heads(part, self.num_heads) for part in self.qkv_proj(x).chunk(3, dim=-1))
        return self.out_proj(merge_heads(F.scaled_dot_product_attention(q, k, v))), None


class Textbook(nn.Module):
    """Section 3.2.2 of Vaswani et al. (2017), with no check and no rule for empty rows."""

    def __init__(self, layer: MultiHeadAttention, need_weights: bool) -> None:
        super().__init__()
        self.layer, self.need_weights = layer, need_weights

    def forward(self, x: Tensor) -> Result:
        projections = (self.layer.q_proj, self.layer.k_proj, self.layer.v_proj)
        q, k, v = (split_heads(proj(x), self.layer.num_heads) for proj in projections)
        weights = (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).softmax(-1)
        return self.layer.out_proj(merge_heads(weights @ v)), weights if self.need_weights else None


def stack(layer: MultiHeadAttention) -> dict[str, Tensor]:
    """Weights and biases of the three projections, one above the other."""
    projections = (layer.q_proj, layer.k_proj, layer.v_proj)
    return {
        name: torch.cat([getattr(proj, name).detach() for proj in projections])
        for name in ("weight", "bias")
    }


def call(module: nn.Module, x: Tensor, upstream: Tensor, passes: str) -> list[Tensor]:
    """Output and weights, and the gradient of the input where there is one.

    The gradients of all parameters are computed too, as in a step of training.
    """
    with torch.set_grad_enabled(passes != "inference"):
        results = [result for result in module(x) if result is not None]
    if passes == "both":
        wanted = [x, *module.parameters()]
        results.append(torch.autograd.grad(results[0], wanted, upstream)[0])
    return results


def measure(
    shape: tuple[int, ...], *, need_weights: bool, passes: str, device: torch.device
) -> dict[str, float]:
    """Median milliseconds of each contestant, after asserting that all agree."""
    batch, length, width, num_heads = shape
    rng = torch.Generator().manual_seed(0)
    size = (batch, length, width)
    x, upstream = (torch.randn(size, generator=rng).to(device) for _ in range(2))
    layer = MultiHeadAttention(width, num_heads)
    modules: dict[str, nn.Module] = {
        "ours": Ours(layer, need_weights),
        "torch": Torchs(layer, need_weights),
        "textbook": Textbook(layer, need_weights),
    }
    if not need_weights:
        modules["block"] = Block(layer)
    x.requires_grad_()
    work = {
        name: partial(call, module.train(passes != "inference").to(device), x, upstream, passes)
        for name, module in modules.items()
    }
    wanted = work["ours"]()
    for run in work.values():
        torch.testing.assert_close(run(), wanted, rtol=1e-4, atol=1e-4)
    return interleaved(work, device)


def main() -> None:
    torch.manual_seed(0)
    device = get_device()
    print(f"device {device}, {torch.get_num_threads()} threads, torch {torch.__version__}")
    print_load()
    names = ["ours", "torch", "block", "textbook"]
    header = ["(batch, length, width, heads)", "weights", "pass", *names, "ours/best", "ours/torch"]
    rows = []
    for need_weights, shape, passes in product((False, True), SHAPES, PASSES):
        times = measure(shape, need_weights=need_weights, passes=passes, device=device)
        ratios = times["ours"] / min(times.values()), times["ours"] / times["torch"]
        kind = ["yes" if need_weights else "no", passes]
        numbers = [f"{times[name]:.2f}" if name in times else "-" for name in names]
        rows.append([str(shape), *kind, *numbers, *(f"{ratio:.2f}" for ratio in ratios)])
    print(f"median milliseconds of {ROUNDS} interleaved rounds")
    print("inference: no graph is built; both: forward and backward")
    print_table(header, rows)
    print(GOALS)


if __name__ == "__main__":
    main()
