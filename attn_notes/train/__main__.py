"""`python -m attn_notes.train`."""

import io
import os
import signal
import sys
from pathlib import Path

__all__ = []

if __name__ == "__main__":
    # What stdin holds that is no text is refused in its line, as on the command line; what the
    # encoding of stdout lacks is spelt out, as on stderr: after a night's training too.
    for name, mode, errors in (
        ("stdin", "r", "surrogateescape"),
        ("stdout", "w", "backslashreplace"),
        ("stderr", "w", "backslashreplace"),
    ):
        stream = getattr(sys, name)
        if stream is None:  # closed before the command began
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115, until it ends
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=errors)
    # Torch takes seconds to load; a Ctrl-C meanwhile would end in a long traceback, or get lost.
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        from attn_notes.train.command import main
        from attn_notes.train.stopping import leave

        signal.signal(signal.SIGINT, before)
        leave(main())
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        sys.exit(f"attn_notes.train: {error}; `python -m pip install {package}` brings it")
