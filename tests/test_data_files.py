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
@given(pairs=PAIRS, end=ENDS, closed=st.booleans())
def test_pairs_come_back_from_any_file(tmp_path, encoding, pairs, end, closed):
    lines = [f"{' '.join(source)}\t {' '.join(target)} \tCC-BY" for source, target in pairs]
    content = (end.join(lines) + (end if closed else "")).encode(encoding)
    assert read_pairs(saved(tmp_path, content), encoding=named(encoding)) == pairs


@ENCODINGS
@IN_ONE_FILE
@given(words=st.lists(TOKENS, min_size=1), end=ENDS)
def test_a_text_comes_back_from_any_file(tmp_path, encoding, words, end):
    content = f"  {end}{end.join(words)}{end}\x0b\u2028".encode(encoding)
    expected = "  \n" + "\n".join(words) + "\n\x0b\u2028"
    assert read_text(saved(tmp_path, content), encoding=named(encoding)) == expected


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
