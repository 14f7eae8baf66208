"""Multi-head attention beside torch's own, a layer of one stacked projection, and the textbook's.

The same weights in all, and the outputs asserted equal first.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attn_notes.multihead import MultiHeadAttention, merge_heads, split_heads
from benchmarks import textbook
from benchmarks.in_torch import in_torch_names
from benchmarks.report import Bench, Table, cells, compared, run_as_main, verdict

SHAPES = ((8, 256, 512, 8), (1, 1024, 512, 8), (32, 32, 128, 4))  # (B, L, E, H)
PASSES = ("inference", "forward", "both")
WHY = (
    "torch stacks the three projections into one product, which ours does only where asked to; and "
    "a call of the smallest shape is short, so that our checks and each small operation show."
)

Result = tuple[Tensor, Tensor | None]  # the output, and the weights of each head if asked for


class Torchs(nn.Module):
    def __init__(self, layer: MultiHeadAttention) -> None:
        super().__init__()
        width = layer.q_proj.in_features
        self.layer = nn.MultiheadAttention(width, layer.num_heads, batch_first=True)
        self.layer.load_state_dict(in_torch_names(layer.state_dict()))

    def forward(self, x: Tensor, need_weights: bool) -> Result:
        return self.layer(x, x, x, need_weights=need_weights, average_attn_weights=False)


class Stacked(nn.Module):
    """One product for all projections, torch's fused kernel, output projection; no weights."""

    def __init__(self, layer: MultiHeadAttention) -> None:
        super().__init__()
        width, self.num_heads = layer.q_proj.in_features, layer.num_heads
        self.qkv_proj, self.out_proj = nn.Linear(width, 3 * width), layer.out_proj
        state = in_torch_names(layer.state_dict())
        stacked = {name: state[f"in_proj_{name}"] for name in ("weight", "bias")}
        self.qkv_proj.load_state_dict(stacked)

    def forward(self, x: Tensor, need_weights: bool) -> Result:  # noqa: ARG002
        q, k, v = (split_heads(part, self.num_heads) for part in self.qkv_proj(x).chunk(3, dim=-1))
        return self.out_proj(merge_heads(F.scaled_dot_product_attention(q, k, v))), None


class Textbook(nn.Module):
    def __init__(self, layer: MultiHeadAttention) -> None:
        super().__init__()
        self.layer = textbook.MultiHead(layer.q_proj.in_features, layer.num_heads)
        self.layer.load_state_dict(layer.state_dict())

    def forward(self, x: Tensor, need_weights: bool) -> Result:
        output, weights = self.layer(x, x, x)
        return output, weights if need_weights else None


def call(
    module: nn.Module, x: Tensor, upstream: Tensor, need_weights: bool, passes: str
) -> list[Tensor]:
    """Output and weights, and the gradient of the input where there is one.

    The gradients of all parameters are computed too, as in a step of training.
    """
    with torch.set_grad_enabled(passes != "inference"):
        results = [x for x in module(x, need_weights=need_weights) if x is not None]
    if passes == "both":
        wanted = [x, *module.parameters()]
        results.append(torch.autograd.grad(results[0], wanted, upstream)[0])
    return results


def compare(
    shape: tuple[int, ...], need_weights: bool, passes: str, bench: Bench
) -> dict[str, list[float]]:
    """Milliseconds of each layer, after asserting that all agree."""
    batch, length, width, num_heads = shape
    rng = torch.Generator().manual_seed(0)
    size = (batch, length, width)
    x, upstream = (torch.randn(size, generator=rng).to(bench.device, bench.dtype) for _ in range(2))
    layer = MultiHeadAttention(width, num_heads)
    modules: dict[str, nn.Module] = {
        "ours": layer, "torch": Torchs(layer), "textbook": Textbook(layer)
    }  # fmt: skip
    if not need_weights:
        modules["stacked"] = Stacked(layer)
    given = x.requires_grad_(), upstream, need_weights, passes
    work = {
        name: partial(
            call, module.train(passes != "inference").to(bench.device, bench.dtype), *given
        )
        for name, module in modules.items()
    }
    return compared(work, bench)


def tables(bench: Bench, shapes: Sequence[tuple[int, ...]] = SHAPES) -> Iterator[Table]:
    torch.manual_seed(0)
    names, rows = ["ours", "torch", "stacked", "textbook"], []
    for need_weights, shape, passes in product((False, True), shapes, PASSES):
        times = compare(shape, need_weights, passes, bench)
        kind = ["yes" if need_weights else "no", passes]
        rows.append([str(shape), *kind, *cells(names, times), *verdict("ours", times)])
    yield Table(
        "Multi-head attention",
        "Milliseconds; *inference* builds no graph, *both* is forward and backward. *Torch* is "
        "`nn.MultiheadAttention`, *stacked* a layer of one product for query, key and value and "
        "torch's fused kernel, *textbook* four linear layers and a softmax. Where no weights are "
        "asked for, a fused kernel gains more, the longer the sequence. With "
        "weights all do the same products. On a GPU the small shape would show the time to "
        "launch kernels, so a stacked projection would gain there.",
        ["(B, L, E, H)", "weights", "pass", *names, "ours / fastest other", "which", "1.05"],
        rows,
        WHY,
    )


if __name__ == "__main__":
    run_as_main(tables)
