"""Greedy and beam search, held against a search through everything."""

import itertools
import math
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from attn_notes.data import END, PAD, START, UNKNOWN, SpecialTokens, Vocabulary
from attn_notes.decoding import beam_search, greedy, translate
from attn_notes.decoding.generate import next_log_probs
from tests.oracles import rng
from tests.test_seq2seq import LENGTHS, SOURCE, build

V = 6  # the four special ids and two words


@dataclass
class Past:
    """All that was said, which is all that `Table` asks for."""

    said: Tensor  # (B, t)
    own: Tensor  # (B,): which sequence of the batch this row belongs to

    def select(self, index):
        return Past(self.said[index], self.own[index])


class Table(nn.Module):
    """Any distribution over sequences: logits drawn anew for every history and every source."""

    def __init__(self, seed=0, spread=3.0):
        super().__init__()
        self.seed, self.spread = seed, spread
        self.device_of = nn.Parameter(torch.zeros(1))
        self.modes = []

    def start(self, source, lengths):
        return Past(source[:, :0], source[:, 0])

    def logits(self, own, said):
        key = hash((self.seed, own, said)) % 2**31
        return self.spread * torch.randn(V, generator=rng(key))

    def step(self, tokens, state):
        self.modes.append(self.training)
        said = torch.cat((state.said, tokens[:, None]), dim=1)
        rows = [
            self.logits(own, tuple(row))
            for own, row in zip(state.own.tolist(), said.tolist(), strict=True)
        ]
        return torch.stack(rows), Past(said, state.own)

    def log_prob(self, own, tokens):
        """By the chain rule, with START and PAD ruled out."""
        total, said = 0.0, (START,)
        for token in tokens:
            logits = self.logits(own, said)
            logits[[PAD, START]] = -math.inf
            total += float(logits.log_softmax(-1)[token])
            said = (*said, token)
        return total


def everything(longest):
    """Every sequence that ends with END, or is cut off at the longest length."""
    for length in range(1, longest + 1):
        for words in itertools.product((UNKNOWN, 4, 5), repeat=length - 1):
            yield (*words, END)
    yield from itertools.product((UNKNOWN, 4, 5), repeat=longest)


def ended(tokens):
    """A row up to its END."""
    tokens = tokens.tolist()
    return tuple(tokens[: tokens.index(END) + 1] if END in tokens else tokens)


SOURCES = torch.tensor([[4, 5], [5, 4], [3, 3]]), torch.tensor([2, 2, 2])


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 999), longest=st.integers(1, 4), alpha=st.sampled_from([0.0, 0.6, 1.0]))
def test_a_beam_that_drops_nothing_finds_the_best_of_all_sequences(seed, longest, alpha):
    model = Table(seed)
    wide = beam_search(
        model, *SOURCES, max_length=longest, beam_size=3**longest * 2, length_penalty=alpha
    )
    for n, own in enumerate(SOURCES[0][:, 0].tolist()):
        best = max(
            everything(longest),
            key=lambda t: model.log_prob(own, t) / ((5 + len(t)) / 6) ** alpha,
        )
        assert ended(wide.tokens[n]) == best
        assert float(wide.log_probs[n]) == pytest.approx(model.log_prob(own, best), abs=1e-4)


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 999), longest=st.integers(1, 9), alpha=st.floats(0, 2))
def test_a_beam_of_one_is_greedy(seed, longest, alpha):
    one = beam_search(Table(seed), *SOURCES, max_length=longest, beam_size=1, length_penalty=alpha)
    by_step = greedy(Table(seed), *SOURCES, max_length=longest)
    assert torch.equal(one.tokens, by_step.tokens)
    torch.testing.assert_close(one.log_probs, by_step.log_probs)


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 999), longest=st.integers(1, 9), size=st.integers(1, 5))
def test_what_is_found_is_well_formed(seed, longest, size):
    model = Table(seed)
    found = beam_search(model, *SOURCES, max_length=longest, beam_size=size)
    assert 1 <= found.tokens.shape[1] <= longest
    for n, row in enumerate(found.tokens):
        sequence = ended(row)
        assert not {PAD, START} & set(sequence)
        assert (row[len(sequence) :] == PAD).all()
        own = int(SOURCES[0][n, 0])
        assert float(found.log_probs[n]) == pytest.approx(model.log_prob(own, sequence), abs=1e-4)
        # The state followed the hypothesis through every reordering. (What was said last is not
        # in it: nobody asked for the token after it.)
        assert found.state.own[n] == own
        assert (START, *sequence)[: len(sequence)] == tuple(
            found.state.said[n, : len(sequence)].tolist()
        )


def test_the_larger_the_penalty_the_longer_the_sequences():
    def total_length(alpha):
        found = (
            beam_search(Table(n), *SOURCES, max_length=4, beam_size=54, length_penalty=alpha)
            for n in range(4)
        )
        return sum(int((one.tokens != PAD).sum()) for one in found)

    short, middle, long = map(total_length, (0.0, 1.0, 4.0))
    assert short < middle < long


@pytest.mark.parametrize("size", [1, 3])
def test_each_sequence_is_searched_as_if_it_were_alone(size):
    together = beam_search(Table(5), *SOURCES, max_length=6, beam_size=size)
    for n in range(3):
        one = SOURCES[0][n : n + 1], SOURCES[1][n : n + 1]
        alone = beam_search(Table(5), *one, max_length=6, beam_size=size)
        assert ended(alone.tokens[0]) == ended(together.tokens[n])


@pytest.mark.parametrize("search", [greedy, beam_search])
def test_a_search_through_no_sources_finds_none(search):
    none = torch.zeros(0, 2, dtype=torch.long), torch.zeros(0, dtype=torch.long)
    model = Table()
    model.step = lambda tokens, state: (torch.zeros(0, V), state)
    assert search(model, *none, max_length=3).tokens.shape[0] == 0


@pytest.mark.parametrize("search", [greedy, beam_search])
def test_the_search_runs_in_evaluation_and_leaves_the_mode_as_it_was(search):
    for training in (True, False):
        model = Table().train(training)
        search(model, *SOURCES, max_length=3)
        assert model.training is training
        assert not any(model.modes)


def test_the_mode_comes_back_when_the_model_fails():
    model = Table().train()
    model.step = lambda tokens, state: 1 / 0
    with pytest.raises(ZeroDivisionError):
        greedy(model, *SOURCES, max_length=3)
    assert model.training


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_the_logits_of_a_model_stay_as_they_are(dtype):
    logits = torch.zeros(2, V, dtype=dtype)
    assert bool(next_log_probs(logits, SpecialTokens())[:, [PAD, START]].isneginf().all())
    assert not logits.any()


def test_every_part_reads_in_evaluation_and_has_its_own_mode_back():
    for whole, part in ((True, False), (False, True)):  # a part may be frozen, and the rest not
        model = Table().train(whole)
        model.inner = Table().train(part)
        model.start = lambda source, lengths, inner=model.inner: inner.start(source, lengths)
        model.step = model.inner.step
        greedy(model, *SOURCES, max_length=3)
        assert model.inner.modes
        assert not any(model.inner.modes)
        assert (model.training, model.inner.training) == (whole, part)


@pytest.mark.parametrize("kind", ["fixed", "additive", "dot"])
def test_the_weights_of_a_search_are_those_of_saying_its_tokens(kind):
    model = build(kind, seed=2)
    for found in (
        greedy(model, SOURCE, LENGTHS, max_length=6),
        beam_search(model, SOURCE, LENGTHS, max_length=6, beam_size=4),
    ):
        inputs = torch.cat((torch.full((3, 1), START), found.tokens[:, :-1]), dim=1)
        logits, weights = model(SOURCE, LENGTHS, inputs)
        for n, row in enumerate(found.tokens):
            said = len(ended(row))
            torch.testing.assert_close(found.state.weights[n, :said], weights[n, :said])
        logits[..., [PAD, START]] = -math.inf
        each = logits.log_softmax(-1).gather(-1, found.tokens[..., None])[..., 0]
        each = each.masked_fill(found.tokens == PAD, 0.0)
        torch.testing.assert_close(found.log_probs.double(), each.sum(1), rtol=0, atol=1e-5)


# Many sentences

ABC = Vocabulary(["a", "b", "c", "d", "e", "f", "g"])
SENTENCES = [("a", "b"), ("c",), ("d", "e", "f", "g", "a"), ("b", "a"), ("g",)]


@pytest.mark.parametrize("beam_size", [1, 3])
@pytest.mark.parametrize("batch_size", [1, 2, 9])
def test_translations_come_back_in_the_order_of_their_sentences(beam_size, batch_size):
    model = build("additive", seed=1)
    options = {"max_length": 5, "beam_size": beam_size}
    found = translate(model, SENTENCES, ABC, ABC, batch_size=batch_size, **options)
    alone = [translate(model, [s], ABC, ABC, **options)[0] for s in SENTENCES]
    assert found == alone
    assert len(set(found)) > 1


WRONG = [
    (lambda m: greedy(m, *SOURCES, max_length=0), "max_length must be at least 1, got 0"),
    (lambda m: beam_search(m, *SOURCES, max_length=-1), "max_length must be at least 1, got -1"),
    (
        lambda m: beam_search(m, *SOURCES, max_length=3, beam_size=0),
        "beam_size must be at least 1, got 0",
    ),
    (
        lambda m: beam_search(m, *SOURCES, max_length=3, length_penalty=-0.5),
        "length_penalty must be a finite number, 0 or more, got -0.5",
    ),
    (
        lambda m: translate(m, SENTENCES, ABC, ABC, max_length=3, batch_size=0),
        "batch_size must be at least 1, got 0",
    ),
]


@pytest.mark.parametrize(("call", "words"), WRONG)
def test_wrong_numbers_are_refused_in_words(call, words):
    with pytest.raises(ValueError, match=words):
        call(Table())
