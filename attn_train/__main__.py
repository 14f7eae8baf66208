"""`python -m attn_train` and `attn-notes`: the command line."""

import sys

from attn_notes import __version__


def main(words: list[str] | None = None) -> int:
    """Run one command, by default that of the command line, and return its exit code."""
    words = sys.argv[1:] if words is None else words
    if words == ["--version"]:
        print(f"attn-notes {__version__}")
        return 0
    try:
        from attn_train import commands  # noqa: PLC0415, it needs more than torch
    except ModuleNotFoundError as error:
        print(f"attn-notes: {error}", file=sys.stderr)
        return 1
    return commands.main(words)


if __name__ == "__main__":
    raise SystemExit(main())
