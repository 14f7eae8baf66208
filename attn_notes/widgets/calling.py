"""Calls that a newer one replaces: a slow function must not keep a reader waiting."""

import ctypes
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

PATIENCE = 0.25  # seconds that a call may still take once a newer one waits


class LatestCall:
    """Runs one call at a time in a thread; of those that wait, only the newest is run."""

    def __init__(self) -> None:
        self._last: threading.Thread | None = None
        self._working: threading.Thread | None = None  # the one that may be interrupted
        self._lock = threading.Lock()  # held by who publishes, or interrupts

    def start(self, work: Callable[[], Any], publish: Callable[[Any], None]) -> None:
        """Pass the result of `work` to `publish`, unless a newer call starts in the meantime."""
        given = self._last, work, publish
        self._last = threading.Thread(target=self._run, args=given, daemon=True)
        self._last.start()

    def _run(
        self, before: threading.Thread | None, work: Callable[[], Any], publish: Callable[..., None]
    ) -> None:
        if before is not None:
            before.join(PATIENCE)
            self._interrupt(before)
            before.join()
        if (this := threading.current_thread()) is not self._last:
            return
        with suppress(SystemExit):
            self._working = this
            result = work()
            with self._lock:
                self._working = None
                publish(result)

    def _interrupt(self, thread: threading.Thread) -> None:
        """Raise in a thread at work what no `except Exception` catches.

        Python code ends at its next line, an operation of torch when it is through.
        """
        with self._lock:
            # One that only waits must live, to interrupt the one before it.
            if thread is self._working and thread.is_alive():
                ident, error = ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, error)
