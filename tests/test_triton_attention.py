"""The Triton kernels against the loop in torch; on a GPU, or by Triton's interpreter on the CPU.

`make test-triton` sets TRITON_INTERPRET, and then a missing triton is a failure. Elsewhere these
tests run where triton and a GPU are, and are skipped where one of them is missing: torch's build
for CUDA brings triton to machines without a GPU.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

if "TRITON_INTERPRET" not in os.environ:
    pytest.importorskip("triton", reason="triton is not installed: `make test-triton` installs it")
    if not torch.cuda.is_available():
        pytest.skip("no GPU: `make test-triton` interprets", allow_module_level=True)

import triton  # reads the variable

from attn_notes.flash import tiled_attention
from attn_notes.masks import padding_mask
from attn_notes.triton_attention import triton_attention
from tests.oracles import B, H, gradients, normal

ROOT = Path(__file__).parents[1]
DEVICE = "cpu" if triton.knobs.runtime.interpret else "cuda"
ATOL = 5e-6  # in 32 bits, of numbers of about 1; under the interpreter the most is 3e-6


def qkv(rows=33, columns=70, width=16, dtype=torch.float32):
    sizes = (rows, width), (columns, width), (columns, width)
    tensors = (normal(B, H, *size, seed=n, dtype=dtype) for n, size in enumerate(sizes))
    return tuple(tensor.detach().to(DEVICE).requires_grad_() for tensor in tensors)


def tiled(q, k, v, *, lengths=None, **keywords):
    """The same by `tiled_attention`."""
    if lengths is not None:
        keywords["attn_mask"] = padding_mask(lengths, k.shape[2], device=q.device)[:, None]
    return tiled_attention(q, k, v, **keywords)


def assert_close(got, expected, atol=ATOL):
    torch.testing.assert_close(got, expected, atol=atol, rtol=3e-6)


@pytest.mark.parametrize("lengths", [None, [70, 40], [0, 33]])
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(
    "sizes", [{}, {"rows": 80, "width": 24}, {"rows": 1, "width": 3}, {"rows": 32, "width": 64}]
)
def test_values_and_gradients_are_those_of_the_loop_in_torch(lengths, is_causal, sizes):
    inputs, how = qkv(**sizes), {"lengths": lengths, "is_causal": is_causal}
    got, expected = triton_attention(*inputs, **how), tiled(*inputs, **how)
    assert_close(got, expected)
    found = gradients(got, inputs)
    assert_close(found, gradients(expected, inputs))
    if lengths == [0, 33]:  # an empty sequence, and keys that nobody reads
        assert got[0].abs().max() == 0
        assert max(gradient[0].abs().max() for gradient in found) == 0
        assert max(gradient[1, :, 33:].abs().max() for gradient in found[1:]) == 0


@pytest.mark.parametrize("scale", [0.3, 1])
def test_the_scale_and_inputs_with_other_strides(scale):
    inputs = [x.detach().mT.contiguous().mT.requires_grad_() for x in qkv()]
    assert not inputs[0].is_contiguous()
    got, expected = triton_attention(*inputs, scale=scale), tiled(*inputs, scale=scale)
    assert_close(got, expected)
    assert_close(gradients(got, inputs), gradients(expected, inputs))


@pytest.mark.parametrize(("dtype", "atol"), [(torch.float16, 2e-3), (torch.bfloat16, 2e-2)])
def test_half_precision_sums_in_single_precision(dtype, atol):
    if dtype == torch.bfloat16 and DEVICE == "cpu":
        with pytest.raises(TypeError, match=r"under Triton's interpreter, got torch.bfloat16"):
            triton_attention(*qkv(dtype=dtype))
        return
    halves = qkv(rows=70, columns=130, dtype=dtype)
    floats = tuple(x.detach().float().requires_grad_() for x in halves)
    got, expected = triton_attention(*halves, is_causal=True), tiled(*floats, is_causal=True)
    assert got.dtype == dtype
    assert_close(got.float(), expected, atol)
    for gradient, exact in zip(gradients(got, halves), gradients(expected, floats), strict=True):
        assert gradient.dtype == dtype
        assert (gradient.float() - exact).norm() < atol * 2 * exact.norm()


def test_no_queries_no_keys_and_no_second_derivative():
    q, k, v = qkv()
    assert triton_attention(q[:, :, :0], k, v).shape == (B, H, 0, 16)
    empty = triton_attention(q, k[:, :, :0], v[:, :, :0])
    assert empty.abs().max() == 0
    assert gradients(empty, [q])[0].abs().max() == 0
    with pytest.raises(RuntimeError, match="no second derivative"):
        torch.autograd.grad(triton_attention(q, k, v).sum(), q, create_graph=True)


COMPILE = """
import sys
from triton import compile
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from attn_notes import triton_attention as module

types = dict.fromkeys("HLSD", "i32") | {"scale": "fp32", "lengths": "*i64"}
types |= dict.fromkeys(("log_sum_exp", "mean", "dq"), "*fp32")
name, capability, dtype, tile, width = sys.argv[1:]
constants = {"CAUSAL": True, "TILE": int(tile), "WIDTH": int(width)}
types |= dict.fromkeys(constants, "constexpr")
kernel = getattr(module, name)
types = {argument: types.get(argument, "*" + dtype) for argument in kernel.arg_names}
source = ASTSource(fn=kernel, signature=types, constexprs=constants)
compiled = compile(source, target=GPUTarget("cuda", int(capability), 32))
print(len(compiled.asm["cubin"]), compiled.metadata.shared)
"""


@pytest.mark.parametrize("kernel", ["forward_kernel", "backward_kernel"])
@pytest.mark.parametrize(
    ("capability", "how"), [("80", ["bf16", "64", "128"]), ("90", ["fp32", "32", "64"])]
)
def test_the_kernels_compile_for_a_gpu_that_is_not_here(kernel, capability, how):
    environment = {name: value for name, value in os.environ.items() if "TRITON" not in name}
    run = subprocess.run(
        [sys.executable, "-c", COMPILE, kernel, capability, *how],
        env=environment | {"TRITON_DEFAULT_FP_FUSION": "1"},
        capture_output=True,
        check=True,
        text=True,
        cwd=ROOT,
    )
    machine_code, shared_memory = map(int, run.stdout.split())
    assert machine_code > 0
    assert shared_memory <= 99 * 1024  # what a small GPU gives one program
