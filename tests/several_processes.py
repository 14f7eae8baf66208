"""Trains models in several processes, and does to them what happens to processes.

`python -m tests.several_processes FOLDER` writes what became of each to its report.json. Torch is
loaded once, and every process is a fork of this one; what torchrun's agent does for its workers, a
small one does here: it keeps the store, and when a worker ends badly it tells the others to stop.
"""

import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch._dynamo  # or each process would load it
import torch.distributed as dist

from attn_notes.data import PAD, Batch, Batches, number_pairs
from attn_notes.train import Seq2SeqSettings, build_model, stopping
from attn_notes.train import command as commands
from attn_notes.train.command import main
from attn_notes.train.pairs import complete
from attn_notes.training import fit, load_checkpoint, process_group, translation_loss
from attn_notes.training.updates import Updates
from tests.killed_trainings import dying

OPTIONS = {
    "context": 8, "layers": 1, "embed-dim": 8, "hidden-dim": 16, "heads": 2, "steps": 30,
    "warmup": 5, "batch-size": 12, "lr": 0.01, "checkpoint-every": 10, "device": "cpu",
    "threads": 1,
}  # fmt: skip
LONGEST = 120  # seconds: so long it takes on no machine, and then something is wrong

Work = Callable[[int], int]
Deed = Callable[[], object]


class Known(stopping.Stop):
    """What hears of signals, where a test can see it."""

    latest: "Known"

    def __init__(self) -> None:
        super().__init__()
        Known.latest = self


def until_heard() -> None:
    """Wait for the thread that hears of a signal: however busy the machine is, it will."""
    while not Known.latest():
        time.sleep(0.001)


def command(folder: Path) -> list[str]:
    """The training of this module's choice, on the text beside its folder."""
    options = [f"--{name}={value}" for name, value in OPTIONS.items()]
    return ["language-model", *options, f"--text={folder.parent / 'text'}", f"--out={folder}"]


def train(folder: Path, *more: str) -> Work:
    """The command, as a process is to run it; what it writes goes into files of its number."""

    def work(number: int) -> int:
        for descriptor, kind in ((1, "out"), (2, "err")):
            os.dup2(
                os.open(f"{folder}-{number}.{kind}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
                descriptor,
            )
        sys.stdout, sys.stderr = (os.fdopen(n, "w", closefd=False) for n in (1, 2))
        return main([*command(folder), *more])

    return work


def a_store() -> dist.TCPStore:
    return dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)


def begin(
    work: Work, count: int, *, store: dist.TCPStore | None = None, attempt: int = 0
) -> tuple[list[int], dist.TCPStore]:
    """As many processes as that, which find each other as torchrun's workers do."""
    store = store or a_store()
    pids = []
    for number in range(count):
        pid = os.fork()
        if pid == 0:
            os.environ |= {
                "RANK": str(number), "LOCAL_RANK": str(number), "WORLD_SIZE": str(count),
                "LOCAL_WORLD_SIZE": str(count), "MASTER_ADDR": "localhost",
                "MASTER_PORT": str(store.port), "TORCHELASTIC_USE_AGENT_STORE": "True",
                "TORCHELASTIC_RESTART_COUNT": str(attempt),
            }  # fmt: skip
            code = 99
            try:
                code = work(number)
            except SystemExit as wrong:
                code = wrong.code
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        pids.append(pid)
    return pids, store


def end(pids: list[int]) -> list[int]:
    """The exit code of each, or minus the signal that ended it."""
    codes: dict[int, int] = {}
    others_told = False
    deadline = time.monotonic() + LONGEST
    while len(codes) < len(pids):
        for pid in pids:
            if pid not in codes and (ended := os.waitpid(pid, os.WNOHANG))[0]:
                codes[pid] = os.waitstatus_to_exitcode(ended[1])
        if any(codes.values()) and not others_told:
            others_told = True
            tell(set(pids) - set(codes), signal.SIGTERM)
        if time.monotonic() > deadline:
            tell(set(pids) - set(codes), signal.SIGKILL)
        time.sleep(0.002)
    return [codes[pid] for pid in pids]


def has_ended(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def tell(pids: set[int], kind: signal.Signals) -> None:
    for pid in pids:
        os.kill(pid, kind)


def together(work: Work, count: int) -> list[int]:
    pids, _store = begin(work, count)
    return end(pids)


def step_of(folder: Path) -> int:
    """How far the checkpoint is; it must be whole."""
    path = folder / "checkpoint.pt"
    return len(load_checkpoint(path)["losses"]) if path.exists() else -1


def said(folder: Path) -> list[str]:
    """The lines that the processes wrote to stderr, all together."""
    return [
        line
        for path in sorted(folder.parent.glob(f"{folder.name}-?.err"))
        for line in path.read_text().splitlines()
        if line.startswith("attn_notes") or "Traceback" in line
    ]


def result(folder: Path) -> dict[str, object]:
    return {
        "losses": load_checkpoint(folder / "checkpoint.pt")["losses"],
        "weights": (folder / "weights.safetensors").read_bytes().hex(),
        "files": sorted(path.name for path in folder.iterdir()),
        "out": [p.read_text() for p in sorted(folder.parent.glob(f"{folder.name}-?.out"))],
    }


def translate(folder: Path) -> Work:
    """A training on padded pairs. Shares are as unequal as can be, in number and in length.

    The shortest pairs go to the first process, one to each but the last; and in every third step
    none of the first one's tokens counts. After each step the first process measures, all alone.
    """
    settings = Seq2SeqSettings(source="de", target="en", embed_dim=4, hidden_dim=8)
    train, held_out = number_pairs("de", "en", count=300)
    settings = complete(settings, (train, held_out))
    batches = Batches(train[:256], *settings.vocabularies(), batch_size=8)

    def share(step: int, rank: int, world: int) -> Batch:
        source, lengths, target = batches(step)
        rows = lengths.argsort()[rank : rank + 1 if rank + 1 < world else None]
        if step % 3 == 0 and rank == 0:
            target = target.index_fill(0, lengths.argsort()[:1], PAD)
        return Batch(source[rows], lengths[rows], target[rows])

    def work(number: int) -> int:
        torch.set_num_threads(1)
        with process_group(torch.device("cpu")) as (rank, world, _):
            model, measured = build_model(settings), []

            def measure(*_) -> None:
                if rank == 0:
                    with torch.no_grad():
                        measured.append(translation_loss(model, batches(0)).item())

            losses = fit(
                model, lambda step: share(step, rank, world), steps=OPTIONS["steps"], lr=0.01,
                on_step=measure,
            )  # fmt: skip
        numbers = torch.cat([p.detach().flatten() for p in model.parameters()]).tolist()
        found = {"losses": losses, "measured": measured, "numbers": numbers}
        folder.with_name(f"{folder.name}-{number}.json").write_text(json.dumps(found))
        return 0

    return work


def translated(folder: Path, count: int) -> list[dict[str, list[float]]]:
    assert together(translate(folder), count) == [0] * count
    paths = (folder.with_name(f"{folder.name}-{number}.json") for number in range(count))
    return [json.loads(path.read_text()) for path in paths]


# What happens to them


def at_step(step: int, number: int, deed: Deed, work: Work) -> Work:
    """The work, in which one process does a deed in the middle of a step."""
    descend, calls = Updates.descend, iter(range(1000))

    def changed(own: int) -> int:
        def deadly(self, loss):
            if own == number and next(calls) == step:
                deed()
            return descend(self, loss)

        Updates.descend = deadly
        return work(own)

    return changed


def signalled(kind: signal.Signals) -> Deed:
    return lambda: os.kill(os.getpid(), kind)


def told(kind: signal.Signals) -> Deed:
    """A signal that this process gets, and has heard of."""
    return lambda: (os.kill(os.getpid(), kind), until_heard())


def before(number: int, deed: Deed, work: Work) -> Work:
    """The work, before which one process does a deed."""

    def changed(own: int) -> int:
        if own == number:
            deed()
        return work(own)

    return changed


def slowly(number: int, work: Work) -> Work:
    """The work, of which one process takes its time over its last words."""
    speak = commands.speak

    def said_late(message: str) -> None:
        time.sleep(0.5)  # long after the agent has told it to stop
        speak(message)

    return before(number, lambda: setattr(commands, "speak", said_late), work)


def ended(folder: Path, work: Work, count: int = 2) -> dict[str, object]:
    """What a training that does not come to its end leaves behind."""
    codes = together(work, count)
    return {"codes": codes, "step": step_of(folder), "said": said(folder)}


def killed(folder: Path, number: int) -> dict[str, object]:
    return ended(folder, at_step(17, number, signalled(signal.SIGKILL), train(folder)))


def resumed(folder: Path, count: int) -> dict[str, object]:
    """What becomes of a copy of a broken training."""
    copy = folder.with_name(f"{folder.name} by {count}")
    shutil.copytree(folder, copy)
    assert together(train(copy), count) == [0] * count
    return result(copy)


def restarted(folder: Path) -> dict[str, object]:
    """What torchrun does with --max-restarts: it keeps its store, and begins again."""
    store = a_store()
    late = before(1, lambda: time.sleep(0.5), train(folder))  # what the last ones said is there
    works = [at_step(17, 0, signalled(signal.SIGKILL), train(folder))]
    works += [at_step(4, 0, signalled(signal.SIGKILL), late), late]
    found: dict[str, list] = {"codes": [], "steps": [], "said": []}
    for attempt, work in enumerate(works):
        found["codes"].append(end(begin(work, 2, store=store, attempt=attempt)[0]))
        found["steps"].append(step_of(folder))
        found["said"].append(len(said(folder)))
    return {**found, "result": result(folder)}


def killed_anywhere(folder: Path, *options: str) -> dict[str, object]:
    """One of two is killed at any moment, again and again, until they come to the end."""
    rng, steps, codes = random.Random(0), [], []
    for _ in range(4):
        step = step_of(folder)
        pids, _store = begin(train(folder, *options), 2)
        step += rng.randint(1, 6)
        while step_of(folder) < step and not any(map(has_ended, pids)):
            time.sleep(0.001)
        time.sleep(rng.uniform(0, 0.01))
        os.kill(rng.choice(pids), signal.SIGKILL)
        codes.append(end(pids))
        steps.append(step_of(folder))
    last = together(train(folder, *options), 2)
    return {"codes": codes, "steps": steps, "last": last, "result": result(folder)}


def hung(folder: Path) -> dict[str, object]:
    """One of two stands still in the middle of a step; the other, waiting, is told to stop."""
    stopping.GRACE = 0.5
    pids, _store = begin(at_step(17, 1, signalled(signal.SIGSTOP), train(folder)), 2)
    os.waitpid(pids[1], os.WUNTRACED)
    time.sleep(0.5)
    tell({pids[0]}, signal.SIGTERM)
    codes = end(pids[:1])
    tell({pids[1]}, signal.SIGKILL)
    return {"codes": codes + end(pids[1:]), "step": step_of(folder), "said": said(folder)}


def write_text(place: Path) -> None:
    (place / "text").write_text("".join(f"{n} times {n} is {n * n}\n" for n in range(99)))


def report(place: Path) -> dict[str, object]:
    write_text(place)
    dropout = ("--dropout=0.3", "--checkpoint-every=1")
    found: dict[str, object] = {}
    for name, count, options in (
        ("one", 1, ()),
        ("two", 2, ()),
        ("three", 3, ()),
        ("two with dropout", 2, dropout),
        ("two in bfloat16", 2, ("--precision=bfloat16",)),
    ):
        folder = place / name
        assert together(train(folder, *options), count) == [0] * count, said(folder)
        found[name] = result(folder)
    found["translated"] = [translated(place / f"padded {n}", n) for n in (1, 2, 3)]
    for number in (0, 1):
        folder = place / f"killed {number}"
        found[folder.name] = killed(folder, number)
        found[f"{folder.name}, resumed"] = [resumed(folder, count) for count in (1, 2, 3)]
    folder = place / "writing"
    deed = dying(Path, "replace", at_call=4)  # settings, checkpoint of step 0, settings: 10
    found["killed while it writes"] = ended(folder, before(0, deed, train(folder)))
    found["killed anywhere"] = killed_anywhere(place / "anywhere", *dropout)
    folder = place / "told"
    found["told"] = ended(folder, at_step(17, 1, told(signal.SIGTERM), train(folder)))
    found["told, resumed"] = resumed(folder, 2)
    work = slowly(1, train(place / "int"))
    found["interrupted"] = ended(place / "int", at_step(17, 0, told(signal.SIGINT), work))
    found["hung"] = hung(place / "hung")
    found["restarted"] = restarted(place / "restarted")
    seeds = [train(place / "seeds", f"--seed={number}") for number in (0, 1)]
    found["different"] = ended(place / "seeds", lambda number: seeds[number](number))
    for name, options in (
        ("uneven", ("--batch-size=13",)),
        ("no room", (f"--out={place / 'text'}/below",)),
        ("short", ("--context=9999",)),
        ("wrong", ("--steps=0",)),
    ):
        found[name] = ended(place / name, train(place / name, *options))
    return found


def as_a_worker(folder: Path, what: str) -> int:
    """One of torchrun's workers. In the 18th step one is killed, or torchrun is told to stop."""

    def tell_torchrun() -> None:
        os.kill(os.getppid(), signal.SIGTERM)
        until_heard()  # when torchrun has told its workers

    number, deed = (1, signalled(signal.SIGKILL)) if what == "killed" else (0, tell_torchrun)
    work = at_step(17, number, deed, lambda _: main(command(folder)))
    return work(int(os.environ["RANK"]))


if __name__ == "__main__":
    stopping.Stop = Known
    if len(sys.argv) > 2:
        stopping.leave(as_a_worker(Path(sys.argv[1]), sys.argv[2]))
    place = Path(sys.argv[1])
    (place / "report.json").write_text(json.dumps(report(place)))
