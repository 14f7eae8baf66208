"""A file is the old one or the new one, whole, whatever happens; and what is damaged is refused."""

import errno
import hashlib
import io
import os
import resource
import signal
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from attn_notes.training import (
    check_tensors,
    load_checkpoint,
    load_weights,
    save_checkpoint,
    save_weights,
    write_whole,
)
from attn_notes.training.checkpoints import MAGIC

STATE = {
    "tensor": torch.arange(6.0).view(2, 3),
    "half": torch.ones(2, dtype=torch.bfloat16),
    "random": torch.get_rng_state()[:40],
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


class Tied(nn.Module):
    """Two names for one tensor, a transposed one, and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(3, 2)
        self.out_proj = nn.Linear(2, 3)
        self.out_proj.weight = self.embedding.weight
        self.turned = nn.Parameter(torch.randn(4, 5).t())
        self.register_buffer("steps", torch.tensor(7))


# Whole files


def test_what_was_saved_is_loaded(tmp_path):
    save_checkpoint(tmp_path / "c.pt", STATE)
    assert equal(load_checkpoint(tmp_path / "c.pt"), STATE)
    assert names(tmp_path) == {"c.pt"}


def test_the_weights_of_a_model_go_into_another(tmp_path):
    torch.manual_seed(0)
    one, other = Tied(), Tied()
    save_weights(tmp_path / "w.safetensors", one, {"what": "a ≥ test", "steps": "3"})
    assert load_weights(str(tmp_path / "w.safetensors"), other) == {
        "what": "a ≥ test",
        "steps": "3",
    }
    assert equal(one.state_dict(), other.state_dict())
    assert other.out_proj.weight is other.embedding.weight
    save_weights(tmp_path / "w.safetensors", one)
    assert load_weights(tmp_path / "w.safetensors", other) == {}


@given(old=st.binary(max_size=50), new=st.binary(max_size=50))
def test_a_file_is_replaced_by_what_is_written(tmp_path_factory, old, new):
    path = tmp_path_factory.mktemp("whole") / "file"
    write_whole(path, old)
    write_whole(str(path), new)
    assert path.read_bytes() == new
    assert names(path.parent) == {"file"}


def a_dead_process() -> int:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return pid


def test_what_a_killed_process_left_is_cleaned_away_and_nothing_else(tmp_path):
    dead, beyond = a_dead_process(), 10**30
    left = (f".d.pt.{dead}.part", f".cxpt.{dead}.part", "c.pt.part", ".c.pt.x.part")
    for name in (f".c.pt.{dead}.part", f".c.pt.{beyond}.part", *left):
        (tmp_path / name).write_bytes(b"half")
    write_whole(tmp_path / "c.pt", b"whole")
    assert names(tmp_path) == {"c.pt", *left}


@pytest.mark.parametrize("process", [1, os.getppid()])  # the first is another user's, or ours
def test_what_a_living_process_is_writing_is_left_to_it(tmp_path, process):
    part = tmp_path / f".c.pt.{process}.part"
    part.write_bytes(b"half")
    write_whole(tmp_path / "c.pt", b"whole")
    assert part.read_bytes() == b"half"


def test_another_users_process_lives_and_windows_is_not_asked(tmp_path, monkeypatch):
    part = tmp_path / f".c.pt.{os.getppid()}.part"
    part.write_bytes(b"half")

    def forbidden(*arguments, **keywords):
        raise PermissionError

    monkeypatch.setattr(os, "kill", forbidden)
    write_whole(tmp_path / "c.pt", b"whole")
    assert part.exists()
    monkeypatch.setattr("attn_notes.training.checkpoints._is_alive", lambda process: False)
    monkeypatch.setattr(Path, "unlink", forbidden)
    write_whole(tmp_path / "c.pt", b"whole")
    assert part.exists()


def test_a_reader_never_sees_a_part(tmp_path, monkeypatch):
    """Looked at in the moments when a kill would hurt: before the data is down, and after."""
    path, seen = tmp_path / "c.pt", []
    write_whole(path, b"old")
    fsync, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (seen.append(path.read_bytes()), fsync(fd)))

    def watched(self, target):
        seen.append((self.read_bytes(), path.read_bytes()))
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", watched)
    write_whole(path, b"new")
    assert seen == [b"old", (b"new", b"old")]  # pressed to the disk before it gets the name
    assert path.read_bytes() == b"new"


# A disk that is full, a folder that cannot be written


@pytest.fixture
def file_limit():
    """No file of this process may grow beyond 4096 bytes: the system itself refuses."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize(
    ("write", "read"),
    [
        (
            lambda p, n: save_checkpoint(p, {"x": torch.arange(n)}),
            lambda p: load_checkpoint(p)["x"],
        ),
        (lambda p, n: save_weights(p, nn.Embedding(n, 2)), lambda p: p.read_bytes()),
        (lambda p, n: write_whole(p, bytes(n)), lambda p: p.read_bytes()),
    ],
)
def test_the_old_file_stays_whole_when_the_new_one_does_not_fit(tmp_path, file_limit, write, read):
    path = tmp_path / "file"
    write(path, 5)
    before = read(path)
    with pytest.raises(OSError, match=r"cannot write .*file: File too large") as caught:
        write(path, 9000)
    assert caught.value.errno == errno.EFBIG
    assert equal({"x": read(path)}, {"x": before})
    assert names(tmp_path) == {"file"}


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "folder" / "within").mkdir(parents=True)
    for path in (tmp_path / "file" / "c.pt", tmp_path / "missing" / "c.pt", tmp_path / "folder"):
        with pytest.raises(OSError, match=f"cannot write {path}: "):
            save_checkpoint(path, STATE)
    assert names(tmp_path) == {"file", "folder"}


# Damage


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "c.pt"
    save_checkpoint(path, STATE)
    return path.read_bytes()


def test_a_checkpoint_that_was_cut_off_is_refused_wherever_the_cut(tmp_path, saved):
    path = tmp_path / "c.pt"
    for length in (*range(0, len(saved), 83), len(MAGIC), len(MAGIC) + 32, len(saved) - 1):
        path.write_bytes(saved[:length])
        with pytest.raises(ValueError, match=r"c\.pt must be a (whole )?checkpoint"):
            load_checkpoint(path)


@given(position=st.integers(0), bit=st.integers(0, 7))
def test_a_checkpoint_with_one_bit_changed_is_refused(tmp_path_factory, saved, position, bit):
    damaged = bytearray(saved)
    damaged[position % len(saved)] ^= 1 << bit
    path = tmp_path_factory.mktemp("damaged") / "c.pt"
    path.write_bytes(damaged)
    with pytest.raises(ValueError, match="must be a"):
        load_checkpoint(path)


def foreign(kind: str) -> bytes:
    buffer = io.BytesIO()
    torch.save({"a": torch.ones(2)}, buffer)
    return {"nothing": b"", "text": b"no checkpoint", "torch": buffer.getvalue()}[kind]


@pytest.mark.parametrize("kind", ["nothing", "text", "torch"])
def test_another_kind_of_file_is_refused(tmp_path, kind):
    path = tmp_path / "file"
    path.write_bytes(foreign(kind))
    with pytest.raises(ValueError, match="must be a checkpoint of attn_notes"):
        load_checkpoint(path)
    model = nn.Linear(2, 3)
    with pytest.raises(ValueError, match="must be a whole safetensors file"):
        load_weights(path, model)


@pytest.mark.parametrize(
    "load", [load_checkpoint, lambda path: load_weights(path, nn.Linear(1, 1))]
)
def test_a_file_that_is_not_there_has_pythons_own_error(tmp_path, load):
    with pytest.raises(FileNotFoundError, match="missing"):
        load(tmp_path / "missing")
    with pytest.raises(IsADirectoryError):
        load(tmp_path)


def test_a_checkpoint_cannot_run_code(tmp_path):
    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "sprung"),)

    buffer = io.BytesIO()
    torch.save(Trap(), buffer)
    data = buffer.getvalue()
    path = tmp_path / "c.pt"
    path.write_bytes(MAGIC + hashlib.sha256(data).digest() + data)
    with pytest.raises(
        ValueError, match=r"c\.pt must hold tensors, numbers and strings, got other"
    ):
        load_checkpoint(path)
    assert names(tmp_path) == {"c.pt"}


def test_weights_that_were_cut_off_are_refused_and_change_nothing(tmp_path):
    path, model = tmp_path / "w.safetensors", Tied()
    save_weights(path, model)
    whole, before = path.read_bytes(), {k: v.clone() for k, v in model.state_dict().items()}
    for length in range(0, len(whole), 41):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="must be a whole safetensors file"):
            load_weights(path, model)
    assert equal(model.state_dict(), before)


@pytest.mark.parametrize(
    ("there", "words"),
    [
        (nn.Linear(2, 5), r"w: weight must have shape \(3, 2\), got \(5, 2\)"),
        (nn.Linear(2, 3, bias=False), "w: bias must be there, and is missing"),
        (nn.ModuleDict({"weight": nn.Linear(2, 3)}), "w: weight must be there, and is missing"),
        (nn.Bilinear(1, 1, 3), r"w: weight must have shape \(3, 2\), got \(3, 1, 1\)"),
        (nn.PReLU(3), r"w: weight must have shape \(3, 2\), got \(3,\)"),
    ],
)
def test_weights_of_another_model_are_refused_by_name_and_change_nothing(tmp_path, there, words):
    model = nn.Linear(2, 3)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    save_weights(tmp_path / "w", there)
    with pytest.raises(ValueError, match=words):
        load_weights(tmp_path / "w", model)
    assert equal(model.state_dict(), before)


@pytest.mark.parametrize(
    ("tensor", "words"),
    [
        (torch.ones(2, dtype=torch.int8), "h: weight must be floating point, got torch.int8"),
        (torch.ones(2, dtype=torch.complex64), "h: weight must be floating point, got torch.compl"),
        (torch.ones(2, dtype=torch.bool), "h: weight must be floating point, got torch.bool"),
        (torch.tensor([0.0, float("nan")]), "h: weight must be numbers, got NaN"),
    ],
)
def test_what_is_no_weight_is_refused_by_name(tensor, words):
    with pytest.raises(ValueError, match=words):
        check_tensors({"weight": torch.ones(2)}, {"weight": tensor}, "h")


def test_floating_point_may_be_wider_or_narrower_but_a_counter_counts():
    kinds = (torch.float64, torch.float16, torch.bfloat16)
    for dtype in kinds:
        check_tensors({"w": torch.ones(2)}, {"w": torch.ones(2, dtype=dtype)}, "here")
    check_tensors({"w": torch.ones(2)}, {"w": torch.tensor([0.0, float("-inf")])}, "here")
    check_tensors({"w": torch.ones(2, device="meta")}, {"w": torch.ones(2)}, "here")
    steps = {"steps": torch.tensor(7)}
    check_tensors(steps, steps, "here")
    with pytest.raises(ValueError, match=r"h: steps must be torch\.int64, got torch\.float32"):
        check_tensors(steps, {"steps": torch.tensor(7.0)}, "h")


def test_a_tensor_that_the_model_does_not_have_is_named(tmp_path):
    save_weights(tmp_path / "w", nn.Linear(2, 3))
    with pytest.raises(ValueError, match="w: bias is no tensor of the model"):
        load_weights(tmp_path / "w", nn.Linear(2, 3, bias=False))


@pytest.mark.parametrize("metadata", [{"steps": 3}, {3: "steps"}, {"a": None}])
def test_metadata_are_strings(tmp_path, metadata):
    with pytest.raises(TypeError, match="metadata must be strings, got"):
        save_weights(tmp_path / "w", nn.Linear(2, 3), metadata)
    assert names(tmp_path) == set()
