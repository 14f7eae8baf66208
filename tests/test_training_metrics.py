"""Metrics, held against their definitions written out."""

import math
import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attn_notes.data import Vocabulary, encode_text
from attn_notes.training import bits_per_character, bleu, exact_match
from attn_notes.transformer import DecoderOnly, TransformerConfig

WORDS = st.lists(st.sampled_from("abc"), min_size=0, max_size=9)


def test_bleu_is_what_its_definition_says_of_an_example():
    """Of the first 4 of 5 words: 4 of 4, 3 of 3, 2 of 2 and 1 of 1 runs, and brevity."""
    found = bleu(["one hundred and two"], ["one hundred and two thousand"])
    assert found == pytest.approx(100 * math.exp(1 - 5 / 4))
    mean = (3 / 4 * 2 / 3 * 1 / 2 * 1 / 2) ** (1 / 4)  # no run of 4: half of one
    assert bleu(["a b c d"], ["a b c e"]) == pytest.approx(100 * mean)


def test_a_text_is_split_at_spaces_and_nowhere_else():
    assert bleu(["seventy -three"], ["seventy -two"]) < bleu(["seventy -three"], ["seventy -three"])
    assert bleu(["a-b c"], ["a - b c"]) < 50
    assert bleu(["Yes."], ["Yes ."]) == 0


@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=6))
def test_exact_match_counts_what_is_equal_in_lists_tuples_and_strings(pairs):
    expected = sum(p == r for p, r in pairs) / len(pairs)
    said, wanted = zip(*pairs, strict=True)
    assert exact_match(said, wanted) == expected
    assert exact_match([tuple(p) for p in said], list(wanted)) == expected
    assert exact_match(["".join(p) for p in said], ["".join(r) for r in wanted]) == expected


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: exact_match([], []), ValueError, "got 0 and 0"),
        (lambda: bleu(["a", "b"], ["a"]), ValueError, "got 2 and 1"),
        (lambda: bleu("abc", "abc"), TypeError, "must be lists, got one string"),
    ],
)
def test_what_cannot_be_measured_is_refused(call, error, words):
    with pytest.raises(error, match=re.escape(words)):
        call()


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


TEXTS = st.lists(st.text("abcdefx", max_size=30), min_size=1, max_size=3).filter(any)


@settings(max_examples=20)
@given(texts=TEXTS, length=st.integers(1, 8), batch_size=st.integers(1, 5))
def test_each_character_is_predicted_once_from_what_its_window_holds(texts, length, batch_size):
    model, stride = a_decoder(), max(1, length // 2)
    found = bits_per_character(model, texts, VOCAB, length=length, batch_size=batch_size)
    assert found == pytest.approx(bits_by_loop(model, texts, length, stride), abs=1e-9)


def test_no_dropout_no_gradient_and_the_mode_is_as_before():
    model = a_decoder(dropout=0.5)
    for mode in (True, False):
        model.train(mode)
        one, other = (bits_per_character(model, ["abc" * 9], VOCAB, length=8) for _ in range(2))
        assert one == other
        assert model.training is mode
    assert all(parameter.grad is None for parameter in model.parameters())
