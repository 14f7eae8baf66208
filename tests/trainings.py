"""Trains in child processes, does to them what happens to trainings, and counts what they hold.

`python -m tests.trainings FOLDER` writes what became of each to report.json, and what each of two
processes that share a model saw to 0.json and 1.json. Torch is loaded once: every training is a
fork of this process, so it can be killed a dozen times in a few seconds.
"""

import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

# The last four here, so that no fork has to load them.
import num2words  # noqa: F401
import sacrebleu.metrics.bleu  # noqa: F401
import torch._dynamo
import torch.distributed as dist
import torch.distributed.fsdp
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook

from attn_notes.training import language_model_loss, translation_loss
from attn_notes.transformer import DecoderOnly, TransformerConfig
from attn_train import loop
from attn_train.commands import main
from attn_train.files import load_checkpoint
from attn_train.loop import State, fit
from attn_train.processes import process_group
from attn_train.sharding import shard
from tests.oracles import rng
from tests.test_training_loop import a_translator, of_words

STEPS = 12
COMMON = [f"--steps={STEPS}", "--warmup=5", "--embed-dim=8", "--num-layers=2", "--device=cpu"]
PAIRS = [  # of batches of 13, no number of processes has shares of one size
    "train", "seq2seq", *COMMON, "--digits", "1", "3", "--count=150", "--hidden-dim=16",
    "--batch-size=13", "--checkpoint-every=1",
]  # fmt: skip
TEXTS = [
    "train", "language-model", *COMMON, "--max-length=8", "--num-heads=2", "--ffn-dim=16",
    "--batch-size=12", "--checkpoint-every=6",
]  # fmt: skip


def run(work: Callable[[int], object], out: Path, count: int = 1) -> list[int]:
    """The exit codes of so many processes, which find each other as torchrun's workers do."""
    store = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)

    def child(number: int) -> None:
        os.environ |= {
            "RANK": str(number), "LOCAL_RANK": str(number), "WORLD_SIZE": str(count),
            "MASTER_ADDR": "localhost", "MASTER_PORT": str(store.port),
            "TORCHELASTIC_USE_AGENT_STORE": "True",
        }  # fmt: skip
        for descriptor in (1, 2):
            log = f"{out}-{number}.{descriptor}"
            os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
        sys.exit(work(number))

    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=child, args=(number,)) for number in range(count)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return [process.exitcode for process in processes]


def begin(
    command: list[str], out: Path, count: int = 1, before: Callable[[int], object] = id
) -> list[int]:
    """The exit codes of a training in so many processes, in each of which `before` is called."""
    return run(lambda number: [before(number), main([*command, f"--out={out}"])][1], out, count)


def step_of(out: Path) -> int:
    """How far the checkpoint is; it must be whole."""
    return len(load_checkpoint(out / "checkpoint.pt")["losses"])


def whole(command: list[str], out: Path, count: int = 1) -> dict[str, object]:
    """What a training that nobody kills leaves behind, and what its first process prints."""
    assert begin(command, out, count) == [0] * count, Path(f"{out}-0.2").read_text()
    return {
        "losses": load_checkpoint(out / "checkpoint.pt")["losses"],
        "weights": (out / "weights.safetensors").read_bytes().hex(),
        "files": sorted(path.name for path in out.glob("[!.]*")),  # a killed writer leaves a part
        "printed": Path(f"{out}-0.1").read_text(),
    }


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


MOMENTS = [
    killing(os, "fsync", 4),  # before the data is on disk
    killing(Path, "replace", 4),  # before it has its name
    killing(Path, "replace", 4, late=True),  # after
    killing(State, "update", 3, late=True),  # after the weights have changed
]


def second_dies(number: int) -> None:
    """Process 1 is killed in the middle of a step, when the others wait for its gradient."""
    if number == 1:
        killing(loop, "backward", 9)(number)


def killed(command: list[str], out: Path, *, resuming: list[str]) -> dict[str, object]:
    """Two processes of which one dies; and resumed by one."""
    ends = begin(command, out, 2, before=second_dies)
    said = Path(f"{out}-0.2").read_text()
    return {"ends": ends, "said": said, "step": step_of(out), **whole(resuming, out)}


def report(place: Path) -> dict[str, object]:
    text = place / "text"
    text.write_text("\n".join(str(n * n) for n in range(400)), encoding="utf-8")
    texts = [*TEXTS, f"--text={text}"]
    pairs = [*PAIRS, "--dropout=0.2"]
    out = place / "killed"
    return {
        "kills": [[*begin(pairs, out, before=kill), step_of(out)] for kill in MOMENTS],
        "kills, resumed": whole(pairs, out),
        "not killed": whole(pairs, place / "whole"),
        "pairs 1": whole(PAIRS, place / "pairs1"),
        "pairs 2": whole([*PAIRS, "--accumulate=3"], place / "pairs2", 2),
        "texts 1": whole(texts, place / "texts1"),
        "divided": killed([*texts, "--sharded"], place / "divided", resuming=texts),
    }


# Two processes that hold whole models, then shares of one

V, L, UPDATES = 29, 7, 6  # neither the ids nor the positions nor the widths are even
CPU = torch.device("cpu")


def a_model(seed: int = 0) -> DecoderOnly:
    """With tied embeddings and biases of 5 numbers."""
    torch.manual_seed(seed)
    sizes = {"embed_dim": 5, "num_heads": 1, "ffn_dim": 11, "num_layers": 3, "max_length": L}
    kind = {"positions": "learned", "tie_embeddings": True}
    return DecoderOnly(TransformerConfig(vocab_size=V, **sizes, **kind))


def windows(n: int, *, part: int = 0, of: int = 1) -> torch.Tensor:
    """Every so many rows of a batch (8, L + 1); the later rows have more padding."""
    tokens = torch.randint(4, V, (8, L + 1), generator=rng(n))
    kept = torch.arange(L + 1) < L + 1 - torch.arange(8)[:, None] % 6
    return (tokens * kept)[part::of]


def local(tensors: Iterable[Any]) -> int:
    """The bytes of these tensors, or of the shares of them, that are in this process."""
    here = [t.to_local() if hasattr(t, "to_local") else t for t in tensors]
    return sum(t.numel() * t.element_size() for t in here)


def held(optimizer: torch.optim.Optimizer) -> dict[str, int]:
    """The bytes in this process of what lasts from step to step, and of the gradients."""
    weights = [p for group in optimizer.param_groups for p in group["params"]]
    averages = [optimizer.state[p][name] for p in weights for name in ("exp_avg", "exp_avg_sq")]
    gradients = [p.grad for p in weights]
    return {"weights": local(weights), "gradients": local(gradients), "averages": local(averages)}


def train(model: nn.Module, part: int = 0, of: int = 1, accumulate: int = 1) -> dict[str, Any]:
    """As `fitted`, this process's part of the windows."""
    batches = lambda n: windows(  # noqa: E731
        n // accumulate, part=part + of * (n % accumulate), of=of * accumulate
    )
    return fitted(model, batches, language_model_loss, accumulate=accumulate)


def fitted(model: nn.Module, batches: Any, loss: Any, accumulate: int = 1) -> dict[str, Any]:
    """The losses, and the bytes held after the last step; the first two gradients are clipped."""
    bytes_held: dict[str, int] = {}
    hook = register_optimizer_step_post_hook(lambda *given: bytes_held.update(held(given[0])))
    usual = {"steps": UPDATES, "lr": 0.02, "max_norm": 0.4, "weight_decay": 0.1}
    losses = fit(model, batches, loss, accumulate=accumulate, **usual)
    hook.remove()
    return {"losses": losses, "bytes": bytes_held}


def translator(part: int = 0, of: int = 1, prepare: Callable[[Any], Any] = id) -> dict[str, Any]:
    """Recurrent, without a block."""
    model = a_translator()
    prepare(model)
    return fitted(model, lambda _: of_words(slice(part, None, of)), translation_loss)


def divided(model: nn.Module) -> nn.Module:
    shard(model, CPU)
    return model


def in_parts(rank: int, place: Path) -> None:
    """One of two processes."""
    with process_group(CPU) as (*mine, _):
        found = {
            "whole": train(a_model(), *mine),
            "divided": train(divided(a_model(seed=rank)), *mine),  # the first one's values count
            "accumulated": train(divided(a_model()), *mine, accumulate=2),
            "recurrent": translator(*mine, divided),
        }
    (place / f"{rank}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    (folder / "report.json").write_text(json.dumps(report(folder)))
    ended = run(partial(in_parts, place=folder), folder / "process", 2)
    sys.exit(max(map(abs, ended)) and (folder / "process-0.2").read_text())
