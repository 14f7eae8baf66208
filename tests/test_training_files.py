"""A file is the old one or the new one, whole, whatever happens; what is damaged is refused."""

import copy
import errno
import os
import re
import resource
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import nn

from attn_notes.stored import load_weights
from attn_train import files

STATE = {
    "tensor": torch.arange(6.0).view(2, 3),
    "half": torch.ones(2, dtype=torch.bfloat16),
    "losses": [2.5, 1.25],
    "settings": {"seed": 0, "device": "cpu", "rate": None},
}


def equal(one, other) -> bool:
    """Whether two states hold the same, bit for bit."""
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[k], other[k]) for k in one)
    return one == other


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


class Tied(nn.Module):
    """Two names for one tensor, a transposed one, and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(3, 2)
        self.out_proj = nn.Linear(2, 3)
        self.out_proj.weight = self.embedding.weight
        self.turned = nn.Parameter(torch.randn(4, 5).t())
        self.register_buffer("steps", torch.tensor(7))


def test_what_was_saved_is_loaded(tmp_path):
    files.save_checkpoint(tmp_path / "c.pt", STATE)
    assert equal(files.load_checkpoint(tmp_path / "c.pt"), STATE)
    torch.manual_seed(0)
    one, other = Tied(), Tied()
    files.save_weights(tmp_path / "w", one)
    load_weights(str(tmp_path / "w"), other)
    assert equal(one.state_dict(), other.state_dict())
    assert other.out_proj.weight is other.embedding.weight
    assert names(tmp_path) == {"c.pt", "w"}


@pytest.fixture
def file_limit():
    """No file of this process may exceed 4096 bytes: the system itself refuses, as a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize(
    "write",
    [
        lambda path, n: files.save_checkpoint(path, {"x": torch.arange(n)}),
        lambda path, n: files.save_weights(path, nn.Embedding(n, 2)),
        lambda path, n: files.write_atomic(path, bytes(n)),
    ],
)
def test_the_old_file_stays_whole_when_the_new_one_does_not_fit(tmp_path, file_limit, write):
    write(tmp_path / "file", 5)
    before = contents(tmp_path)
    with pytest.raises(OSError, match=r"cannot write .*file: File too large") as caught:
        write(tmp_path / "file", 9000)
    assert caught.value.errno == errno.EFBIG
    assert contents(tmp_path) == before


def a_checkpoint(path: Path):
    files.save_checkpoint(path, STATE)
    return files.load_checkpoint


def weights(path: Path):
    files.save_weights(path, nn.Linear(5, 7))
    return lambda path: load_weights(path, nn.Linear(5, 7))


@pytest.mark.slow
@pytest.mark.parametrize("write", [a_checkpoint, weights])
def test_a_part_or_a_flipped_bit_anywhere_is_refused_by_the_name_of_the_file(tmp_path, write):
    path = tmp_path / "file"
    load = write(path)
    whole = path.read_bytes()
    damaged = [whole[:at] for at in range(0, len(whole), 83)]
    for at in range(len(whole)):
        damaged.append(bytearray(whole))
        damaged[-1][at] ^= 1 << at % 8
    for content in damaged:
        path.write_bytes(content)
        with pytest.raises(ValueError, match=re.escape(str(path))):
            load(path)
    path.write_bytes(whole)
    load(path)


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}])
def test_weights_without_a_digest_are_loaded(tmp_path, metadata):
    """As published files are, and those that this package wrote at first."""
    one, other = nn.Linear(5, 7), nn.Linear(5, 7)
    safetensors.torch.save_file(one.state_dict(), tmp_path / "w", metadata=metadata)
    load_weights(tmp_path / "w", other)
    assert equal(one.state_dict(), other.state_dict())


def test_writers_of_one_file_at_once_all_succeed(tmp_path):
    """Each writes its own content many times; the file is one of them at the end."""
    contents = [bytes([n]) * 100_000 for n in range(4)]
    with ThreadPoolExecutor(4) as pool:
        written = [
            pool.submit(files.write_atomic, tmp_path / "file", content) for content in contents * 8
        ]
    assert [each.exception() for each in written] == [None] * 32
    assert (tmp_path / "file").read_bytes() in contents
    assert names(tmp_path) == {"file"}


def test_what_killed_writers_left_goes_once_it_is_old(tmp_path):
    old, young, other = (tmp_path / f".{name}.part" for name in ("file.a", "file.b", "another.a"))
    for path in (old, young, other):
        path.write_bytes(b"half a fi")
    for path in (old, other):
        os.utime(path, (0, 0))
    files.write_atomic(tmp_path / "file", b"whole")
    assert names(tmp_path) == {"file", young.name, other.name}


def test_a_checkpoint_cannot_run_code(tmp_path):
    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "sprung"),)

    files.save_checkpoint(tmp_path / "c.pt", Trap())
    with pytest.raises(ValueError, match="must be a complete checkpoint"):
        files.load_checkpoint(tmp_path / "c.pt")
    assert names(tmp_path) == {"c.pt"}


@pytest.mark.parametrize(
    ("there", "words"),
    [
        (nn.Linear(2, 5), r"w: weight must have shape \(3, 2\), got \(5, 2\)"),
        (nn.Linear(2, 3, bias=False), "w: bias is missing"),
        (nn.Sequential(nn.Linear(2, 3)), r"w: 0\.bias is an unexpected"),
    ],
)
def test_weights_of_another_model_are_refused_by_name_and_change_nothing(tmp_path, there, words):
    model = nn.Linear(2, 3)
    before = copy.deepcopy(model.state_dict())
    files.save_weights(tmp_path / "w", there)
    with pytest.raises(ValueError, match=words):
        load_weights(tmp_path / "w", model)
    assert equal(model.state_dict(), before)
