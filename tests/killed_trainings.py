"""Trains from the command line in child processes, and does to them what happens to trainings.

`python -m tests.killed_trainings FOLDER MODEL` prints as JSON what became of each. Torch is loaded
once; every child is a fork of this process, so a training can be killed a dozen times in a few
seconds.
"""

import contextlib
import ctypes
import io
import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from attn_notes.train.command import main
from attn_notes.training import load_checkpoint

MODEL = ["seq2seq"]
OPTIONS = {
    "digits": "1-3", "count": 150, "hidden-dim": 16, "embed-dim": 8, "layers": 2, "dropout": 0.2,
    "steps": 36, "warmup": 5, "batch-size": 16, "checkpoint-every": 1, "device": "cpu",
    "threads": 1,
}  # fmt: skip
CLONE_NEWNS, CLONE_NEWUSER, MS_PRIVATE_AND_BELOW = 0x20000, 0x10000000, (1 << 18) | (1 << 14)


def run(folder: Path) -> tuple[int, str, str]:
    """The command in this process: its code, and what it wrote."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        options = [f"--{name}={value}" for name, value in OPTIONS.items()]
        code = main([*MODEL, *options, "--out", str(folder)])
    return code, out.getvalue(), err.getvalue()


def child(folder: Path, before: Callable[[], object] = lambda: None) -> int:
    """The command in a child process; what it wrote goes into `folder`-log."""
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            before()
            code, out, err = run(folder)
            Path(f"{folder}-log").write_text(json.dumps([out, err]))
        finally:
            os._exit(code)
    return pid


def end_of(pid: int) -> int:
    """The exit code of a child, or minus the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def step_of(folder: Path) -> int:
    """How far the checkpoint is; it must be whole."""
    path = folder / "checkpoint.pt"
    return len(load_checkpoint(path)["losses"]) if path.exists() else -1


def dying(owner: object, name: str, *, at_call: int, late: bool = False) -> Callable[[], None]:
    """Makes a function kill its process at one call: before it does its work, or after it."""

    def prepare() -> None:
        work, calls = getattr(owner, name), iter(range(1, 1000))

        def deadly(*arguments):
            last = next(calls) == at_call
            result = None if last and not late else work(*arguments)
            if last:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        setattr(owner, name, deadly)

    return prepare


def killed(folder: Path) -> list[tuple[str, int, int]]:
    """(how, the child's end, the step of the checkpoint after it) of every kill."""
    found = []
    moments = {
        "before the data is down": dying(os, "fsync", at_call=4),
        "before the new name": dying(Path, "replace", at_call=6),
        "after the new name": dying(Path, "replace", at_call=5, late=True),
    }
    for how, moment in moments.items():
        found.append((how, end_of(child(folder, moment)), step_of(folder)))
    rng = random.Random(0)
    for _ in range(5):
        before = step_of(folder)
        pid = child(folder)
        while step_of(folder) == before:  # however busy the machine is, it gets on
            time.sleep(0.001)
        time.sleep(rng.uniform(0, 0.01))
        os.kill(pid, signal.SIGKILL)
        found.append(("at random", end_of(pid), step_of(folder)))
    return found


def interrupted(folder: Path) -> tuple[int, str]:
    """What Ctrl-C does once the training is under way: the code, and what is said."""
    pid = child(folder, lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
    while step_of(folder) < 0:
        time.sleep(0.002)
    os.kill(pid, signal.SIGINT)
    return end_of(pid), json.loads(Path(f"{folder}-log").read_text())[1]


def mount_small_disk(folder: Path) -> None:
    """A disk of 1 MB that this process alone can see."""
    libc, user, group = ctypes.CDLL(None, use_errno=True), os.getuid(), os.getgid()
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "no namespace of its own")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {user} 1")
    Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    libc.mount(b"none", b"/", None, MS_PRIVATE_AND_BELOW, None)
    if libc.mount(b"none", str(folder).encode(), b"tmpfs", 0, b"size=1m"):
        raise OSError(ctypes.get_errno(), "no disk of its own")


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def on_a_full_disk(begun: Path, disk: Path) -> dict[str, object]:
    """Goes on with a training where nothing more fits, and again once there is room."""
    try:
        mount_small_disk(disk)
    except OSError as error:
        return {"impossible": str(error)}
    folder = shutil.copytree(begun, disk / "training")
    before = contents(folder)
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass
    os.truncate(filler, filler.stat().st_size - 3 * 4096)  # room for the settings
    code, _, said = run(folder)
    after = contents(folder)
    filler.unlink()
    return {
        "code": code,
        "said": said,
        "old files whole": after == before,
        "afterwards": [run(folder)[0], (folder / "weights.safetensors").read_bytes().hex()],
    }


def report(folder: Path) -> dict[str, object]:
    whole, broken, begun, disk = (folder / name for name in ("whole", "broken", "begun", "disk"))
    expected = run(whole)
    end_of(child(folder / "again"))
    stopped = interrupted(broken)
    kills = killed(broken)
    # Without what a kill has left: to clean it away would make room.
    shutil.copytree(broken, begun, ignore=shutil.ignore_patterns("*.part"))
    disk.mkdir()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        with os.fdopen(writing, "w") as pipe:
            pipe.write(json.dumps(on_a_full_disk(begun, disk)))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        full_disk = json.loads(pipe.read())
    end_of(pid)
    return {
        "kills": kills,
        "full disk": full_disk,
        "interrupted": stopped,
        "expected": expected,
        "resumed": run(broken),
        "files": {name: sorted(contents(folder / name)) for name in ("whole", "broken")},
        "weights": [
            contents(folder / name)["weights.safetensors"].hex()
            for name in ("whole", "again", "broken")
        ],
    }


if __name__ == "__main__":
    MODEL[:] = sys.argv[2:]
    sys.stdout.write(json.dumps(report(Path(sys.argv[1]))))
