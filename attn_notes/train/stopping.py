"""A training that is told to stop: by a cluster, by torchrun, by whoever ends its process."""

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attn_notes.training import load_checkpoint
from attn_notes.training.distributed import first_to, world

__all__ = ["Stop", "Unfinished", "going_on", "leave", "listening", "speak"]

GRACE = 20.0  # seconds for the step that is under way; torchrun and Slurm wait for 30 and kill


class Unfinished(RuntimeError):
    """A training that ended before its last step.

    Args:
        message: what happened, and how to go on.
        code: for the command to exit with.
    """

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Stop:
    """Whether this process was told to stop: to be asked between two steps.

    Example:
        >>> Stop()()
        False
    """

    def __init__(self) -> None:
        self.signal = 0

    def __call__(self) -> bool:
        """Ask.

        Returns:
            Whether a signal has come.
        """
        return self.signal != 0

    @property
    def code(self) -> int:
        """The exit code: as a shell has it for the signal, or for what another process got."""
        return 128 + (self.signal or signal.SIGTERM)


@contextmanager
def listening(last_words: Callable[[], str]) -> Iterator[Stop]:
    """Inside, SIGTERM is a request to stop; of several processes Ctrl-C is one too.

    A thread hears it, for Python's own handlers wait for the main thread, and that may wait for a
    process that is gone. If the training does not end in time, the thread ends it. Of several
    processes, one that leaves with `Unfinished` is deaf from then on: torchrun tells all to stop
    as soon as the first has ended, and would cut off the last words of the others.

    Args:
        last_words: what is then said; called from the thread.

    Returns:
        A context that gives what is to be asked.

    Example:
        >>> with listening(lambda: "") as stop:
        ...     stop()
        False
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop  # no signal comes here
        return
    kinds = (signal.SIGTERM, signal.SIGINT)[: 1 if world() == 1 else 2]
    over = threading.Event()
    hearing, telling = socket.socketpair()
    telling.setblocking(False)
    old_descriptor = signal.set_wakeup_fd(telling.fileno(), warn_on_full_buffer=False)
    before: dict[signal.Signals, Any] = {n: signal.signal(n, lambda *_: None) for n in kinds}
    thread = threading.Thread(target=_hear, args=(hearing, kinds, stop, over, last_words))
    thread.daemon = True
    thread.start()
    try:
        yield stop
    except Unfinished:
        if world() > 1:
            before = dict.fromkeys(kinds, signal.SIG_IGN)
        raise
    finally:
        over.set()
        for kind, handler in before.items():
            signal.signal(kind, handler)
        signal.set_wakeup_fd(old_descriptor)
        telling.close()
        thread.join()
        hearing.close()


def _hear(
    hearing: socket.socket,
    kinds: tuple[signal.Signals, ...],
    stop: Stop,
    over: threading.Event,
    last_words: Callable[[], str],
) -> None:
    """The thread: Python writes the number of every signal into the other end."""
    while number := hearing.recv(1):  # nothing comes where the other end is closed
        if number[0] in kinds:
            stop.signal = number[0]
            break
    if stop() and not over.wait(GRACE):
        speak(last_words())
        os._exit(stop.code)


def going_on(path: Path) -> str:
    """How a training goes on.

    Args:
        path: of its checkpoint.

    Returns:
        What the checkpoint holds, as read from it, and what to do.

    Example:
        >>> going_on(Path("nowhere.pt"))
        'nowhere.pt cannot be read'
    """
    try:
        done = len(load_checkpoint(path)["losses"])
    except (OSError, ValueError):
        return f"{path} cannot be read"
    return f"{path} holds {done} steps; the same command goes on from there"


def speak(message: str) -> None:
    """Say what went wrong, in one line; of several processes, the first to have something to say.

    Args:
        message: the line; where it has several, they are joined.

    Example:
        >>> speak("all is lost")
    """
    if first_to("speak"):
        print(f"attn_notes.train: {' '.join(message.split())}", file=sys.stderr, flush=True)


def leave(code: int) -> None:
    """End this process, at once where others that it was in a group with may be gone.

    Args:
        code: the exit code.

    Raises:
        SystemExit: where it is alone, or has left the group.

    Example:
        >>> leave(0)
        Traceback (most recent call last):
        SystemExit: 0
    """
    if world() > 1:  # what is tidied up when Python ends could wait for them
        sys.stdout.flush()
        os._exit(code)
    raise SystemExit(code)
