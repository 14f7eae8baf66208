r"""The reader's own files: running text, and pairs of sentences."""

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attn_notes.data import read_pairs, read_text

# No white space, no control character, no half of a pair, no byte order mark.
TOKENS = st.text(
    st.characters(exclude_categories=("Cc", "Cs", "Zs", "Zl", "Zp"), exclude_characters="\ufeff"),
    min_size=1,
    max_size=6,
)
SIDES = st.lists(TOKENS, min_size=1, max_size=5).map(tuple)
PAIRS = st.lists(st.tuples(SIDES, SIDES), min_size=1, max_size=8)
ENDS = st.sampled_from(["\n", "\r\n", "\r"])
IN_ONE_FILE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])

# (how a file may be encoded, what to tell the reader of it)
ENCODINGS = pytest.mark.parametrize(
    "encoding",
    [
        ("utf-8", None),
        ("utf-8-sig", None),  # with a byte order mark
        ("utf-16", "utf-16"),
        ("utf-16-le", "utf-16-le"),
        ("gb18030", "gb18030"),
    ],
)


def saved(folder: Path, content: str | bytes) -> Path:
    path = folder / "own.tsv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@ENCODINGS
@IN_ONE_FILE
@given(pairs=PAIRS, end=ENDS, closed=st.booleans())
def test_pairs_come_back_from_any_file(tmp_path, encoding, pairs, end, closed):
    lines = [f"{' '.join(source)}\t {' '.join(target)} \tCC-BY" for source, target in pairs]
    content = (end.join(lines) + (end if closed else "")).encode(encoding[0])
    corpus = read_pairs(saved(tmp_path, content), encoding=encoding[1])
    assert corpus.pairs == pairs
    assert corpus.skipped == []


@ENCODINGS
@IN_ONE_FILE
@given(words=st.lists(TOKENS, min_size=1), end=ENDS)
def test_a_text_comes_back_from_any_file(tmp_path, encoding, words, end):
    content = f"  {end}{end.join(words)}{end}\x0b\u2028".encode(encoding[0])
    expected = "  \n" + "\n".join(words) + "\n\x0b\u2028"
    assert read_text(saved(tmp_path, content), encoding=encoding[1]) == expected


def test_lines_that_hold_no_pair_are_skipped_with_their_number_and_a_warning(tmp_path):
    lines = [
        "a\tb",
        "",
        "no tab",
        "\tc",
        "c\t",
        " \t ",
        "a b c d\te",
        "a\tb c d e",
        "   ",
        "c d e\tf",
    ]
    path = saved(tmp_path, "\n".join(lines))
    with pytest.warns(UserWarning, match="2 pairs kept, 6 lines skipped; line 3: no tab") as caught:
        corpus = read_pairs(path, max_length=3)
    assert corpus.pairs == [(("a",), ("b",)), (("c", "d", "e"), ("f",))]
    side = "a side must have 1 to 3 tokens"
    assert corpus.skipped == [(3, "no tab"), *((n, side) for n in range(4, 9))]
    assert str(caught[0].message) == str(corpus)
    assert caught[0].filename == __file__  # it points at the caller
    assert "line 7" in str(corpus)
    assert str(corpus).endswith("; …")  # after the first five


def test_a_file_without_a_skipped_line_has_a_summary_too(tmp_path):
    path = saved(tmp_path, "a\tb\n")
    assert str(read_pairs(path)) == f"{path}: 1 pair kept, 0 lines skipped"


def test_any_white_space_separates_tokens_and_only_line_ends_separate_lines(tmp_path):
    text = "Wie\u00a0geht  es\u202f?\tHow\u2028is\x0bit\x85?\n"
    pairs = [(("Wie", "geht", "es", "?"), ("How", "is", "it", "?"))]
    assert read_pairs(saved(tmp_path, text)).pairs == pairs


@pytest.mark.parametrize("read", [read_text, read_pairs])
@pytest.mark.parametrize(
    ("content", "encoding", "words"),
    [
        (
            b"a\tb\nc\t\xfc\n",
            None,
            "in utf-8, got byte 0xfc at offset 6, line 2; if it has another",
        ),
        (b"\xef\xbb\xbfa\tb\r\n\xe4\tb", None, "got byte 0xe4 at offset 8, line 2"),
        (b"a\tb\n\n\n\xc3", None, "got byte 0xc3 at offset 6, line 4"),  # half a character
        ("a\tb\n".encode("utf-16"), None, "got byte 0xff at offset 0, line 1"),
        ("ä\tb\n".encode("latin-1"), "ascii", "must be text in ascii, got byte 0xe4 at offset 0"),
    ],
)
def test_an_undecodable_byte_is_reported_with_its_place(tmp_path, read, content, encoding, words):
    with pytest.raises(ValueError, match=re.escape(words)) as caught:
        read(saved(tmp_path, content), encoding=encoding)
    assert str(caught.value).startswith(str(tmp_path / "own.tsv"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("read", [read_text, read_pairs])
@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf", b" \n\r\n\t"])
def test_a_file_without_text_is_refused(tmp_path, read, content):
    with pytest.raises(ValueError, match=r"own\.tsv must hold a text, got \d characters of white"):
        read(saved(tmp_path, content))


def test_a_file_without_a_single_pair_is_refused_with_the_reason(tmp_path):
    with pytest.raises(
        ValueError, match=r"at least one pair, got none; .*; line 1: no tab; line 2"
    ):
        read_pairs(saved(tmp_path, "a b\nc d\n"))
