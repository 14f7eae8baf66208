"""The two passes of `attn_notes.flash.tiled_attention` as kernels for a GPU (chapter 10).

They are written in Triton, whose package is the extra `triton`; nothing else here needs it. With
`TRITON_INTERPRET=1` in the environment before Python starts, Triton's interpreter runs the same
kernels on CPU tensors, slowly. The tests check the results in this way, and that the kernels
compile for GPUs of compute capability 8.0 and 9.0. No GPU has run them: their speed is not known.

A program of a kernel holds one tile of queries, or of keys, of one head, and reads the others tile
by tile. The scores of a tile never leave it. A row that may read nothing has the log-sum-exp +inf,
so that its weights are exp(-inf) = 0.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from attn_notes.arguments import check_floating, check_shapes
from attn_notes.masks import Lengths, padding_mask

try:
    import triton
    import triton.language as tl
except ModuleNotFoundError:  # the kernels can still be read
    triton, tl = SimpleNamespace(jit=lambda function: function), None


@triton.jit
def forward_kernel(
    q, k, v, lengths, out, log_sum_exp, H, L, S, D, scale,
    CAUSAL: tl.constexpr, TILE: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """One tile of queries reads the keys that it may read."""
    head, first = tl.program_id(0).to(tl.int64), tl.program_id(1) * TILE
    rows, dims = first + tl.arange(0, TILE), tl.arange(0, WIDTH)
    queries = _load(q, head, rows, dims, L, D)  # (TILE, WIDTH)
    maximum = tl.full((TILE,), float("-inf"), tl.float32)
    total = tl.zeros((TILE,), tl.float32)
    output = tl.zeros((TILE, WIDTH), tl.float32)
    length = tl.load(lengths + head // H)
    end = tl.minimum(length, first + TILE) if CAUSAL else length
    for start in range(0, end, TILE):
        columns = start + tl.arange(0, TILE)
        keys = _load(k, head, columns, dims, S, D)
        values = _load(v, head, columns, dims, S, D)
        scores = _scores(queries, keys, rows, columns, length, scale, CAUSAL)
        old, maximum = maximum, tl.maximum(maximum, tl.max(scores, 1))
        rescale = tl.exp(old - maximum)
        weights = tl.exp(scores - maximum[:, None])  # (TILE, TILE)
        total = rescale * total + tl.sum(weights, 1)
        output = rescale[:, None] * output + _dot(weights, values)
    at_least_1 = tl.maximum(total, 1.0)
    known = tl.where(total > 0, maximum + tl.log(at_least_1), float("inf"))
    tl.store(log_sum_exp + head * L + rows, known, rows < L)
    at, inside = _place(out, head, rows, dims, L, D)
    tl.store(at, output / at_least_1[:, None], inside)


@triton.jit
def backward_kernel(
    q, k, v, lengths, log_sum_exp, mean, d_out, dq, dk, dv, H, L, S, D, scale,
    CAUSAL: tl.constexpr, TILE: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """One tile of keys is read by the queries that may read it."""
    head, first = tl.program_id(0).to(tl.int64), tl.program_id(1) * TILE
    columns, dims = first + tl.arange(0, TILE), tl.arange(0, WIDTH)
    keys = _load(k, head, columns, dims, S, D)  # (TILE, WIDTH)
    values = _load(v, head, columns, dims, S, D)
    d_keys = tl.zeros((TILE, WIDTH), tl.float32)
    d_values = tl.zeros((TILE, WIDTH), tl.float32)
    length = tl.load(lengths + head // H)
    for start in range(first if CAUSAL else 0, L, TILE):
        rows = start + tl.arange(0, TILE)
        queries = _load(q, head, rows, dims, L, D)
        d_output = _load(d_out, head, rows, dims, L, D)
        row = head * L + rows
        known = tl.load(log_sum_exp + row, rows < L, float("inf"))
        scores = _scores(queries, keys, rows, columns, length, scale, CAUSAL)
        weights = tl.exp(scores - known[:, None])  # (TILE, TILE)
        d_weights = _dot(d_output, tl.trans(values))
        d_mean = tl.load(mean + row, rows < L, 0.0)
        d_scores = weights * (d_weights - d_mean[:, None]) * scale
        at, inside = _place(dq, head, rows, dims, L, D)
        tl.atomic_add(at, _dot(d_scores, keys), inside)  # other tiles add too
        d_keys += _dot(tl.trans(d_scores), queries)
        d_values += _dot(tl.trans(weights), d_output)
    at, inside = _place(dk, head, columns, dims, S, D)
    tl.store(at, d_keys, inside)
    at, inside = _place(dv, head, columns, dims, S, D)
    tl.store(at, d_values, inside)


@triton.jit
def _scores(q, k, rows, columns, length, scale, CAUSAL: tl.constexpr):
    """The scores of one tile, -inf where a query may not read."""
    may = columns[None, :] < length
    if CAUSAL:
        may = may & (columns[None, :] <= rows[:, None])
    return tl.where(may, _dot(q, tl.trans(k)) * scale, float("-inf"))


@triton.jit
def _dot(a, b):
    """A product of matrices in the precision of b, summed in 32 bits."""
    return tl.dot(a.to(b.dtype), b, input_precision="ieee")


@triton.jit
def _load(tensor, head, rows, dims, n_rows, n_dims):
    """Some rows of one head; 0 beyond its edges."""
    at, inside = _place(tensor, head, rows, dims, n_rows, n_dims)
    return tl.load(at, inside, 0.0)


@triton.jit
def _place(tensor, head, rows, dims, n_rows, n_dims):
    """Where some rows of one head lie in memory, and which exist."""
    inside = (rows[:, None] < n_rows) & (dims[None, :] < n_dims)
    at = (head * n_rows + rows[:, None]) * n_dims + dims[None, :]
    return tensor + at, inside


def triton_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    lengths: Lengths | None = None,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """`tiled_attention` of split heads, by Triton kernels.

    FlashAttention-2 (Dao, 2023), without its tuning; chapter 10. It has no second derivative.
    Queries, keys and values, (B, H, L, D) and (B, H, S, D), are float16, bfloat16 or float32 on a
    CUDA device; on any device if Triton's interpreter runs, but not bfloat16, whose products it
    gets wrong. Of each sequence `lengths` (B,) keys are real, by default all.
    """
    _check(query, key, value)
    (B, _, _, D), S = query.shape, key.shape[2]
    lengths = [S] * B if lengths is None else lengths
    real = padding_mask(lengths, S, device=query.device)  # (B, 1, S)
    if real.shape != (B, 1, S):
        raise ValueError(f"lengths must have shape ({B},), got {tuple(real.shape[:-1])}")
    scale = 1 / math.sqrt(D) if scale is None else scale
    return TritonAttention.apply(query, key, value, real.sum(-1), scale, is_causal)


class TritonAttention(torch.autograd.Function):
    """Launches the kernels of `triton_attention`."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        """The output; for the way back, the log-sum-exp of each row."""
        *tensors, scale, is_causal = inputs
        tensors = [tensor.contiguous() for tensor in tensors]
        output = torch.empty_like(tensors[0])  # (B, H, L, D)
        log_sum_exp = output.new_empty(output.shape[:-1], dtype=torch.float32)
        ctx.size, ctx.options = tensors[1].shape[2], (scale, is_causal)
        _launch(forward_kernel, output.shape[2], [*tensors, output, log_sum_exp], ctx)
        ctx.save_for_backward(*tensors, log_sum_exp, output)
        return output

    @staticmethod
    def backward(ctx: Any, d_output: Tensor) -> Any:
        """The gradients, from weights that are computed again."""
        if torch.is_grad_enabled():
            must = "create_graph must be False: no second derivative"
            raise RuntimeError(f"{must} of triton_attention is known")
        *tensors, output = ctx.saved_tensors
        mean = (d_output.float() * output.float()).sum(-1)  # (B, H, L)
        dq = torch.zeros_like(output, dtype=torch.float32)
        dk, dv = map(torch.empty_like, tensors[1:3])
        tensors += [mean, d_output.contiguous(), dq, dk, dv]
        _launch(backward_kernel, dk.shape[2], tensors, ctx)
        return dq.to(output.dtype), dk, dv, None, None, None


def _launch(kernel: Any, size: int, tensors: list[Tensor], ctx: Any) -> None:
    """Run one program for each head and each tile of `size` queries or keys."""
    query = tensors[0]
    B, H, L, D = query.shape
    width = max(16, triton.next_power_of_2(D))  # what tl.dot and tl.arange can take
    tile = 128 // query.element_size()  # to width 128 the tiles take 99,328 bytes or less
    tile = tile if width <= 128 else tile // 2
    grid = B * H, triton.cdiv(size, tile)
    if 0 not in grid:
        with torch.cuda.device_of(query):
            kernel[grid](*tensors, H, L, ctx.size, D, *ctx.options, tile, width)


def obstacle(device: torch.device) -> str:
    """What keeps the kernels from running on a device, in words; "" if they can run."""
    if tl is None:
        return "triton_attention needs the package triton, an extra of this one"
    if isinstance(forward_kernel, triton.JITFunction) and device.type != "cuda":
        return "Triton needs a CUDA device, or TRITON_INTERPRET=1 before Python starts"
    return ""


def _check(query: Tensor, key: Tensor, value: Tensor) -> None:
    """Raise unless the tensors fit and the kernels can run on their device."""
    check_floating(query=query, key=key, value=value)
    check_shapes(query=(query, "B H L D"), key=(key, "B H S D"), value=(value, "B H S D"))
    if query.shape[-1] > 256:  # a tile must fit into fast memory
        raise ValueError(f"head_dim (last axis) must be at most 256, got {tuple(query.shape)}")
    if query.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise TypeError(f"query must be float16, bfloat16 or float32, got {query.dtype}")
    if why := obstacle(query.device):
        kind = ModuleNotFoundError if tl is None else RuntimeError
        raise kind(f"{why}, got a query on {query.device}")
    if not query.is_cuda and query.dtype == torch.bfloat16:  # Triton 3.9 multiplies its bits
        must = "query must be float16 or float32 under Triton's interpreter"
        raise TypeError(f"{must}, got {query.dtype}")
