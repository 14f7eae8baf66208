"""What every test runs under: the same examples on every run, and no window for figures.

And what several of them share: the reference library, and a hub on this machine.
"""

import os
from functools import partial
from pathlib import Path

import pytest

os.environ.setdefault("MPLBACKEND", "agg")

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
settings.load_profile("book")


@pytest.fixture(scope="session")
def transformers():
    import transformers  # takes seconds to load, so only where it is asked for

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    return transformers


@pytest.fixture
def hub_of(monkeypatch, tmp_path_factory):
    """Point downloads at an address, with an empty cache."""
    import huggingface_hub

    def point(address: str, **keywords) -> Path:
        cache = tmp_path_factory.mktemp("cache")
        download = partial(
            huggingface_hub.snapshot_download, endpoint=address, cache_dir=cache, **keywords
        )
        monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
        return cache

    return point
