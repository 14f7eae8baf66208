"""Tokens to ids and back."""

import random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attn_notes.data import END, PAD, START, UNKNOWN, Vocabulary

TOKENS = st.lists(st.text(min_size=1, max_size=4), unique=True, max_size=20)


@given(tokens=TOKENS, data=st.data())
def test_known_tokens_come_back(tokens, data):
    vocabulary = Vocabulary(tokens)
    sequence = data.draw(st.lists(st.sampled_from(tokens))) if tokens else []
    ids = vocabulary.encode(sequence)
    assert vocabulary.decode(ids) == sequence
    assert all(4 <= number < len(vocabulary) for number in ids)
    assert len(vocabulary) == 4 + len(tokens)


@given(sequences=st.lists(st.lists(st.sampled_from("abcdefg"))), seed=st.integers(0, 9))
def test_a_vocabulary_is_built_by_frequency_and_then_by_the_alphabet(sequences, seed):
    vocabulary = Vocabulary.build(sequences)
    everything = [token for sequence in sequences for token in sequence]
    keys = [(-everything.count(token), token) for token in vocabulary.tokens]
    assert keys == sorted(keys)
    assert set(vocabulary.tokens) == set(everything)
    random.Random(seed).shuffle(sequences)
    assert Vocabulary.build(sequences).tokens == vocabulary.tokens


@pytest.mark.parametrize(("min_count", "tokens"), [(1, "bac"), (2, "ba"), (3, "b"), (4, "")])
def test_rare_tokens_can_be_left_out(min_count, tokens):
    sequences = [tuple("cab"), tuple("ab"), ["b"]]
    assert Vocabulary.build(sequences, min_count=min_count).tokens == tuple(tokens)


@pytest.mark.parametrize(
    ("ids", "tokens"),
    [
        ([START, 4, 5, END, PAD, PAD], ["a", "b"]),
        ([4, END, 5], ["a"]),
        ([4, PAD, START, 5], ["a", "b"]),
        ((number for number in (5, 4)), ["b", "a"]),
        (np.array([5, 4]), ["b", "a"]),
        (torch.tensor([START, 5, UNKNOWN, END]), ["b", "<unk>"]),
    ],
)
def test_decoding_stops_at_the_end_and_omits_padding_and_start(ids, tokens):
    assert Vocabulary(["a", "b"]).decode(ids) == tokens
