"""What `triton_attention` says where its kernels cannot run; with triton installed or without."""

from types import SimpleNamespace

import pytest
import torch

from attn_notes import show_source
from attn_notes import triton_attention as module
from attn_notes.triton_attention import triton_attention
from tests.oracles import B, H, L, S

Q, K = torch.zeros(B, H, L, 16), torch.zeros(B, H, S, 16)
WIDE = [torch.zeros(B, H, L, 257)] * 3
DOUBLES = Q.double(), K.double(), K.double()
ANYWHERE = SimpleNamespace(JITFunction=())  # as if the interpreter ran


WRONG = [
    (lambda: triton_attention(Q[0], K[0], K[0]), ValueError, r"query \(3, 5, 16\), key"),
    (lambda: triton_attention(Q, K, K[..., :8]), ValueError, r"value \(2, 3, 7, 8\)"),
    (lambda: triton_attention(Q, K[:, :1], K), ValueError, r"key \(2, 1, 7, 16\)"),
    (lambda: triton_attention(*WIDE), ValueError, r"at most 256, got \(2, 3, 5, 257"),
    (lambda: triton_attention(*DOUBLES), TypeError, "got torch.float64"),
    (lambda: triton_attention(Q, K, K, lengths=[1]), ValueError, r"\(2,\), got \(1, 1\)"),
    (lambda: triton_attention(Q, K, K, lengths=[[1] * L] * B), ValueError, r"got \(2, 5\)"),
]


@pytest.mark.parametrize(("call", "error", "words"), WRONG)
def test_a_wrong_input_is_named(call, error, words, monkeypatch):
    monkeypatch.setattr(module, "triton", ANYWHERE)
    monkeypatch.setattr(module, "tl", ANYWHERE)
    with pytest.raises(error, match=words):
        call()


def test_a_missing_triton_and_a_tensor_that_is_not_on_a_gpu_are_named(monkeypatch):
    monkeypatch.setattr(module, "tl", None)
    with pytest.raises(ModuleNotFoundError, match="needs the package triton"):
        triton_attention(Q, K, K)
    monkeypatch.setattr(module, "tl", ANYWHERE)
    monkeypatch.setattr(module, "triton", SimpleNamespace(JITFunction=object))
    with pytest.raises(RuntimeError, match=r"TRITON_INTERPRET=1 .* got a query on cpu"):
        triton_attention(Q, K, K)


@pytest.mark.parametrize("kernel", [module.forward_kernel, module.backward_kernel])
def test_a_kernel_can_be_shown_with_and_without_triton(kernel):
    assert repr(show_source(kernel)).startswith("@triton.jit\ndef ")
