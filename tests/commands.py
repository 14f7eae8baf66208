"""What the command line says when it refuses: one line, and no traceback."""

import re

import pytest

from attn_notes.train.command import main


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    """What went to stderr."""
    said = capsys.readouterr().err
    assert re.fullmatch(r"attn_notes\.train[^\n]*\n", said), said
    assert "Traceback" not in said
    return said


def assert_wrong_option(capsys: pytest.CaptureFixture[str], options: str, words: str) -> None:
    """These options are refused before anything is done, as every command's are: status 2."""
    with pytest.raises(SystemExit) as caught:
        main(options.split())
    assert caught.value.code == 2
    assert words in one_line(capsys)
