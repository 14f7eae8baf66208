"""The losses weigh each real token the same; metrics are held against their definitions."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F
from torch.testing import assert_close

from attn_notes import training as T
from attn_notes.data import END, PAD, START, Batch, Vocabulary, encode_text
from attn_notes.transformer import DecoderOnly, TransformerConfig
from tests.oracles import B, L, normal, rng

V = 11


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
    assert_close(T.masked_cross_entropy(logits, labels), expected)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
def test_it_and_its_gradient_equal_torch_s_wherever_torch_has_an_answer(smoothing):
    labels, logits = labels_of([3, 5], L + 2), normal(2, L + 2, V)
    expected = F.cross_entropy(
        logits.transpose(1, 2), labels, ignore_index=PAD, label_smoothing=smoothing
    )
    found = T.masked_cross_entropy(logits, labels, label_smoothing=smoothing)
    assert_close(found, expected)
    assert_close(*(torch.autograd.grad(one, logits) for one in (found, expected)))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_sum_that_half_precision_could_not_hold_is_held(dtype):
    logits = torch.zeros(1, 9000, V, dtype=dtype)
    logits[..., 3] = 20.0
    loss = T.masked_cross_entropy(logits, torch.full((1, 9000), 4))  # their sum is 180,000
    assert loss.dtype == torch.float32
    assert_close(loss, torch.tensor(20.0))


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

    mean, count = T.translation_loss(model, BATCH)
    assert mean < 1e-6
    assert count == 5  # padding aside
    assert T.translation_loss(model, BATCH, label_smoothing=0.3)[0] > 1
    source, lengths, inputs = asked[0]
    assert torch.equal(source, BATCH.source)
    assert torch.equal(lengths, BATCH.lengths)
    assert inputs.tolist() == [[START, 4, 5], [START, 6, END]]


# The next token of a running text


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_of_a_decoder_it_is_the_mean_of_what_each_prefix_says_of_the_next(smoothing):
    torch.manual_seed(0)
    model = DecoderOnly(TransformerConfig(vocab_size=V, embed_dim=8, norm="pre")).double()
    tokens = torch.randint(3, V, (B, L + 1), generator=rng())
    how = {"label_smoothing": smoothing}
    prefixes = [(model(tokens[:, :n]).logits[:, -1], tokens[:, n]) for n in range(1, L + 1)]
    expected = torch.stack([T.masked_cross_entropy(*pair, **how) for pair in prefixes]).mean()
    found, count = T.language_model_loss(model, tokens, **how)
    assert_close(found, expected)
    assert count == B * L


# Metrics

WORDS = st.lists(st.sampled_from("abc"), min_size=0, max_size=9)


def test_bleu_is_what_its_definition_says_of_an_example():
    """Of the first 4 of 5 words: 4 of 4, 3 of 3, 2 of 2 and 1 of 1 runs, and brevity."""
    found = T.bleu(["one hundred and two"], ["one hundred and two thousand"])
    assert found == pytest.approx(100 * math.exp(1 - 5 / 4))
    mean = (3 / 4 * 2 / 3 * 1 / 2 * 1 / 2) ** (1 / 4)  # no run of 4: half of one
    assert T.bleu(["a b c d"], ["a b c e"]) == pytest.approx(100 * mean)


def test_a_text_is_split_at_spaces_and_nowhere_else():
    assert T.bleu(["seventy -three"], ["seventy -two"]) < T.bleu(
        ["seventy -three"], ["seventy -three"]
    )
    assert T.bleu(["a-b c"], ["a - b c"]) < 50
    assert T.bleu(["Yes."], ["Yes ."]) == 0


@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=6))
def test_exact_match_counts_what_is_equal_in_lists_tuples_and_strings(pairs):
    expected = sum(p == r for p, r in pairs) / len(pairs)
    said, wanted = zip(*pairs, strict=True)
    assert T.exact_match(said, wanted) == expected
    assert T.exact_match([tuple(p) for p in said], list(wanted)) == expected
    assert T.exact_match(["".join(p) for p in said], ["".join(r) for r in wanted]) == expected


# Bits of running text

VOCAB = Vocabulary(list("abcdef"))


def a_decoder(dropout: float = 0.0) -> DecoderOnly:
    torch.manual_seed(0)
    sizes = {"vocab_size": len(VOCAB), "embed_dim": 8, "num_heads": 2, "max_length": 8}
    model = DecoderOnly(TransformerConfig(**sizes, norm="pre", dropout=dropout)).double()
    with torch.no_grad():
        model.out_proj.weight.mul_(50)  # far from saying that all is equally likely
    return model


def bits_by_loop(model: DecoderOnly, texts: list[str], length: int, stride: int) -> float:
    """Each id from a context of its own, as long as its window gives it."""
    bits = 0.0
    for text in texts:
        ids = encode_text(text, VOCAB)
        for at in range(1, len(ids)):
            windows_before = max(0, math.ceil((at - length) / stride))
            context = torch.tensor([ids[windows_before * stride : at]])
            assert at <= length or length - stride < context.shape[1] <= length
            with torch.no_grad():
                logits = model.eval()(context).logits[0, -1]
            bits -= float(logits.log_softmax(0)[ids[at]]) / math.log(2)
    return bits / sum(map(len, texts))


TEXTS = st.lists(st.text("abcdefx", max_size=18), min_size=1, max_size=3).filter(any)


@settings(max_examples=20)
@given(texts=TEXTS, length=st.integers(1, 8), batch_size=st.integers(1, 5))
def test_each_character_is_predicted_once_from_what_its_window_holds(texts, length, batch_size):
    model, stride = a_decoder(), max(1, length // 2)
    found = T.bits_per_character(model, texts, VOCAB, length=length, batch_size=batch_size)
    assert found == pytest.approx(bits_by_loop(model, texts, length, stride), abs=1e-9)


def test_no_dropout_no_gradient_and_the_mode_is_as_before():
    model = a_decoder(dropout=0.5)
    for mode in (True, False):
        model.train(mode)
        one, other = (T.bits_per_character(model, ["abc" * 9], VOCAB, length=8) for _ in range(2))
        assert one == other
        assert model.training is mode
    assert all(parameter.grad is None for parameter in model.parameters())
