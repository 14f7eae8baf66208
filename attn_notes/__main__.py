"""`python -m attn_notes`: the command line."""

from attn_notes.cli.commands import main

if __name__ == "__main__":
    raise SystemExit(main())
