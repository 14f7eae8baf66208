r"""The reader's own file: every pair of it, and of every other line the reason."""

import os
import re
import threading
import tracemalloc
from itertools import product
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attn_notes.data import Corpus, read_pairs
from attn_notes.data.corpus import _LONGEST_LINE

# No white space, no control character, no half of a pair, no byte order mark.
TOKENS = st.text(
    st.characters(exclude_categories=("Cc", "Cs", "Zs", "Zl", "Zp"), exclude_characters="\ufeff"),
    min_size=1,
    max_size=6,
)
SIDES = st.lists(TOKENS, min_size=1, max_size=5).map(tuple)
PAIRS = st.lists(st.tuples(SIDES, SIDES), min_size=1, max_size=8)
IN_ONE_FILE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])

# (how a file may be encoded, what to tell read_pairs)
ENCODINGS = [
    ("utf-8", None),
    ("utf-8-sig", None),
    ("utf-16", None),  # with a byte order mark, as Notepad saves it
    ("utf-32", None),
    ("utf-8", "utf-8"),
    ("utf-8-sig", "utf-8"),
    ("utf-8-sig", "utf-8-sig"),
    ("utf-16-le", "utf-16-le"),
    ("utf-16-be", "utf-16-be"),
]


def read(folder: Path, text: str | bytes, **options) -> Corpus:
    """What `read_pairs` makes of a file that holds exactly this."""
    path = folder / "own.tsv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_pairs(path, **options)


def read_warned(folder: Path, text: str | bytes, **options) -> Corpus:
    with pytest.warns(UserWarning, match="skipped: ") as caught:
        corpus = read(folder, text, **options)
    assert [str(warning.message) for warning in caught] == [str(corpus)]
    assert caught[0].filename == __file__  # it points at the caller
    return corpus


@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda pair: f"{pair[0]},{pair[1]}")
@IN_ONE_FILE
@given(
    pairs=PAIRS, end=st.sampled_from(["\n", "\r\n", "\r"]), third=st.sampled_from(["", "\tCC-BY"])
)
def test_pairs_come_back_from_any_file_that_holds_them(tmp_path, encoding, pairs, end, third):
    text = end.join(f"{' '.join(source)}\t {' '.join(target)} {third}" for source, target in pairs)
    for closed, strict in product(["", end], [False, True]):
        content = (text + closed).encode(encoding[0])
        corpus = read(tmp_path, content, encoding=encoding[1], strict=strict)
        assert corpus.pairs == pairs
        assert corpus.skipped == []


@pytest.mark.parametrize("width", [16, 32])
@pytest.mark.parametrize("order", ["le", "be"])
def test_a_byte_order_mark_says_how_wide_a_character_is_and_which_byte_is_first(
    tmp_path, width, order
):
    content = "\ufeffgrün\tgreen\n".encode(f"utf-{width}-{order}")
    assert read(tmp_path, content).pairs == [(("grün",), ("green",))]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("no tab here", "no tab"),
        ("\tnothing to read", "an empty side"),
        ("nothing to write\t", "an empty side"),
        (" \t ", "an empty side"),
        ("\t", "an empty side"),
        ("nul\0\tin it", "a NUL character"),
        ("nul\tin\0it", "a NUL character"),
        ("a b c d\te", "more than 3 tokens"),
        ("a\tb c d e", "more than 3 tokens"),
        ("a" * _LONGEST_LINE + "\tb", "more than 100,000 characters"),
        ("a " * _LONGEST_LINE + "\tb", "more than 100,000 characters"),
        ("a" * 10 * _LONGEST_LINE, "more than 100,000 characters"),
    ],
    ids=lambda text: text[:12].replace("\0", "0").replace(" ", "_"),
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_line_that_is_no_pair_is_skipped_with_its_reason(tmp_path, line, reason, end):
    text = end.join(["a\tb", line, "c d e\tf g h", ""])
    corpus = read_warned(tmp_path, text, max_length=3)
    assert corpus.pairs == [(("a",), ("b",)), (("c", "d", "e"), ("f", "g", "h"))]
    assert corpus.skipped == [(2, reason)]
    assert str(corpus) == (
        f"{tmp_path / 'own.tsv'}: 2 pairs kept, 1 line skipped: {reason} (line 2)"
    )
    with pytest.raises(ValueError, match=re.escape(f"own.tsv:2: {reason}")):
        read(tmp_path, text, max_length=3, strict=True)


def test_a_line_as_long_as_a_line_may_be_is_read(tmp_path):
    line = "a" * (_LONGEST_LINE - 2) + "\tb"
    assert len(line) == _LONGEST_LINE
    for mark, end, more in product(["", "\ufeff"], ["\n", "\r\n"], ["c\td\n", ""]):
        assert read(tmp_path, mark + line + end + more).skipped == []
        assert read(tmp_path, more + mark + line).skipped == []
        corpus = read_warned(tmp_path, f"{mark}a{line}{end}c\td\n")
        assert corpus.pairs == [(("c",), ("d",))]


def test_blank_lines_are_no_mistake_but_keep_their_number(tmp_path):
    corpus = read_warned(tmp_path, "\n\na\tb\n   \n\r\nwrong\nc\td\n\n")
    assert corpus.skipped == [(6, "no tab")]
    assert len(corpus.pairs) == 2
    assert read(tmp_path, "\ufeff\n\na\tb\n\n", strict=True).pairs == [(("a",), ("b",))]


def test_the_summary_counts_each_reason_and_names_the_first_lines(tmp_path):
    lines = ["x"] * 8 + ["a\tb"] + ["y\t"] * 2
    corpus = read_warned(tmp_path, "\n".join(lines))
    assert str(corpus).endswith(
        ": 1 pair kept, 10 lines skipped: no tab (lines 1, 2, 3, 4, 5 and 3 more); "
        "an empty side (lines 10, 11)"
    )


def test_a_file_without_a_mistake_has_a_summary_too(tmp_path):
    assert str(read(tmp_path, "a\tb\n")) == f"{tmp_path / 'own.tsv'}: 1 pair kept, 0 lines skipped"


def test_any_white_space_parts_tokens_and_only_the_end_of_a_line_parts_lines(tmp_path):
    text = "Wie\u00a0geht  es\u202f?\tHow\u2028is\x0bit\x85?\n"
    assert read(tmp_path, text).pairs == [(("Wie", "geht", "es", "?"), ("How", "is", "it", "?"))]


def test_a_file_of_utf_16_without_its_mark_is_full_of_nul_characters(tmp_path):
    with pytest.raises(ValueError, match="0 pairs kept, 1 line skipped: a NUL character") as caught:
        read(tmp_path, "a\tb".encode("utf-16-le"))
    assert "if the file is written in another encoding, name it: utf-16-le" in str(caught.value)


def test_a_mark_before_a_later_line_is_of_a_file_that_was_appended(tmp_path):
    one, other = (text.encode("utf-8-sig") for text in ("a\tb\n", "c d\te\n"))
    corpus = read(tmp_path, one + other)
    assert corpus.pairs == [(("a",), ("b",)), (("c", "d"), ("e",))]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_pipe_is_read_once_and_whole(tmp_path, encoding):
    os.mkfifo(tmp_path / "pipe")
    content = "".join(f"grün {n}\tgreen {n}\n" for n in range(3000)).encode(encoding)
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(content,), daemon=True)
    writer.start()
    corpus = read_pairs(tmp_path / "pipe")
    writer.join(timeout=10)
    assert not writer.is_alive()
    assert len(corpus.pairs) == 3000
    assert corpus.pairs[0] == (("grün", "0"), ("green", "0"))


@pytest.mark.parametrize(
    ("content", "encoding", "line", "words"),
    [
        (b"a\tb\nc\t\xfc\n", None, 2, "byte 0xfc is no text in utf-8"),
        (b"\xff\tb\n", None, 1, "byte 0xff is no text in utf-8"),
        (b"\xef\xbb\xbfa\tb\r\n\xe4\tb\r\n", None, 2, "byte 0xe4 is no text in utf-8"),
        (b"a\tb\r\n" * 20_000 + b"c\td\xe4e\n" + b"e\tf\n" * 9, None, 20_001, "byte 0xe4"),
        (b"a\tb\n\n\n\xc3", None, 4, "byte 0xc3"),  # half a character at the end
        (b"a\t\xed\xa0\x80\n", None, 1, "byte 0xed"),  # half a surrogate pair, spelt out
        ("a\tb\nc\td\n".encode("utf-16") + b"x", None, 3, "is no text in utf-16"),
        ("a\tb\n".encode("utf-16") + b"\x00\xdc\x61\x00", None, 2, "is no text in utf-16"),
        ("ä\tb\n".encode("latin-1"), "ascii", 1, "byte 0xe4 is no text in ascii"),
        (b"a\tb\nc\t\x81\n", "cp1252", 2, "byte 0x81 is no text in cp1252"),
        (b"a\tb\nc\t+2AA-\n", "utf-7", 2, "U+D800 is no character in utf-7"),
        (b"a\t\\udbff\n", "raw_unicode_escape", 1, "U+DBFF is no character in raw_unicode_escape"),
        (b"a\t\xfc\n", None, 1, "if the file is written in another encoding, name it"),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_byte_that_is_no_text_is_named_with_its_line(tmp_path, content, encoding, line, words):
    for strict in (False, True):
        with pytest.raises(ValueError, match=re.escape(words)) as caught:
            read(tmp_path, content, encoding=encoding, strict=strict)
        assert f"own.tsv:{line}: " in str(caught.value)
        assert "\n" not in str(caught.value)


def test_the_lines_of_the_file_are_counted_and_not_the_pieces_they_are_read_in(tmp_path):
    content = b"a\tb\n" + b"x" * 10 * _LONGEST_LINE + b"\nc\xff\td"
    with pytest.raises(ValueError, match=r"own\.tsv:3: byte 0xff"):
        read(tmp_path, content)


def test_the_same_bytes_can_be_read_when_their_encoding_is_told(tmp_path):
    content = "Bäume\tarbres d'été\n".encode("latin-1")
    assert read(tmp_path, content, encoding="latin-1").pairs == [(("Bäume",), ("arbres", "d'été"))]


@pytest.mark.parametrize("content", [b"", b"\n\n \r\n", b"\xef\xbb\xbf", b"\xff\xfe"])
def test_a_file_without_text_is_refused(tmp_path, content):
    with pytest.raises(ValueError, match=r"own.tsv: no pair, for no line holds any text"):
        read(tmp_path, content)


def test_a_file_without_a_single_pair_is_refused_with_its_summary(tmp_path):
    with pytest.raises(ValueError, match=r"0 pairs kept, 2 lines skipped: no tab \(lines 1, 2\)"):
        read(tmp_path, "a b\nc d\n")


def test_a_line_of_a_hundred_megabytes_is_passed_over_in_little_memory(tmp_path):
    path = tmp_path / "long.tsv"
    with path.open("wb") as file:
        file.write(b"a\tb\n")
        file.seek(100_000_000)
        file.write(b"\nc\td\n")
    tracemalloc.start()
    with pytest.warns(UserWarning, match="1 line skipped: more than 100,000 characters"):
        corpus = read_pairs(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(corpus.pairs) == 2
    assert peak < 5_000_000


def test_a_path_may_be_a_string_and_a_corpus_can_not_be_changed(tmp_path):
    (tmp_path / "own.tsv").write_text("a\tb\n")
    corpus = read_pairs(str(tmp_path / "own.tsv"))
    assert corpus.path == tmp_path / "own.tsv"
    with pytest.raises(AttributeError):
        corpus.pairs = []
