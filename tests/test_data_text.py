"""Running text: read from any file, split without a leak, and cut into windows."""

import re
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attn_notes import data
from attn_notes.checks import share_seen
from attn_notes.data import END, START, Vocabulary, encode_text, read_text, split_text
from attn_train.sources import read_pairs

TOPICS = Path(__file__).parents[1] / "book" / "_data" / "python-topics"


def test_a_split_by_document_alone_leaks_and_ours_does_not():
    texts = [read_text(path) for path in sorted(TOPICS.glob("*.txt"))]
    alone = [text for text in texts if data.is_held_out(text.split("\n", 1)[0])]
    others = [text for text in texts if text not in alone]
    leaking = [share_seen(others, [text]) for text in alone]
    assert max(leaking) > 0.25  # the identifiers, whose classes have a document of their own
    train, held_out = split_text(texts)
    assert share_seen(train, held_out) == 0
    assert sorted(train + held_out) == sorted(texts)
    assert 0.05 < sum(map(len, held_out)) / sum(map(len, texts)) < 0.3


PARAGRAPH = "A paragraph that two documents share, long enough to be no accident of words."
TITLES = [f"title {n}" for n in range(200)]
HELD = [title for title in TITLES if data.is_held_out(title)]
KEPT = [title for title in TITLES if not data.is_held_out(title)]


def test_the_side_of_a_document_depends_on_its_first_line():
    texts = [f"\n \n{title}\n\nbody" for title in TITLES]
    train, held_out = split_text(texts)
    assert [text.split("\n")[2] for text in held_out] == HELD
    assert [text.split("\n")[2] for text in train] == KEPT


@pytest.mark.parametrize("mangled", [PARAGRAPH, PARAGRAPH.replace(" ", "\n   ")])
@pytest.mark.parametrize(("first", "others"), [(HELD[0], KEPT), (KEPT[0], HELD)])
def test_documents_that_share_a_paragraph_stand_together_through_others_too(mangled, first, others):
    one, other = [title for title in others if title > first][:2]  # each on the other side alone
    bridge = PARAGRAPH[::-1]
    chain = [
        f"{first}\n\n{PARAGRAPH}\n\nmore",
        f"{one}\n\nintro\n\n{mangled}\n\n{bridge}",
        f"{other}\n\n{bridge}",
    ]
    rest = [f"{title}\n\n{title} alone" for title in TITLES if title not in (first, one, other)]
    for texts in (chain + rest, rest + chain[::-1]):
        together = [sum(text in side for text in chain) for side in split_text(texts)]
        assert together == ([0, 3] if data.is_held_out(first) else [3, 0])


def test_the_end_of_a_single_text_is_held_out_from_the_start_of_a_line():
    text = "".join(f"line {n}\n" for n in range(1000))
    (train,), (held_out,) = split_text([text])
    assert train + held_out == text
    assert train.endswith("\n")
    assert 0.1 <= len(held_out) / len(text) < 0.102


@pytest.mark.parametrize("size", [2, 9, 11, 1000])
@pytest.mark.parametrize("share", [0.001, 0.1, 0.999])
def test_a_text_without_lines_is_cut_at_the_share(size, share):
    text = "".join(chr(97 + n % 26) for n in range(size))
    (train,), (held_out,) = split_text([text], share=share)
    assert train + held_out == text
    assert len(held_out) == max(1, int(share * size))
    marked = "\n" + text  # a line end far from the place is no place to cut
    assert abs(len(split_text([marked], share=share)[1][0]) - share * size) <= 2


# The windows

TEXTS = ["to be or not to be", "that is the question", "whether"]
VOCAB = Vocabulary.build(map(list, TEXTS))
STREAM = [number for text in TEXTS for number in encode_text(text, VOCAB)]


def windows(**changes) -> data.TextWindows:
    return data.TextWindows(TEXTS, VOCAB, **{"length": 5, "batch_size": 6} | changes)


@given(text=st.text(max_size=30))
def test_a_document_is_encoded_between_start_and_end(text):
    vocab = Vocabulary(sorted(set(text)))
    ids = encode_text(text, vocab)
    assert (ids[0], ids[-1]) == (START, END)
    assert "".join(vocab.decode(ids)) == text


@pytest.mark.parametrize("length", [1, 5, len(STREAM) - 2, len(STREAM) - 1])
def test_a_window_is_cut_from_the_stream_and_every_place_occurs(length):
    of_length = windows(length=length, batch_size=50)
    places = {tuple(STREAM[at : at + length + 1]) for at in range(len(STREAM) - length)}
    seen = torch.stack([of_length(step) for step in range(20)])
    assert seen.dtype == torch.int64
    assert seen.shape == (20, 50, length + 1)
    assert {tuple(window) for window in seen.flatten(0, 1).tolist()} == places


def test_a_batch_depends_only_on_the_seed_and_the_step():
    one, other = windows(), windows()
    steps = [one(step) for step in range(9)]
    for step in (7, 2, 8, 2, 0):
        assert torch.equal(other(step), steps[step])
    assert not any(torch.equal(a, b) for a, b in pairwise(steps))
    assert not torch.equal(windows(seed=1)(0), steps[0])
    batch = one(3)
    batch.zero_()  # the caller's own
    assert torch.equal(one(3), steps[3])


# The reader's own files

# No white space, no control character, no half of a pair, no byte order mark.
TOKENS = st.text(
    st.characters(exclude_categories=("Cc", "Cs", "Zs", "Zl", "Zp"), exclude_characters="\ufeff"),
    min_size=1,
    max_size=6,
)
SIDES = st.lists(TOKENS, min_size=1, max_size=5).map(tuple)
PAIRS = st.lists(st.tuples(SIDES, SIDES), min_size=1, max_size=8)
ENDS = st.sampled_from(["\n", "\r\n", "\r"])
# utf-8-sig has a byte order mark, which the reader of a file need not know of.
ENCODINGS = pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "gb18030"]
)
IN_ONE_FILE = settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])


def saved(folder: Path, content: str | bytes) -> Path:
    path = folder / "own.tsv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def named(encoding: str) -> str | None:
    """What a reader passes; nothing for UTF-8."""
    return None if encoding.startswith("utf-8") else encoding


@ENCODINGS
@IN_ONE_FILE
@given(pairs=PAIRS, end=ENDS, last=st.sampled_from(["", "  \x0b\u2028", None]))
def test_a_text_and_its_pairs_come_back_from_any_file(tmp_path, encoding, pairs, end, last):
    lines = [f"  {' '.join(source)}\t {' '.join(target)} \tCC-BY" for source, target in pairs]
    lines += [] if last is None else [last]
    path = saved(tmp_path, end.join(lines).encode(encoding))
    assert read_text(path, encoding=named(encoding)) == "\n".join(lines)
    assert read_pairs(path, encoding=named(encoding)) == pairs


def test_lines_that_hold_no_pair_are_skipped_and_a_warning_says_where(tmp_path):
    long = "a " * 201
    lines = ["a\tb", "", "no tab", "\tc", "c\t", f"{long}\te", f"a\t{long}", " \t ", "c d\tf"]
    path = saved(tmp_path, "\n".join(lines))
    with pytest.warns(UserWarning, match="2 pairs kept, 5 lines skipped, line 3 the") as caught:
        assert read_pairs(path) == [(("a",), ("b",)), (("c", "d"), ("f",))]
    assert caught[0].filename == __file__  # it points at the caller


def test_any_white_space_separates_tokens_and_only_line_ends_separate_lines(tmp_path):
    text = "Wie\u00a0geht  es\u202f?\tHow\u2028is\x0bit\x85?\n"
    pairs = [(("Wie", "geht", "es", "?"), ("How", "is", "it", "?"))]
    assert read_pairs(saved(tmp_path, text)) == pairs


@pytest.mark.parametrize("read", [read_text, read_pairs])
@pytest.mark.parametrize(
    ("content", "encoding", "words"),
    [
        (b"a\tb\nc\t\xfc\n", None, "must be text in utf-8, got byte 0xfc in line 2; if it has"),
        (b"\xe4\tb\n", "ascii", "must be text in ascii, got byte 0xe4 in line 1"),
        (b"\xef\xbb\xbf \n\r\n\t", None, "must hold a text, got 4 characters of white space"),
    ],
)
def test_a_file_that_is_not_text_is_refused_with_the_place(
    tmp_path, read, content, encoding, words
):
    path = saved(tmp_path, content)
    with pytest.raises(ValueError, match=re.escape(f"{path} {words}")):
        read(path, encoding=encoding)
