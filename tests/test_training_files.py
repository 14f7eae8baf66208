"""A file is the old one or the new one, whole, whatever happens; what is damaged is refused."""

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
    other.load_state_dict(safetensors.torch.load_file(tmp_path / "w"))
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


@pytest.mark.slow
def test_a_part_or_a_flipped_bit_anywhere_is_refused_by_the_name_of_the_file(tmp_path):
    path = tmp_path / "file"
    files.save_checkpoint(path, STATE)
    whole = path.read_bytes()
    damaged = [whole[:at] for at in range(0, len(whole), 83)]
    for at in range(len(whole)):
        damaged.append(bytearray(whole))
        damaged[-1][at] ^= 1 << at % 8
    for content in damaged:
        path.write_bytes(content)
        with pytest.raises(ValueError, match=re.escape(str(path))):
            files.load_checkpoint(path)
    path.write_bytes(whole)
    files.load_checkpoint(path)


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
