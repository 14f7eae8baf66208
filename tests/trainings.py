"""Trains from the command line in child processes, and does to them what happens to trainings.

`python -m tests.trainings FOLDER` writes what became of each to report.json. Torch is loaded once:
every training is a fork of this process, so it can be killed a dozen times in a few seconds.
"""

import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import torch.distributed as dist
import torch.distributed.fsdp  # noqa: F401, here, so that no fork has to load it

from attn_notes.cli.commands import main
from attn_notes.training.files import load_checkpoint
from attn_notes.training.loop import _Run

STEPS = 16
COMMON = [f"--steps={STEPS}", "--warmup=5", "--embed-dim=8", "--num-layers=2", "--device=cpu"]
PAIRS = [  # of batches of 13, no number of processes has shares of one size
    "train", "seq2seq", *COMMON, "--digits", "1", "3", "--count=150", "--hidden-dim=16",
    "--batch-size=13", "--checkpoint-every=1",
]  # fmt: skip
TEXTS = [
    "train", "language-model", *COMMON, "--max-length=8", "--num-heads=2", "--ffn-dim=16",
    "--batch-size=12", "--checkpoint-every=8",
]  # fmt: skip
DROPOUT = ["--dropout=0.2"]


def begin(
    command: list[str], out: Path, *, count: int = 1, before: Callable[[int], object] = id
) -> list[int]:
    """Train in as many processes as that, if `before` lets them."""

    def work(number: int) -> int:
        before(number)
        return main([*command, f"--out={out}"])

    return fork(work, out, count=count)


def fork(work: Callable[[int], int], out: Path, *, count: int) -> list[int]:
    """As many processes as that, which find each other as torchrun's workers do."""
    store = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    pids = []
    for number in range(count):
        pid = os.fork()
        if pid == 0:
            os.environ |= {
                "RANK": str(number), "LOCAL_RANK": str(number), "WORLD_SIZE": str(count),
                "MASTER_ADDR": "localhost", "MASTER_PORT": str(store.port),
                "TORCHELASTIC_USE_AGENT_STORE": "True",
            }  # fmt: skip
            for descriptor in (1, 2):
                log = f"{out}-{number}.{descriptor}"
                os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
            code = 99
            try:
                code = work(number)
                sys.stdout.flush()
            except BaseException:
                traceback.print_exc()
                raise
            finally:
                os._exit(code)
        pids.append(pid)
    STORES.append(store)  # for as long as they live
    return pids


STORES: list[dist.TCPStore] = []


def end(pids: list[int]) -> list[int]:
    """The exit code of each, or minus the signal that ended it; after one failure, all end."""
    codes: dict[int, int] = {}
    while len(codes) < len(pids):
        for pid in set(pids) - set(codes):
            if (ended := os.waitpid(pid, os.WNOHANG))[0]:
                codes[pid] = os.waitstatus_to_exitcode(ended[1])
        time.sleep(0.002)
    return [codes[pid] for pid in pids]


def step_of(out: Path) -> int:
    """How far the checkpoint is; it must be whole."""
    path = out / "checkpoint.pt"
    return len(load_checkpoint(path)["losses"]) if path.exists() else -1


def result(out: Path) -> dict[str, object]:
    return {
        "losses": load_checkpoint(out / "checkpoint.pt")["losses"],
        "weights": (out / "weights.safetensors").read_bytes().hex(),
        "files": sorted(path.name for path in out.iterdir()),
        "said": [Path(f"{out}-{n}.2").read_text() for n in (0, 1) if Path(f"{out}-{n}.2").exists()],
        "printed": Path(f"{out}-0.1").read_text(),
    }


def whole(command: list[str], out: Path, count: int = 1) -> dict[str, object]:
    assert end(begin(command, out, count=count)) == [0] * count, Path(f"{out}-0.2").read_text()
    return result(out)


def killing(owner: object, name: str, at_call: int, *, late: bool = False) -> Callable[[int], None]:
    """Makes a function kill its process at one call, before or after it does its work."""

    def prepare(_: int) -> None:
        work, calls = getattr(owner, name), iter(range(1, 10_000))

        def deadly(*arguments, **keywords):
            is_last = next(calls) == at_call
            found = None if is_last and not late else work(*arguments, **keywords)
            if is_last:
                os.kill(os.getpid(), signal.SIGKILL)
            return found

        setattr(owner, name, deadly)

    return prepare


def killed(command: list[str], out: Path) -> list[list[int]]:
    """[the child's end, the step of the checkpoint after it] of every kill."""
    found = []
    for moment in (
        killing(os, "fsync", 5),  # before the data is on disk
        killing(Path, "replace", 6),  # before it has its name
        killing(Path, "replace", 5, late=True),  # after
        killing(_Run, "loss_of", 3),  # before a step has its gradient
        killing(_Run, "update", 3, late=True),  # after the weights have changed
        killing(_Run, "save", 1, late=True),  # after the checkpoint
    ):
        found.append([*end(begin(command, out, before=moment)), step_of(out)])  # noqa: PERF401
    return found


def second_dies(number: int) -> None:
    """Process 1 is killed in the middle of a step, when the others wait for its gradient."""
    if number == 1:
        killing(_Run, "loss_of", 12)(number)


def crossed(command: list[str], place: Path) -> dict[str, object]:
    """Killed, and gone on with by another number of processes, which divide the model or do not."""
    found: dict[str, object] = {}
    for name, options, count, dies in (
        ("divided", ["--sharded"], 2, second_dies),
        ("not divided", [], 1, killing(_Run, "loss_of", 12)),
    ):
        out = place / name
        assert -9 in end(begin([*command, *options], out, count=count, before=dies))
        found[f"{name}, step"] = step_of(out)
        other = ["--sharded", "--snapshots=9"] if count == 1 else []
        found[f"{name}, resumed"] = whole([*command, *other], out, 3 - count)
    return found


def report(place: Path) -> dict[str, object]:
    text = place / "text"
    words = [str(n * n) for n in range(400)]
    text.write_text("\n".join(words), encoding="utf-8")
    texts = [*TEXTS, f"--text={text}"]
    found: dict[str, object] = {
        "killed": killed([*PAIRS, *DROPOUT], place / "killed"),
        "killed, resumed": whole([*PAIRS, *DROPOUT], place / "killed"),
        "not killed": whole([*PAIRS, *DROPOUT], place / "whole"),
        "accumulated": whole([*PAIRS, "--accumulate=3"], place / "parts"),
    }
    for count in (1, 2):
        found[f"pairs {count}"] = whole(PAIRS, place / f"pairs{count}", count)
    found["texts 1"] = whole(texts, place / "texts1")
    found |= crossed(texts, place)
    found["texts 2"] = whole([*texts, *DROPOUT], place / "texts2", 2)
    out = place / "dead"
    found["dead"] = end(begin([*texts, *DROPOUT], out, count=2, before=second_dies))
    found["dead, said"] = Path(f"{out}-0.2").read_text()
    found["dead, step"] = step_of(out)
    found["dead, resumed"] = whole([*texts, *DROPOUT], out, 2)
    return found


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    (folder / "report.json").write_text(json.dumps(report(folder)))
