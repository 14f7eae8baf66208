"""One place decides where tensors live, and the environment has the last word."""

import pytest
import torch

from attn_notes import get_device


@pytest.fixture(autouse=True)
def no_choice(monkeypatch):
    monkeypatch.delenv("ATTN_NOTES_DEVICE", raising=False)


def have(monkeypatch, *, cuda: bool, mps: bool) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)


@pytest.mark.parametrize(
    ("cuda", "mps", "expected"),
    [(False, False, "cpu"), (True, False, "cuda"), (False, True, "mps"), (True, True, "cuda")],
)
def test_the_best_device_is_chosen(monkeypatch, cuda, mps, expected):
    have(monkeypatch, cuda=cuda, mps=mps)
    assert get_device() == torch.device(expected)


@pytest.mark.parametrize("name", ["cpu", " cpu ", "cpu:0"])
def test_the_environment_forces_a_device(monkeypatch, name):
    have(monkeypatch, cuda=True, mps=True)
    monkeypatch.setenv("ATTN_NOTES_DEVICE", name)
    assert get_device() == torch.device(name.strip())


@pytest.mark.parametrize("name", ["", "  "])
def test_an_empty_choice_is_no_choice(monkeypatch, name):
    have(monkeypatch, cuda=False, mps=False)
    monkeypatch.setenv("ATTN_NOTES_DEVICE", name)
    assert get_device() == torch.device("cpu")


def test_tensors_go_where_the_environment_says(monkeypatch):
    monkeypatch.setenv("ATTN_NOTES_DEVICE", "meta")
    assert torch.zeros(2, device=get_device()).is_meta


# hpu and privateuseone make torch look for a module that is not there; xla, for a backend.
@pytest.mark.parametrize("name", ["gpu", "cpu:x", "0", "cuda:999", "hpu", "privateuseone", "xla"])
def test_a_device_that_is_not_there_is_named(monkeypatch, name):
    monkeypatch.setenv("ATTN_NOTES_DEVICE", name)
    with pytest.raises(ValueError, match=f"ATTN_NOTES_DEVICE must name a device.*got '{name}'"):
        get_device()
