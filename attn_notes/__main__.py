"""`python -m attn_notes`: the command line."""

import sys

from attn_notes.cli.commands import main

if __name__ == "__main__":
    sys.exit(main())
