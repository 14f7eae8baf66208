"""The command `translate`: each text on its own, whatever becomes of the others."""

import argparse
import re
import sys
from collections.abc import Iterable

from attn_notes.train.shared_options import the_device
from attn_notes.train.stopping import speak
from attn_notes.train.translator import Translator, load_translator

__all__ = ["translate"]


def translate(options: argparse.Namespace) -> int:
    """Print the translation of each text in a line, or of each line of stdin.

    A text that cannot be translated is named on stderr, by its number from 1, with the reason; an
    empty line stands in its place, as one does for an empty text.

    Args:
        options: as parsed.

    Returns:
        The exit code: 0, or 1 where a text could not be translated.

    Raises:
        OSError: a file that is not there or cannot be read.
        ValueError: a file that is not what it should be, a folder of another model, or a language
            that the model does not write.

    Example:
        >>> from attn_notes.train.command import main
        >>> main(["translate", "nowhere", "drei"])
        1
    """
    translator = load_translator(
        options.folder, weights=options.weights, device=the_device(options)
    )
    translator.settings.join((), to=options.to)  # known before the first text, or without one
    what, texts, code = ("text", options.text, 0) if options.text else ("line", _lines(), 0)
    for number, text in enumerate(texts, 1):
        try:
            said = _translation(translator, text, options)
        except (ValueError, RuntimeError) as refused:  # torch's, of a text beyond all memory
            speak(f"{what} {number}: {refused}")
            said, code = "", 1
        print(said, flush=True)
    return code


def _lines() -> Iterable[str]:
    if sys.stdin.isatty():
        print("a text a line; Ctrl-D ends", file=sys.stderr)
    return (line.removeprefix("\ufeff").rstrip("\r\n") for line in sys.stdin)


def _translation(translator: Translator, text: str, options: argparse.Namespace) -> str:
    """The translation; what the model does not know is said."""
    if not text.strip():
        return ""
    if bad := re.search("[\udc80-\udcff]", text):  # a byte that could not be decoded
        byte = f"byte 0x{ord(bad[0]) - 0xDC00:02x}"
        raise ValueError(f"{byte} is no text in the terminal's encoding")
    said = translator.translate(text, beam_size=options.beam_size, to=options.to)
    if unknown := translator.unknown(text):
        print(f"not known: {', '.join(map(repr, unknown))}", file=sys.stderr)
    return said
