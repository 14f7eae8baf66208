"""The checks pass what is right, and name the place and the size of what is wrong."""

import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attn_exercises.base import compare, exercise, of_function, prediction
from attn_notes import checks
from attn_notes.attention import attention_weights
from attn_notes.checks import CheckFailed, influence, share_seen
from attn_notes.masks import causal_mask, padding_mask
from tests.oracles import D, L, coin, normal, rng

LEAD = st.sampled_from([(), (2,), (1, 3)])
LENGTH = st.integers(1, 7)


def x_of(*shape: int, seed: int = 0) -> torch.Tensor:
    return normal(*shape, seed=seed).detach()


def fails(words: str):
    return pytest.raises(CheckFailed, match=words)


def self_attention(x, mask=None):
    return attention_weights(x, x, attn_mask=mask) @ x


# Properties of a layer


@given(LEAD, LENGTH, st.integers(1, 3), st.integers(0, 2**16))
def test_influence_finds_exactly_which_input_reaches_which_output(lead, length, width, seed):
    reads = coin(length, length, seed=seed)
    weights = reads * torch.rand(length, length, generator=rng(seed + 1)).add(0.1).double()
    x = x_of(*lead, length, width, seed=seed)
    before = x.clone()
    found = influence(lambda x: weights @ x, x)
    assert found.shape == (length, length)
    assert (found > 0).equal(reads)
    assert x.equal(before)


def test_a_layer_that_works_in_place_does_not_change_the_callers_input():
    def shifted(x):
        return x.copy_(x.roll(1, -2))  # output i is input i - 1

    x = x_of(4, D)
    before = x.clone()
    assert (influence(shifted, x) > 0).equal(torch.eye(4).roll(-1, 1).bool())
    assert x.equal(before)


def test_influence_is_the_largest_change_at_each_position():
    weights = torch.tensor([[1.0, 0.0], [3.0, -2.0]])
    found = influence(lambda x: weights @ x, torch.zeros(2, 1))
    noise = found[0, 0]  # the first weight is 1
    assert noise > 0
    torch.testing.assert_close(found, weights.abs() * noise)


@given(LEAD, st.integers(2, 7), st.data())
def test_a_single_leak_is_found_and_named(lead, length, data):
    row = data.draw(st.integers(0, length - 2))
    column = data.draw(st.integers(row + 1, length - 1))
    mask = causal_mask(length)
    mask[row, column] = True
    with fails(rf"output {row} changes by \d.* only the later input {column} does"):
        checks.check_causal(lambda x: self_attention(x, mask=mask), x_of(*lead, length, 3))


def test_attention_without_a_mask_is_caught():
    with fails(r"with other padding, the output of sequence \d changes by \d.* at position \d"):
        x, lengths = x_of(3, L, D), torch.tensor([1, 3, 5])
        checks.check_padding_invariant(lambda x, _: self_attention(x), x, lengths)


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("weights", "mask", "words"),
    [
        ([[0.5, NAN]], None, "numbers of 0 or more"),
        ([[1.5, -0.5]], None, "numbers of 0 or more"),
        ([[0.5, 0.4]], None, "row 0 must sum to 1 .* off by 0.1"),
        ([[INF, 0.0]], None, "row 0 must sum to 1 .* off by inf"),
        ([[1.0, 0.0], [0.5, 0.5]], [[True, True], [True, False]], "row 1 attends to key 1.* 0.5"),
        ([[0.0, 0.0]], None, "row 0 must sum to 1"),
        ([[0.5, 0.5]], [[False, False]], "row 0 attends to key 0"),
    ],
)
def test_weights_that_are_none_are_named(weights, mask, words):
    with fails(words):
        checks.check_weights(torch.tensor(weights), None if mask is None else torch.tensor(mask))


# Exercises


@pytest.mark.parametrize(
    ("error", "printed"),
    [
        (NotImplementedError(), "the answer is still to be written"),
        (NotImplementedError("no Long"), "the answer raises NotImplementedError: no Long"),
        (CheckFailed("row 0 is off"), "row 0 is off"),
        (IndexError("3 is too far"), "the answer raises IndexError: 3 is too far"),
        (AssertionError("no"), "the answer raises AssertionError: no"),
    ],
)
def test_an_exercise_prints_what_is_wrong_and_never_raises(capsys, error, printed):
    def check(answer):
        raise error

    exercise(check)(3)
    assert capsys.readouterr().out == f"Not yet: {printed}\n"


@pytest.mark.parametrize(
    ("got", "words"),
    [
        ([1.0, 2.0], "the sums should be a tensor, got list"),
        (torch.ones(1, 2), "the sums should have shape (2,), got (1, 2)"),
        (torch.tensor([True, True]), "the sums should have dtype torch.float32, got torch.bool"),
        (torch.tensor([1.0, 2.5]), "the sums should be 2 at (1,), got 2.5"),
        (torch.tensor([NAN, 9.0]), "the sums should be 1 at (0,), got nan"),
        (torch.tensor([3.0, 6.0]), "with k = 3: divide by k"),
    ],
)
def test_a_wrong_answer_is_named_as_a_known_mistake_or_by_its_first_wrong_entry(got, words):
    mistakes = {"divide by k": torch.tensor([3.0, 6.0])}
    with fails(re.escape(words)):
        compare(got, torch.tensor([1.0, 2.0]), "the sums", mistakes=mistakes, case="with k = 3: ")


@pytest.mark.parametrize(
    ("answer", "printed"),
    [
        ({"a": True, "b": (1, 2)}, "Correct"),
        ({"a": True, "b": None}, "Not yet: b has no guess: write anything"),
        ({"a": True, "b": (2, 1)}, "Not yet: b is not (2, 1): they are two"),
        ({"a": True, "b": [1, 2]}, "Correct"),
        ({"a": 1, "b": (1, 2)}, "Not yet: a should be anything, got 1"),
        ([True, (1, 2)], "Not yet: the answer must be a dictionary, got list"),
    ],
)
def test_each_part_of_a_prediction_has_its_reason(capsys, answer, printed):
    prediction("anything", {"a": [True, "it is so"], "b": [[1, 2], "they are two"]})(answer)
    assert capsys.readouterr().out == printed + "\n"


@pytest.mark.parametrize(
    ("answer", "printed"),
    [
        (lambda x: x + 1, "Correct"),
        (lambda x: x.add_(1), "Not yet: the answer changes its argument in place: work on a copy"),
        ([2.0], "Not yet: the answer should be a function, got list"),
    ],
)
def test_a_function_leaves_its_arguments_alone(capsys, answer, printed):
    of_function(lambda plus: compare(plus(torch.ones(2)), torch.full((2,), 2.0), "it"))(answer)
    assert capsys.readouterr().out == printed + "\n"


# Models of sequences

TOKENS, LONG = torch.tensor([[4, 5, 6], [7, 0, 0]]), torch.tensor([3, 1])
SAID = torch.tensor([[1, 4, 5, 6], [1, 7, 0, 0]])


class Sum:
    """The mean of the source's ids and the sum of what was said so far: nothing leaks."""

    def __init__(self, total=None):
        self.total = total

    def __call__(self, source, lengths, inputs):
        real = padding_mask(lengths, source.shape[1])[:, 0]
        mean = (source * real).sum(1, keepdim=True) / lengths[:, None]
        return (mean + inputs.cumsum(1))[..., None], None

    def start(self, source, lengths):
        logits = self(source, lengths, torch.ones(len(source), 1))[0][:, 0]
        return logits, type(self)(logits[:, 0].clone())

    def select(self, index):
        return type(self)(self.total[index])

    def step(self, tokens, state):
        after = type(self)(state.total + tokens)
        return after.total[:, None], after


class Slips(Sum):
    def step(self, tokens, state):
        return super().step(tokens + 2, state)


class Unordered(Sum):
    def select(self, index):
        return self


class Shared(Sum):
    """Each state is the one before, changed in place."""

    def step(self, tokens, state):
        state.total += tokens
        return state.total[:, None].clone(), state


class ReadsPadding(Sum):
    def __call__(self, source, lengths, inputs):
        return super().__call__(source, torch.full_like(lengths, source.shape[1]), inputs)


DIFFERS = "at step . the logits of sequence . differ"


@pytest.mark.parametrize(
    ("check", "model", "words"),
    [
        (checks.check_batch_invariant, ReadsPadding, "alone, sequence 1 gets .* 0: by 4.7"),
        (checks.check_step_matches_parallel, Slips, "step 3 the logits of sequence 0 differ by 6"),
        (checks.check_step_matches_parallel, Unordered, DIFFERS),
        (checks.check_step_matches_parallel, Shared, DIFFERS),
    ],
)
def test_a_model_that_reads_its_own_sequence_alone_passes_and_another_is_told_where(
    check, model, words
):
    check(Sum(), TOKENS, LONG, SAID)
    with fails(words):
        check(model(), TOKENS, LONG, SAID)


def summing(x, cache):
    """A causal sum through a cache of four axes."""
    y = x[:, None] if cache is None else cache.update(x[:, None], x[:, None])[0]
    return y.cumsum(2)[:, 0, -x.shape[1] :]


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        (lambda x, cache: summing(x, None), "in pieces of 1, 1, 1, 1, 1 the output at position 4"),
        (lambda x, cache: summing(x, cache) + x.shape[1] // 3, "in pieces of 1, 1, 1, 1, 1"),
        (lambda x, cache: summing(x, cache) + (x.shape[1] == 4), "in pieces of 4, 1"),
        (lambda x, cache: summing(x, cache) + (x.shape[1] == 2), "in pieces of 2, 3 .* position"),
    ],
)
def test_a_layer_that_depends_on_where_it_was_cut_is_told_where(layer, words):
    checks.check_pieces_match_whole(summing, x_of(2, 5, 3))
    with fails(words):
        checks.check_pieces_match_whole(layer, torch.ones(2, 5, 3))


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        (lambda x, lengths: x.cumsum(1)[..., None].flip(1).double(), "padding"),
        (lambda x, lengths: x[:, [1, 2, 2]][..., None], "sequence 1 changes by . at position 0"),
    ],
)
def test_padding_of_token_ids_is_tried_with_other_ids(layer, words):
    checks.check_padding_invariant(lambda x, lengths: x.cumsum(1)[..., None], TOKENS, LONG)
    with fails(words):
        checks.check_padding_invariant(layer, TOKENS, LONG)


cross_entropy = torch.nn.functional.cross_entropy


def real_mean(logits, labels):
    return cross_entropy(logits.mT, labels, ignore_index=0)


def mean_times_mask(logits, labels):
    return (cross_entropy(logits.mT, labels, reduction="none") * (labels != 0)).mean()


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (lambda x, y: real_mean(x.detach(), y), "no gradient flows from the loss"),
        (lambda x, y: cross_entropy(x.mT, y), r"at padding \(sequence 0"),
        (mean_times_mask, "one column more of padding changes the loss by"),
        (
            lambda x, y: real_mean(x[:, 1:], y[:, 1:]),
            "not read the real token 0 of sequence 0",
        ),
        (lambda x, y: real_mean(x, y) + 0 * x.sum() * NAN, "is inf|is nan"),
    ],
)
def test_a_loss_that_is_not_masked_is_told_why(loss, words):
    checks.check_masked_loss(real_mean)
    with fails(words):
        checks.check_masked_loss(loss)


# Texts on both sides of a split

TEXTS = st.lists(st.text("ab", max_size=12), max_size=4)


def by_hand(train, held_out, length):  # character by character, run by run
    seen = total = 0
    for text in held_out:
        for at in range(len(text)):
            starts = range(max(0, at - length + 1), min(at, len(text) - length) + 1)
            seen += any(text[s : s + length] in one for s in starts for one in train)
            total += 1
    return seen / total


@given(TEXTS, TEXTS.filter(any), st.integers(1, 5))
def test_the_share_is_that_of_its_definition(train, held_out, length):
    share = share_seen(train, held_out, length=length)
    assert share == by_hand(train, held_out, length)
