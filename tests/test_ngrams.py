"""The baseline of a trained model, compared with its definition."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attn_notes.data import END, PAD, START, Vocabulary
from attn_notes.ngrams import NGramModel

VOCAB = Vocabulary(["a", "b", "c"])
V = len(VOCAB)
TEXTS = st.lists(st.text("abc", max_size=12), min_size=1, max_size=4).filter(any)
DISCOUNTS = st.floats(0.01, 0.99)


def ids_of(text: str) -> list[int]:
    return [START, *VOCAB.encode(list(text)), END]


def written_out(order: int, texts: list[str], context: list[int], x: int, d: float) -> float:
    """p(x | context) by the formula, each count found by walking through the texts."""
    runs = [
        tuple(ids[max(0, at - order + 1) : at + 1])
        for ids in map(ids_of, texts)
        for at in range(1, len(ids))
    ]

    def count(run: tuple[int, ...]) -> int:
        if len(run) == order or (run[0] == START and len(run) > 1):
            return runs.count(run)
        longer = {(*before, *run) for before in befores}
        return sum(count(one) > 0 for one in longer)

    befores = [(number,) for number in range(V)]

    def p(h: tuple[int, ...], x: int) -> float:
        lower = p(h[1:], x) if h else 1 / (V - 2)
        counts = [count((*h, y)) for y in range(V)]
        if not sum(counts):
            return lower
        kinds = sum(c > 0 for c in counts)
        return (max(counts[x] - d, 0) + d * kinds * lower) / sum(counts)

    return p(tuple(context[-(order - 1) :]) if order > 1 else (), x)


@given(texts=TEXTS, context=st.text("abc", max_size=4), order=st.integers(1, 3), d=DISCOUNTS)
def test_probabilities_follow_the_formula(texts, context, order, d):
    found = NGramModel(order, texts, VOCAB, discount=d).distribution(context)
    past = ids_of(context)[:-1]
    expected = [written_out(order, texts, past, x, d) for x in range(2, V)]
    assert found[2:].tolist() == pytest.approx(expected, abs=1e-12)


@given(texts=TEXTS, context=st.text("abcd", max_size=6), order=st.integers(1, 6), d=DISCOUNTS)
def test_probabilities_are_above_0_and_sum_to_1(texts, context, order, d):
    p = NGramModel(order, texts, VOCAB, discount=d).distribution(context)
    assert p.dtype == torch.float64
    assert p.shape == (V,)
    assert p[[PAD, START]].tolist() == [0, 0]
    assert bool((p[END:] > 0).all())
    assert float(p.sum()) == pytest.approx(1, abs=1e-12)


@given(texts=TEXTS, held_out=TEXTS, order=st.integers(1, 5))
def test_bits_follow_from_the_distribution_and_include_the_ends(texts, held_out, order):
    model = NGramModel(order, texts, VOCAB)
    bits = 0.0
    for text in held_out:
        for at, number in enumerate([*VOCAB.encode(list(text)), END]):
            bits -= math.log2(model.distribution(text[:at])[number])
    characters = sum(map(len, held_out))
    assert model.bits_per_character(held_out) == pytest.approx(bits / characters)
