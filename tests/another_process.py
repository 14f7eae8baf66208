"""What a function of a test gives in a process of its own."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path


def assert_same_there(function: Callable[[], str]) -> None:
    """It gives the same under another hash seed; compared here, as pytest is slow at long texts."""
    code = f"from {function.__module__} import *; print({function.__name__}())"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONHASHSEED": "5", "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        check=True,
        cwd=Path(__file__).parents[1],
        encoding="utf-8",
    )
    assert run.stdout == function() + "\n", "another process gives something else"
