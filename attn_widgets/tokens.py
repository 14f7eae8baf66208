"""Tokens as a reader would write them: what tokenizers of published models add is taken off."""

import re
from collections.abc import Sequence

SPACE = "␣"
LOOKS_SPECIAL = re.compile(r"\[(CLS|SEP|PAD)\]|<\|.+\|>|</?s>|<(pad|bos|eos|cls|sep|start|end)>")

# The byte that each letter of a byte-level vocabulary stands for (Radford et al., 2019): printable
# ones stand for themselves, the others for the letters from U+0100 on, so that a space is "Ġ".
_PRINTABLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
_OTHERS = [byte for byte in range(256) if byte not in _PRINTABLE]
BYTES = {chr(byte): byte for byte in _PRINTABLE}
BYTES |= {chr(256 + n): byte for n, byte in enumerate(_OTHERS)}


def special_among(tokens: Sequence[str]) -> list[str]:
    """The tokens that look like those which models add to a text, such as `[CLS]` and `</s>`."""
    return [token for token in dict.fromkeys(tokens) if LOOKS_SPECIAL.fullmatch(token)]


def readable(
    tokens: Sequence[str], special: Sequence[str], *, byte_level: bool | None = None
) -> list[str]:
    r"""Each token as text, with `␣` for a space before it; special tokens stay as they are.

    The letters of a byte-level vocabulary become the characters that they encode, where a token
    holds whole ones, else bytes such as `\xe4`. Where it is not said, tokens that begin with the
    letter for a space say so. The `▁` of SentencePiece is a space; the `##` of WordPiece stays.
    """
    plain = [token for token in tokens if token not in special]
    if byte_level is None:
        spaced = any(token[:1] in ("Ġ", "Ċ") for token in plain)
        byte_level = spaced and set().union(*plain) <= set(BYTES)
    texts = []
    for token in tokens:
        text = _decode(token) if byte_level and token not in special else token.replace("▁", " ")
        body = text.lstrip(" ")
        texts.append(SPACE * (len(text) - len(body)) + body)
    return texts


def _decode(token: str) -> str:
    if not set(token) <= set(BYTES):  # a word that was added to the vocabulary as it is
        return token
    data = bytes(BYTES[letter] for letter in token)
    try:
        return data.decode()
    except UnicodeDecodeError:  # a part of a character
        return "".join(chr(byte) if 32 <= byte < 127 else f"\\x{byte:02x}" for byte in data)
