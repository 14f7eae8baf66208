"""Every score against its formula, written out for one query and one key at a time."""

import math

import pytest
import torch

from attn_notes.kernels import gaussian_kernel, nadaraya_watson
from attn_notes.scores import GaussianScore
from tests.oracles import SCORES, B, D, H, L, S, assert_same, filled, normal, rng

QUERY, KEY = 11, 17


def bilinear(m, q, k):
    return (torch.outer(q, k) * m.weight.weight).sum()


def additive(m, q, k):
    hidden = (m.q_proj.weight * q).sum(1) + (m.k_proj.weight * k).sum(1)
    return (m.v_proj.weight[0] * hidden.tanh()).sum()


def concat(m, q, k):
    return (m.v_proj.weight[0] * (m.proj.weight * torch.cat((q, k))).sum(1).tanh()).sum()


# The width of a score's keys, its queries being of width QUERY, and its formula for one pair.
FORMULAS = {
    "gaussian": (QUERY, lambda m, q, k: -0.5 * ((q - k) ** 2).sum()),
    "dot": (QUERY, lambda m, q, k: (q * k).sum()),
    "scaled": (QUERY, lambda m, q, k: (q * k).sum() / math.sqrt(QUERY)),
    "bilinear": (KEY, bilinear),
    "additive": (KEY, additive),
    "concat": (KEY, concat),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_a_score_equals_its_formula_pair_by_pair(name):
    key_dim, formula = FORMULAS[name]
    score = filled(SCORES[name](QUERY, key_dim))

    def of_pairs(query, key, *_):
        return torch.stack([torch.stack([formula(score, q, k) for k in key]) for q in query])

    one = normal(L, QUERY, seed=1), normal(S, key_dim, seed=2)
    assert_same(lambda query, key, *_: score(query, key), of_pairs, *one, *score.parameters())


@pytest.mark.parametrize("name", FORMULAS)
def test_each_sequence_and_each_head_is_scored_by_itself(name):
    key_dim, _ = FORMULAS[name]
    score = filled(SCORES[name](QUERY, key_dim))

    def one_by_one(query, key):
        heads = zip(query.flatten(0, 1), key.flatten(0, 1), strict=True)
        return torch.stack([score(q, k) for q, k in heads]).view(B, H, L, S)

    assert_same(score, one_by_one, normal(B, H, L, QUERY, seed=1), normal(B, H, S, key_dim, seed=2))


def test_the_softmax_of_the_gaussian_score_is_the_gaussian_kernel():
    queries, keys = normal(B, L, seed=1), normal(B, S, seed=2)
    _, weights = nadaraya_watson(queries, keys, keys, kernel=gaussian_kernel)
    found = GaussianScore()(queries[..., None], keys[..., None])
    torch.testing.assert_close(found.softmax(-1), weights)


def test_the_gaussian_score_does_not_cancel_far_from_the_origin():
    query, key = (torch.randint(-8, 9, (n, D), generator=rng()) / 8 for n in (L, S))
    far = 2.0**16  # float32 still holds far + 1/8 exactly
    assert GaussianScore()(query + far, key + far).equal(GaussianScore()(query, key))
