"""Everything whose result does not hang on values runs on the meta device, so on any device.

A tensor made on the CPU inside a function would meet a meta tensor there and raise: these tests
find on a machine without a GPU what would break on one with it. Every public name of the modules
below has a call here, or stands among the exceptions with its reason.
"""

import importlib

import pytest
import torch
from torch import Tensor

from attn_notes import kernels as K
from attn_notes import masks as M
from attn_notes import scores as C
from attn_notes.attention import (
    Attention,
    attention_weights,
    check_query_key,
    check_value,
    scaled_dot_product_attention,
)
from tests.oracles import DV, B, D, H, L, S

MODULES = ("kernels", "scores", "masks", "attention")


def meta(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.zeros(shape, dtype=dtype, device="meta", requires_grad=dtype.is_floating_point)


def allowed(*shape: int) -> Tensor:
    return meta(*shape, dtype=torch.bool)


def integers(*shape: int) -> Tensor:
    return meta(*shape, dtype=torch.int64)


Q, KEY, VALUE = meta(B, H, L, D), meta(B, H, S, D), meta(B, H, S, DV)
KEYWORDS = {"attn_mask": allowed(L, S), "attn_bias": meta(L, S), "is_causal": True}
POINTS = meta(B, L), meta(B, S), meta(B, S)
SELF = meta(B, S), meta(B, S), meta(B, S)
WEIGHTS = (B, H, L, S)


def of_kernel(kernel):
    return [lambda: (kernel(meta(B, L)), (B, L))]


def of_score(score, key_dim=D):
    return [
        lambda: (score.to("meta")(Q, meta(B, H, S, key_dim)), WEIGHTS),
        lambda: (Attention(score, 0.5).to("meta")(Q, meta(B, H, S, key_dim), VALUE)[1], WEIGHTS),
    ]


# For each public name its calls: what it gives, and the shape that must have.
CALLS = {
    "kernels": {
        "gaussian_kernel": of_kernel(K.gaussian_kernel),
        "boxcar_kernel": of_kernel(K.boxcar_kernel),
        "triangular_kernel": of_kernel(K.triangular_kernel),
        "epanechnikov_kernel": of_kernel(K.epanechnikov_kernel),
        "nadaraya_watson": [
            lambda: (K.nadaraya_watson(*POINTS)[0], (B, L)),
            lambda: (K.nadaraya_watson(*POINTS, bandwidth=meta())[1], (B, L, S)),
            lambda: (K.nadaraya_watson(*SELF, exclude_self=True)[0], (B, S)),
            lambda: (
                K.nadaraya_watson(*SELF, kernel=K.boxcar_kernel, exclude_self=True)[1],
                (B, S, S),
            ),
        ],
        "KernelRegression": [
            lambda: (K.KernelRegression().to("meta")(*POINTS)[0], (B, L)),
            lambda: (K.KernelRegression().to("meta")(*SELF, exclude_self=True)[1], (B, S, S)),
            lambda: (K.KernelRegression().to("meta").bandwidth, ()),
        ],
    },
    "scores": {
        "GaussianScore": of_score(C.GaussianScore()),
        "DotProductScore": of_score(C.DotProductScore()),
        "ScaledDotProductScore": of_score(C.ScaledDotProductScore()),
        "BilinearScore": of_score(C.BilinearScore(D, 17), 17),
        "AdditiveScore": of_score(C.AdditiveScore(D, 17, 19), 17),
        "ConcatScore": of_score(C.ConcatScore(D, 17, 19), 17),
    },
    "masks": {
        "padding_mask": [
            lambda: (M.padding_mask(integers(B), S), (B, 1, S)),
            lambda: (M.padding_mask(integers(B, L), S), (B, L, S)),
        ],
        "pair_mask": [lambda: (M.pair_mask(integers(B), integers(B), L, S), (B, L, S))],
        "block_mask": [lambda: (M.block_mask(integers(B, L), integers(B, S)), (B, L, S))],
        "causal_mask": [lambda: (M.causal_mask(L, S, offset=2, device="meta"), (L, S))],
        "sliding_window_mask": [
            lambda: (M.sliding_window_mask(L, S, window=2, device="meta"), (L, S))
        ],
        "prefix_mask": [lambda: (M.prefix_mask(L, S, prefix=2, device="meta"), (L, S))],
        "masked_softmax": [
            lambda: (M.masked_softmax(meta(*WEIGHTS)), WEIGHTS),
            lambda: (M.masked_softmax(meta(*WEIGHTS), allowed(L, S)), WEIGHTS),
            lambda: (M.masked_softmax(meta(*WEIGHTS), allowed(L, 1), dim=-2), WEIGHTS),
        ],
        "check_mask": [lambda: (M.check_mask(allowed(L, S), torch.Size(WEIGHTS)), None)],
        "check_broadcast": [
            lambda: (M.check_broadcast("it", allowed(L, S), torch.Size(WEIGHTS)), None)
        ],
    },
    "attention": {
        "attention_weights": [
            lambda: (attention_weights(Q, KEY), WEIGHTS),
            lambda: (attention_weights(Q, KEY, **KEYWORDS), WEIGHTS),
        ],
        "scaled_dot_product_attention": [
            lambda: (scaled_dot_product_attention(Q, KEY, VALUE), (B, H, L, DV)),
            lambda: (scaled_dot_product_attention(Q, KEY, VALUE, is_causal=True), (B, H, L, DV)),
            lambda: (scaled_dot_product_attention(Q, KEY, VALUE, **KEYWORDS), (B, H, L, DV)),
        ],
        "Attention": [
            lambda: (
                Attention(C.DotProductScore(), 0.5)(Q, KEY, VALUE, allowed(L, S))[0],
                (B, H, L, DV),
            )
        ],
        "check_query_key": [lambda: (check_query_key(Q, KEY), None)],
        "check_value": [lambda: (check_value(KEY, VALUE), None)],
    },
}

EXCEPTIONS = {
    "kernels.Kernel": "the type of a kernel: there is nothing to call",
}


def public_names() -> set[str]:
    found = set()
    for module in MODULES:
        names = importlib.import_module(f"attn_notes.{module}").__all__
        found |= {f"{module}.{name}" for name in names}
    return found


def test_every_public_name_has_a_call_or_a_reason():
    called = {f"{module}.{name}" for module, calls in CALLS.items() for name in calls}
    assert called | set(EXCEPTIONS) == public_names()
    assert not called & set(EXCEPTIONS)


CASES = [
    pytest.param(call, id=f"{module}.{name}[{n}]")
    for module, calls in CALLS.items()
    for name, several in calls.items()
    for n, call in enumerate(several)
]


@pytest.mark.parametrize("call", CASES)
def test_it_runs_on_a_device_that_holds_no_values(call):
    result, shape = call()
    assert (None if result is None else tuple(result.shape)) == shape
    assert result is None or result.is_meta


@pytest.mark.parametrize("call", CASES)
def test_its_gradient_runs_there_too(call):
    result, _ = call()
    if result is not None and result.requires_grad:
        result.sum().backward()
