"""The decoding protocol, and greedy and beam search against a search of all sequences."""

import itertools
import math
from functools import partial
from typing import NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from attn_notes.data import END, PAD, START, UNKNOWN, Vocabulary
from attn_notes.decoding import beam_search, greedy, sample, translate
from tests.oracles import rng
from tests.small_models import decoder_only, ids, transformer
from tests.test_seq2seq import LENGTHS, SOURCE, build

V = 6  # the four special ids and two words


class Past(NamedTuple):
    """The state of a `Table`: all tokens so far."""

    tokens: Tensor  # (B, t), START first
    own: Tensor  # (B,), the first token of each row's source

    def select(self, index):
        return Past(self.tokens[index], self.own[index])


class Table(nn.Module):
    """An arbitrary distribution over sequences: logits drawn for each history and each source."""

    def __init__(self, seed=0, spread=3.0):
        super().__init__()
        self.seed, self.spread = seed, spread
        self.device_of = nn.Parameter(torch.zeros(1))
        self.modes = []

    def start(self, source, lengths=None):
        past = Past(source[:, :0], source[:, 0])
        return self.step(torch.full((len(source),), START), past)

    def logits(self, own, history):
        key = hash((self.seed, own, history)) % 2**31
        return self.spread * torch.randn(V, generator=rng(key))

    def step(self, tokens, state):
        self.modes.append(self.training)
        history = torch.cat((state.tokens, tokens[:, None]), dim=1)
        logits = torch.zeros(len(tokens), V)
        for n, row in enumerate(history.tolist()):
            logits[n] = self.logits(int(state.own[n]), tuple(row))
        return logits, Past(history, state.own)

    def log_prob(self, own, tokens):
        """By the chain rule, with START and PAD ruled out."""
        total, history = 0.0, (START,)
        for token in tokens:
            logits = self.logits(own, history)
            logits[[PAD, START]] = -math.inf
            total += float(logits.log_softmax(-1)[token])
            history = (*history, token)
        return total


def everything(longest):
    """Every sequence that ends with END or reaches the maximum length."""
    for length in range(1, longest + 1):
        for words in itertools.product((UNKNOWN, 4, 5), repeat=length - 1):
            yield (*words, END)
    yield from itertools.product((UNKNOWN, 4, 5), repeat=longest)


def ended(tokens):
    """A row up to its END."""
    tokens = tokens.tolist()
    return tuple(tokens[: tokens.index(END) + 1] if END in tokens else tokens)


def assert_well_formed(found, model, longest):
    """Each row is a text, END and padding, rated by the model, and the state followed it."""
    assert 1 <= found.tokens.shape[1] <= longest
    for n, row in enumerate(found.tokens):
        sequence, own = ended(row), int(SOURCES[0][n, 0])
        assert not {PAD, START} & set(sequence)
        assert (row[len(sequence) :] == PAD).all()
        assert float(found.log_probs[n]) == pytest.approx(model.log_prob(own, sequence), abs=1e-4)
        assert found.state.own[n] == own
        before_last = (START, *sequence)[: len(sequence)]
        assert tuple(found.state.tokens[n, : len(sequence)].tolist()) == before_last


SOURCES = torch.tensor([[4, 5], [5, 4], [3, 3]]), torch.tensor([2, 2, 2])

# The protocol


@pytest.mark.parametrize("make", [build, transformer, decoder_only])
def test_without_lengths_all_of_a_source_is_read(make):
    model, source = make().eval(), ids(2, 5, below=11)
    whole = model.start(source, torch.tensor([5, 5]))[0]
    torch.testing.assert_close(model.start(source)[0], whole)


@pytest.mark.parametrize("make", [build, transformer, decoder_only])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32])
def test_ids_of_any_integer_dtype_are_read(make, dtype):
    model, source = make().eval(), ids(2, 5, below=11)
    found, expected = (greedy(model, x, max_length=4) for x in (source.to(dtype), source))
    assert found.tokens.equal(expected.tokens)
    torch.testing.assert_close(found.log_probs, expected.log_probs)


# Searches


SEEDS = st.integers(0, 999)


@settings(max_examples=20)
@given(seed=SEEDS, longest=st.integers(1, 4), alpha=st.sampled_from([0.0, 1.0, 4.0, 1e9]))
def test_a_beam_that_drops_nothing_finds_the_best_sequence(seed, longest, alpha):
    model = Table(seed)
    how = {"beam_size": 3**longest * 2, "length_penalty": alpha}
    wide = beam_search(model, *SOURCES, max_length=longest, **how)

    def rank(own, tokens):  # by log(-score), as no power of a Python float holds the largest
        return alpha * math.log((5 + len(tokens)) / 6) - math.log(-model.log_prob(own, tokens))

    for n, own in enumerate(SOURCES[0][:, 0].tolist()):
        best = max(everything(longest), key=partial(rank, own))
        assert ended(wide.tokens[n]) == best
        assert float(wide.log_probs[n]) == pytest.approx(model.log_prob(own, best), abs=1e-4)


@settings(max_examples=30)
@given(seed=SEEDS, longest=st.integers(1, 9), alpha=st.floats(0, 2))
def test_a_beam_of_one_is_greedy(seed, longest, alpha):
    one = beam_search(Table(seed), *SOURCES, max_length=longest, beam_size=1, length_penalty=alpha)
    by_step = greedy(Table(seed), *SOURCES, max_length=longest)
    assert torch.equal(one.tokens, by_step.tokens)
    torch.testing.assert_close(one.log_probs, by_step.log_probs)


@settings(max_examples=30)
@given(seed=SEEDS, longest=st.integers(1, 9), size=st.integers(1, 5))
def test_sequences_are_well_formed_and_the_state_follows_them(seed, longest, size):
    model = Table(seed)
    found = beam_search(model, *SOURCES, max_length=longest, beam_size=size)
    assert_well_formed(found, model, longest)


@pytest.mark.parametrize("alpha", [40.0, 1e30, 1.7e308])
def test_a_text_of_any_length_is_well_formed_whatever_the_penalty(alpha):
    model = Table()
    found = beam_search(model, *SOURCES, max_length=60, length_penalty=alpha)
    assert found.log_probs.isfinite().all()
    assert_well_formed(found, model, 60)


@pytest.mark.parametrize("search", [greedy, beam_search, sample])
@pytest.mark.parametrize(("whole", "part"), [(True, False), (False, True)])
def test_a_search_evaluates_every_part_and_restores_its_mode_even_after_a_failure(
    search, whole, part
):
    model = Table().train(whole)
    model.inner = Table().train(part)
    model.start, model.step = model.inner.start, model.inner.step
    search(model, *SOURCES, max_length=3)
    assert model.inner.modes
    assert not any(model.inner.modes)
    assert (model.training, model.inner.training) == (whole, part)
    model.step = lambda tokens, state: 1 / 0
    with pytest.raises(ZeroDivisionError):
        search(model, *SOURCES, max_length=3)
    assert (model.training, model.inner.training) == (whole, part)


@pytest.mark.parametrize("kind", ["fixed", "additive", "dot"])
@pytest.mark.parametrize("search", [greedy, beam_search])
def test_weights_of_a_search_are_those_of_teacher_forcing(kind, search):
    model = build(kind, seed=2)
    found = search(model, SOURCE, LENGTHS, max_length=6)
    inputs = torch.cat((torch.full((3, 1), START), found.tokens[:, :-1]), dim=1)
    _, weights = model(SOURCE, LENGTHS, inputs)
    for n, row in enumerate(found.tokens):
        T = len(ended(row))
        torch.testing.assert_close(found.state.weights[n, :T], weights[n, :T])


# Many sentences

ABC = Vocabulary(["a", "b", "c", "d", "e", "f", "g"])
SENTENCES = [("a", "b"), ("c",), ("d", "e", "f", "g", "a"), ("b", "a"), ("g",)]


@pytest.mark.parametrize("beam_size", [1, 3])
@pytest.mark.parametrize("batch_size", [1, 2, 9])
def test_translations_keep_the_order_of_the_sentences(beam_size, batch_size):
    model = build("additive", seed=1)
    options = {"max_length": 5, "beam_size": beam_size}
    found = translate(model, SENTENCES, ABC, ABC, batch_size=batch_size, **options)
    alone = [translate(model, [s], ABC, ABC, **options)[0] for s in SENTENCES]
    assert found == alone
    assert len(set(found)) > 1
