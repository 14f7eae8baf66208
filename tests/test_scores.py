"""Every score against its formula, written out for one query and one key at a time."""

import math

import pytest
import torch
from torch import nn

from attn_notes.kernels import gaussian_kernel, nadaraya_watson
from attn_notes.scores import (
    AdditiveScore,
    BilinearScore,
    ConcatScore,
    DotProductScore,
    GaussianScore,
    ScaledDotProductScore,
)
from tests.oracles import B, D, H, L, S, assert_same, normal, over_leading_axes, rng

QUERY, KEY, HIDDEN = 11, 17, 19

# A score, the widths of its query and key, and its formula for one pair.
FORMULAS = {
    "gaussian": (GaussianScore, (D, D), lambda m, q, k: -0.5 * ((q - k) ** 2).sum()),
    "dot": (DotProductScore, (D, D), lambda m, q, k: (q * k).sum()),
    "scaled dot": (ScaledDotProductScore, (D, D), lambda m, q, k: (q * k).sum() / math.sqrt(D)),
    "bilinear": (
        lambda: BilinearScore(QUERY, KEY),
        (QUERY, KEY),
        lambda m, q, k: (torch.outer(q, k) * m.weight.weight).sum(),
    ),
    "additive": (
        lambda: AdditiveScore(QUERY, KEY, HIDDEN),
        (QUERY, KEY),
        lambda m, q, k: (
            m.v_proj.weight[0]
            * ((m.q_proj.weight * q).sum(1) + (m.k_proj.weight * k).sum(1)).tanh()
        ).sum(),
    ),
    "concat": (
        lambda: ConcatScore(QUERY, KEY, HIDDEN),
        (QUERY, KEY),
        lambda m, q, k: (
            m.v_proj.weight[0] * (m.proj.weight * torch.cat((q, k))).sum(1).tanh()
        ).sum(),
    ),
}
EVERY_SCORE = pytest.mark.parametrize("name", FORMULAS)


def build(name: str) -> tuple[nn.Module, tuple[int, int]]:
    """A score in float64 with known weights, and the widths of its query and key."""
    make, widths, _ = FORMULAS[name]
    score = make().double()
    for seed, parameter in enumerate(score.parameters()):
        parameter.data = torch.randn(parameter.shape, generator=rng(seed), dtype=torch.float64)
    return score, widths


@EVERY_SCORE
def test_a_score_equals_its_formula_pair_by_pair(name):
    score, (query_dim, key_dim) = build(name)
    formula = FORMULAS[name][2]
    parameters = tuple(score.parameters())

    def pairs(query, key, *_):
        return torch.stack([torch.stack([formula(score, q, k) for k in key]) for q in query])

    assert_same(
        lambda query, key, *_: score(query, key),
        pairs,
        normal(L, query_dim, seed=1),
        normal(S, key_dim, seed=2),
        *parameters,
    )


@EVERY_SCORE
def test_each_sequence_and_each_head_is_scored_by_itself(name):
    score, (query_dim, key_dim) = build(name)
    query, key = normal(B, H, L, query_dim, seed=1), normal(B, H, S, key_dim, seed=2)
    assert_same(score, lambda q, k: over_leading_axes(score, q, k), query, key)


# What ties the scores to one another


def test_concat_is_additive_with_its_matrix_split():
    concat = ConcatScore(QUERY, KEY, HIDDEN).double()
    additive = AdditiveScore(QUERY, KEY, HIDDEN).double()
    with torch.no_grad():
        additive.q_proj.weight.copy_(concat.proj.weight[:, :QUERY])
        additive.k_proj.weight.copy_(concat.proj.weight[:, QUERY:])
        additive.v_proj.weight.copy_(concat.v_proj.weight)
    assert_same(concat, additive, normal(B, L, QUERY, seed=1), normal(B, S, KEY, seed=2))


def test_bilinear_with_the_identity_is_the_dot_product():
    bilinear = BilinearScore(D, D).double()
    bilinear.weight.weight.data = torch.eye(D, dtype=torch.float64)
    assert_same(bilinear, DotProductScore(), normal(B, L, D, seed=1), normal(B, S, D, seed=2))


def test_gaussian_is_the_dot_product_less_half_of_both_squared_lengths():
    def bridge(q, k):
        lengths = q.square().sum(-1)[..., :, None] + k.square().sum(-1)[..., None, :]
        return DotProductScore()(q, k) - lengths / 2

    assert_same(GaussianScore(), bridge, normal(B, L, D, seed=1), normal(B, S, D, seed=2))


def test_the_softmax_of_the_gaussian_score_is_the_gaussian_kernel():
    queries, keys = normal(B, L, seed=1), normal(B, S, seed=2)
    _, weights = nadaraya_watson(queries, keys, keys, kernel=gaussian_kernel)
    scores = GaussianScore()(queries[..., None], keys[..., None])
    torch.testing.assert_close(scores.softmax(-1), weights)


# What a score promises of its range


def test_the_gaussian_score_does_not_cancel_far_from_the_origin():
    grid = torch.randint(-8, 9, (L + S, D), generator=rng()) / 8
    query, key = grid[:L], grid[L:]
    far = 2.0**16  # float32 still holds far + 1/8 exactly
    assert GaussianScore()(query + far, key + far).equal(GaussianScore()(query, key))


def test_the_additive_score_stays_within_the_sum_of_its_last_weights():
    score = AdditiveScore(QUERY, KEY, HIDDEN).double()
    query, key = 1e3 * normal(L, QUERY, seed=1), 1e3 * normal(S, KEY, seed=2)
    assert (score(query, key).abs() <= score.v_proj.weight.abs().sum() + 1e-12).all()


@pytest.mark.parametrize("size", [4, 16, 64, 256])
def test_scaling_by_the_root_of_the_width_gives_scores_of_variance_one(size):
    query = torch.randn(256, size, generator=rng(1), dtype=torch.float64)
    key = torch.randn(256, size, generator=rng(2), dtype=torch.float64)
    dot, scaled = DotProductScore()(query, key), ScaledDotProductScore()(query, key)
    assert dot.var() == pytest.approx(size, rel=0.1)
    assert scaled.var() == pytest.approx(1.0, rel=0.1)
