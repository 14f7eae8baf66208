"""Metrics, held against their definitions written out."""

import math
import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_notes.training import bleu, exact_match

WORDS = st.lists(st.sampled_from("abc"), min_size=0, max_size=9)
PAIRS = st.lists(st.tuples(WORDS, WORDS.filter(len)), min_size=1, max_size=5)


def written_out(pairs: list[tuple[list[str], list[str]]]) -> float:
    """Papineni et al. (2002) with exponential smoothing, over the orders that occur."""
    said, wanted = (sum(len(pair[side]) for pair in pairs) for side in (0, 1))
    logs, halvings = [], 0
    for order in (1, 2, 3, 4):
        matches = total = 0
        for prediction, reference in pairs:
            grams = [
                Counter(tuple(words[i : i + order]) for i in range(len(words) - order + 1))
                for words in (prediction, reference)
            ]
            matches += (grams[0] & grams[1]).total()
            total += grams[0].total()
        if not total:
            break
        if not matches:
            halvings += 1
        logs.append(math.log(matches / total if matches else 1 / 2**halvings / total))
    if not logs or halvings == len(logs):
        return 0.0
    brevity = min(0.0, 1 - wanted / said)
    return 100 * math.exp(brevity + sum(logs) / len(logs))


@given(PAIRS)
def test_bleu_is_what_its_definition_says(pairs):
    said, wanted = zip(*[(" ".join(p), " ".join(r)) for p, r in pairs], strict=True)
    assert bleu(said, wanted) == pytest.approx(written_out(pairs), abs=1e-9)


@given(st.lists(WORDS.filter(len), min_size=1, max_size=5))
def test_what_is_right_has_a_hundred_however_short(references):
    texts = [" ".join(words) for words in references]
    assert bleu(texts, texts) == pytest.approx(100)
    assert bleu(texts, texts) <= 100


def test_a_text_is_split_at_spaces_and_nowhere_else():
    assert bleu(["seventy -three"], ["seventy -two"]) < bleu(["seventy -three"], ["seventy -three"])
    one, other = ["a-b c"], ["a - b c"]
    assert bleu(one, other) < 50
    assert bleu(["Yes."], ["Yes ."]) == 0
    assert bleu(["Yes."], ["Yes ."], tokenize="13a") == pytest.approx(100)


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
        (lambda: exact_match(["a"], ["a", "b"]), ValueError, "got 1 and 2"),
        (lambda: bleu([], []), ValueError, "got 0 and 0"),
        (lambda: bleu(["a", "b"], ["a"]), ValueError, "got 2 and 1"),
        (lambda: bleu([("a", "b")], ["a b"]), TypeError, "got ('a', 'b')"),
        (lambda: bleu(["a"], [("a",)]), TypeError, "got ('a',)"),
        (lambda: bleu("abc", "abc"), TypeError, "predictions must be a list, got the one string"),
        (lambda: bleu(["abc"], "a"), TypeError, "references must be a list, got the one string"),
        (lambda: exact_match("abc", "abc"), TypeError, "predictions must be a list"),
        (
            lambda: bleu(["a"], ["a"], tokenize="words"),
            ValueError,
            "tokenize must be one of none, zh, 13a",
        ),
    ],
)
def test_what_cannot_be_measured_is_refused(call, error, words):
    with pytest.raises(error, match=re.escape(words)):
        call()
