"""One training of the command line, in as many processes as torchrun has started."""

import math
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor
from tqdm import tqdm

from attn_notes.cli.folders import CHECKPOINT, WEIGHTS, claim
from attn_notes.cli.models import build_model
from attn_notes.cli.settings import Checked, Count, Settings
from attn_notes.data import Batch
from attn_notes.device import get_device
from attn_notes.training import fit, process_group, save_weights

__all__ = ["Job", "Run", "report"]


@dataclass(frozen=True, kw_only=True)
class Run(Checked):
    """Where and how a training runs."""

    out: Path
    """Folder of the training; made if it does not exist."""
    checkpoint_every: Count = 200
    """Updates between two checkpoints, each with a measurement of the held-out loss."""
    snapshots: tuple[int, ...] = ()
    """Updates after which the weights are also kept, in weights-STEP.safetensors."""
    accumulate: Count = 1
    """Parts in which each batch is computed, one after the other, to save memory."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Of matrix products; auto is bfloat16 on a GPU that has it."""
    compile: bool = False
    """Whether torch.compile makes kernels for the model first."""
    device: str | None = None
    """cpu, cuda or mps; a GPU if there is one by default."""


def report(message: str) -> None:
    """Print a line, in the first process."""
    if os.environ.get("RANK", "0") == "0":
        tqdm.write(message, file=sys.stdout)
        sys.stdout.flush()


@dataclass(kw_only=True)
class Job:
    """One training: `held_out` is the loss of a model in bits, `unit` of what."""

    settings: Settings
    run: Run
    batches: Callable[[int], Any]
    loss: Callable[..., Tensor]
    held_out: Callable[[Any], float]
    unit: str

    def train(self) -> Any:
        """Train the model, or continue to, and leave its files in the folder."""
        with process_group(get_device(self.run.device)) as (self.rank, self.world_size, device):
            self.model: Any = build_model(self.settings).to(device)
            self.begin()
            training, run = self.settings.training, self.run
            rates = {name: getattr(training, name) for name in ("lr", "weight_decay", "seed")}
            fit(
                self.model,
                self.part,
                partial(self.loss, label_smoothing=training.label_smoothing),
                steps=training.steps,
                schedule=training.factors(),
                accumulate=run.accumulate,
                precision=self.precision(device),
                compile=run.compile,
                checkpoint=run.out / CHECKPOINT,
                checkpoint_every=run.checkpoint_every,
                validate=self.validate,
                describe=self.describe,
                on_step=self.on_step,
                **rates,
            )
            if self.rank == 0:
                save_weights(run.out / WEIGHTS, self.model)
        return self.model

    def begin(self) -> None:
        """Claim the folder, in the first process, for settings that all processes share."""
        first = [self.settings]
        if self.world_size > 1:
            dist.broadcast_object_list(first, device=torch.device("cpu"))
        if first != [self.settings]:
            raise ValueError("every process must get the same options and texts, got different")
        if self.rank == 0:
            claim(self.run.out, self.settings)
        self.on_step(0, torch.tensor(math.nan, device="cpu"))

    def part(self, n: int) -> Any:
        """This process's share of a batch, or of an accumulated part of it."""
        step, place = divmod(n, self.run.accumulate)
        first, count = self.rank + self.world_size * place, self.run.accumulate * self.world_size
        batch = self.batches(step)
        tensors = (batch,) if isinstance(batch, Tensor) else batch
        rows = slice(first % len(tensors[0]), None, count)  # one row twice, where they are too few
        return batch[rows] if isinstance(batch, Tensor) else Batch(*(t[rows] for t in batch))

    def on_step(self, done: int, loss: Tensor) -> None:
        """Remember the loss, and keep the weights of a snapshot."""
        self.done, self.latest = done, loss
        if self.rank == 0 and done in self.run.snapshots:
            save_weights(self.run.out / f"weights-{done}.safetensors", self.model)

    def validate(self) -> float:
        """Report the losses on the way."""
        found, progress = (
            self.held_out(self.model),
            f"step {self.done} of {self.settings.training.steps}",
        )
        report(f"{progress}: {self.describe(self.latest.item())}, held out {found:.3f}")
        return found

    def describe(self, nats: float) -> str:
        """A loss in bits."""
        return f"{nats / math.log(2):.3f} {self.unit}"

    def precision(self, device: torch.device) -> str:
        """What to compute in; 16 bits where a GPU has them, unless told."""
        has_bfloat16 = device.type == "cuda" and torch.cuda.is_bf16_supported()
        automatic = "bfloat16" if has_bfloat16 else "float32"
        return automatic if self.run.precision == "auto" else self.run.precision
