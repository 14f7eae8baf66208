"""`python -m attn_notes.train`."""

import sys

from attn_notes.train.command import main

__all__ = []

if __name__ == "__main__":
    sys.exit(main())
