"""Calls that a newer one replaces: a slow function must not keep a reader waiting."""

import ctypes
import threading
from collections.abc import Callable
from typing import Any

PATIENCE = 0.25  # seconds that a call may still take once a newer one waits


class _Cancelled(BaseException):
    """Raised inside a call that is no longer wanted; no `except Exception` there catches it."""


class LatestCall:
    """Runs one call at a time in a thread; of those that wait, only the newest is run."""

    def __init__(self) -> None:
        self._last: _Call | None = None

    def start(self, work: Callable[[], Any], publish: Callable[[Any], None]) -> None:
        """Pass the result of `work` to `publish`, unless a newer call starts in the meantime."""
        if self._last is not None:
            self._last.is_wanted = False
        self._last = _Call(self._last, work, publish)
        self._last.start()


class _Call(threading.Thread):
    def __init__(
        self, before: "_Call | None", work: Callable[[], Any], publish: Callable[[Any], None]
    ) -> None:
        super().__init__(daemon=True)
        self._before, self._work, self._publish = before, work, publish
        self._ending = threading.Lock()  # held by who publishes, ends or interrupts this call
        self._is_working, self._is_over, self.is_wanted = False, False, True

    def run(self) -> None:
        try:
            if self._before is not None:
                self._before.give_way()
                self._before = None  # or every call there ever was would be kept
            self._is_working = True
            if self.is_wanted:
                result = self._work()
                with self._ending:
                    self._publish(result)
        except _Cancelled:
            pass
        finally:
            with self._ending:
                self._is_over = True

    def give_way(self) -> None:
        """Wait for this call to end; after some patience, raise in it.

        Python code ends at its next line, an operation of torch when it is through.
        """
        self.join(PATIENCE)
        with self._ending:
            # One that only waits must live, to interrupt the call before it.
            if self._is_working and not self._is_over and self.ident is not None:
                ident, error = ctypes.c_ulong(self.ident), ctypes.py_object(_Cancelled)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, error)
        self.join()
