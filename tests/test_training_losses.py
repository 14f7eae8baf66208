"""The losses look at real tokens alone, and weigh each of them the same."""

import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F
from torch.testing import assert_close

from attn_notes.data import END, PAD, START, Batch
from attn_notes.training import language_model_loss, masked_cross_entropy, translation_loss
from attn_notes.transformer import DecoderOnly, TransformerConfig
from tests.oracles import B, L, normal, rng

V = 11
SIZES = st.integers(1, 5)


def labels_of(lengths: list[int], size: int, seed: int = 0) -> torch.Tensor:
    labels = torch.randint(1, V, (len(lengths), size), generator=rng(seed))
    return labels.masked_fill(torch.arange(size) >= torch.tensor(lengths)[:, None], PAD)


@given(lengths=st.lists(st.integers(0, 6), min_size=1, max_size=4), seed=st.integers(0, 99))
def test_it_is_the_mean_over_real_tokens_of_minus_log_p(lengths, seed):
    labels = labels_of(lengths, 6, seed)
    logits = normal(*labels.shape, V, seed=seed)
    found = [
        -logits[b, i].log_softmax(0)[labels[b, i]]
        for b, length in enumerate(lengths)
        for i in range(length)
    ]
    expected = torch.stack(found).mean() if found else torch.zeros((), dtype=torch.float64)
    assert_close(masked_cross_entropy(logits, labels), expected)


@given(lengths=st.lists(SIZES, min_size=1, max_size=4), more=SIZES, smoothing=st.floats(0, 1))
def test_padding_changes_neither_the_loss_nor_a_gradient(lengths, more, smoothing):
    short = labels_of(lengths, 5)
    long = F.pad(short, (0, more), value=PAD)
    logits = normal(*long.shape, V)
    one = masked_cross_entropy(logits[:, :5], short, label_smoothing=smoothing)
    other = masked_cross_entropy(logits, long, label_smoothing=smoothing)
    assert_close(one, other)
    (there,) = torch.autograd.grad(other, logits)
    assert_close(there, torch.autograd.grad(one, logits)[0])
    assert there[long == PAD].eq(0).all()


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
def test_it_equals_torch_wherever_torch_has_an_answer(smoothing):
    labels, logits = labels_of([3, 5], L), normal(2, L, V)
    how = {"ignore_index": PAD, "label_smoothing": smoothing}
    expected = F.cross_entropy(logits.transpose(1, 2), labels, **how)
    assert_close(masked_cross_entropy(logits, labels, **how), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_sum_that_half_precision_could_not_hold_is_held(dtype):
    logits = torch.zeros(1, 9000, V, dtype=dtype)
    logits[..., 3] = 20.0
    loss = masked_cross_entropy(logits, torch.full((1, 9000), 4))  # their sum is 180,000
    assert loss.dtype == torch.float32
    assert_close(loss, torch.tensor(20.0))


@pytest.mark.parametrize(
    ("logits", "labels", "smoothing", "words"),
    [
        ((B, L, V), (B, L + 1), 0.0, "logits (2, 5, 11) and labels (2, 6)"),
        ((B, V), (B, L), 0.0, "logits (2, 11) and labels (2, 5)"),
        ((B, L, V), (B, L), -0.1, "from 0 to 1, got -0.1"),
        ((B, L, V), (B, L), float("nan"), "from 0 to 1, got nan"),
    ],
)
def test_what_does_not_fit_is_refused(logits, labels, smoothing, words):
    labels = torch.zeros(labels, dtype=torch.int64)
    with pytest.raises(ValueError, match=re.escape(words)):
        masked_cross_entropy(torch.zeros(logits), labels, label_smoothing=smoothing)


# Teacher forcing


BATCH = Batch(
    source=torch.tensor([[4, 5, 6], [7, PAD, PAD]]),
    lengths=torch.tensor([3, 1]),
    target=torch.tensor([[START, 4, 5, END], [START, 6, END, PAD]]),
)


def test_the_model_is_given_each_token_and_asked_for_the_next():
    asked = []

    def model(*given):
        asked.append(given)
        says = torch.tensor([[4, 5, END], [6, END, END]])  # as it should
        return 50.0 * F.one_hot(says, V).float(), None

    assert translation_loss(model, BATCH) < 1e-6
    ((source, lengths, inputs),) = asked
    assert torch.equal(source, BATCH.source)
    assert torch.equal(lengths, BATCH.lengths)
    assert inputs.tolist() == [[START, 4, 5], [START, 6, END]]


def test_smoothing_reaches_the_loss():
    logits = normal(2, 3, V)
    found = translation_loss(lambda *_: (logits, None), BATCH, label_smoothing=0.3)
    assert_close(found, masked_cross_entropy(logits, BATCH.target[:, 1:], label_smoothing=0.3))


# The next token of a running text


def test_a_sequence_is_its_own_label_one_place_on():
    tokens = torch.tensor([[START, 4, 5, END], [6, 7, 8, 9]])
    asked = []

    def model(inputs):
        asked.append(inputs)
        return 50.0 * F.one_hot(inputs + 1, V).float(), None, None  # it counts

    assert_close(language_model_loss(model, tokens[1:]), torch.tensor(0.0))
    assert language_model_loss(model, tokens) > 1
    assert [inputs.tolist() for inputs in asked] == [[[6, 7, 8]], [[START, 4, 5], [6, 7, 8]]]


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_of_a_decoder_it_is_the_mean_of_what_each_prefix_says_of_the_next(smoothing):
    torch.manual_seed(0)
    model = DecoderOnly(TransformerConfig(vocab_size=V, embed_dim=8, norm="pre")).double()
    tokens = torch.randint(3, V, (B, L + 1), generator=rng())
    how = {"label_smoothing": smoothing}
    prefixes = [(model(tokens[:, :n]).logits[:, -1], tokens[:, n]) for n in range(1, L + 1)]
    expected = torch.stack([masked_cross_entropy(*pair, **how) for pair in prefixes]).mean()
    assert_close(language_model_loss(model, tokens, **how), expected)


def test_another_id_may_be_the_padding():
    logits = normal(1, 2, V)
    alone = masked_cross_entropy(logits[:, :1], torch.tensor([[4]]))
    assert_close(masked_cross_entropy(logits, torch.tensor([[4, 7]]), ignore_index=7), alone)
