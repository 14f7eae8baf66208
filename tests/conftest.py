"""What every test runs under: the same examples on every run, and no window for figures.

And what several of them share: the reference library.
"""

import inspect
import os
import sys
from pathlib import Path

import pytest

os.environ.setdefault("MPLBACKEND", "agg")
sys.path.append(str(Path(__file__).parents[1] / "book" / "_ext"))  # where Sphinx finds its own

from hypothesis import HealthCheck, settings

# Derandomised: a test that passed keeps passing until the code changes.
settings.register_profile(
    "book",
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("quick", settings.get_profile("book"), max_examples=20)


def pytest_configure(config):
    """A run without the slow tests draws fewer examples of each property."""
    settings.load_profile("quick" if "not slow" in config.option.markexpr else "book")


@pytest.fixture(autouse=True)
def restored_settings():
    """A page's first cell chooses a device, and perhaps how numbers are printed: undo both."""
    yield
    if torch := sys.modules.get("torch"):
        torch.set_printoptions(profile="default")
        torch.set_default_device(None)


@pytest.fixture(scope="session")
def transformers():
    import transformers  # takes seconds to load, so only where it is asked for

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    return transformers


def pytest_collection_modifyitems(items):
    """Under mutmut, leave out what compiles: its switch between mutants cannot be traced."""
    if "MUTANT_UNDER_TEST" in os.environ:
        items[:] = [one for one in items if not compiles(one)]


def compiles(item):
    """Whether it is a test, and no example of a docstring, that calls torch.compile."""
    return isinstance(item, pytest.Function) and "torch.compile" in inspect.getsource(item.function)
