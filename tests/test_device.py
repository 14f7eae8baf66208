"""One place decides where tensors live, and the environment has the last word."""

import pytest
import torch

from attn_notes import get_device


@pytest.mark.parametrize(
    ("cuda", "mps", "expected"),
    [(False, False, "cpu"), (True, False, "cuda"), (False, True, "mps"), (True, True, "cuda")],
)
def test_the_best_device_is_chosen_where_none_is_forced(monkeypatch, cuda, mps, expected):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    monkeypatch.setenv("ATTN_NOTES_DEVICE", "  ")
    assert get_device() == torch.device(expected)
    monkeypatch.delenv("ATTN_NOTES_DEVICE")
    assert get_device() == torch.device(expected)


@pytest.mark.parametrize("name", ["cpu", " cpu ", "cpu:0", "meta"])
def test_the_environment_forces_a_device(monkeypatch, name):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setenv("ATTN_NOTES_DEVICE", name)
    assert get_device() == torch.device(name.strip())
    assert get_device("cpu") == torch.device("cpu")


# hpu and privateuseone make torch look for a module that is not there; xla, for a backend.
@pytest.mark.parametrize("name", ["gpu", "cpu:x", "0", "cuda:999", "hpu", "privateuseone", "xla"])
def test_a_device_that_is_not_there_is_named(monkeypatch, name):
    with pytest.raises(ValueError, match=f"^device must name a device.*got '{name}'"):
        get_device(name)
    monkeypatch.setenv("ATTN_NOTES_DEVICE", name)
    with pytest.raises(ValueError, match=f"ATTN_NOTES_DEVICE must name a device.*got '{name}'"):
        get_device()
