"""One training of the command line, in as many processes as torchrun has started."""

import math
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map
from tqdm import tqdm

from attn_notes.device import get_device
from attn_notes.stored import WEIGHTS, build_model
from attn_train.files import save_weights
from attn_train.loop import fit
from attn_train.processes import process_group
from attn_train.settings import CHECKPOINT, Settings, claim, write_settings
from attn_train.sharding import gather, shard


@dataclass(frozen=True, kw_only=True)
class Run:
    """Where and how a training runs."""

    out: Path  # Folder of the training; made if it does not exist
    checkpoint_every: int = 200  # Updates between two checkpoints and held-out measurements
    snapshots: tuple[int, ...] = ()  # Updates after which weights-STEP.safetensors is kept
    accumulate: int = 1  # Parts in which each batch is computed in turn, to save memory
    precision: Literal["auto", "float32", "bfloat16"] = "auto"  # Auto is bfloat16 on CUDA GPUs
    sharded: bool = False  # Whether processes of torchrun divide the model; saves memory
    compile: bool = False  # Whether torch.compile makes kernels for the model first
    device: str | None = None  # cpu, cuda or mps; a GPU if there is one by default
    encoding: str | None = None  # Of --text or --pairs; UTF-8 by default


def log_error(message: str) -> None:
    """Print a line on stderr."""
    print(f"attn-notes: {' '.join(message.split())}", file=sys.stderr, flush=True)


def report(message: str) -> None:
    """Print a line, in the first process."""
    if os.environ.get("RANK", "0") == "0":
        tqdm.write(message, file=sys.stdout)
        sys.stdout.flush()


@dataclass
class Job:
    """One training: `measure` gives the held-out loss of a model in bits, `unit` says of what."""

    run: Run
    settings: Settings
    batches: Callable[[int], Any]
    loss: Callable[..., Any]
    measure: Callable[[Any], float]
    unit: str

    def train(self) -> Any:
        """Train the model, or continue to, and leave its files in the folder."""
        run, training = self.run, self.settings.training
        with process_group(get_device(run.device)) as (self.rank, self.world_size, device):
            self.model: Any = self.untrained()
            if run.sharded and self.world_size > 1:
                shard(self.model, device)  # before the device would hold the whole model
            self.model.to(device)
            if self.rank == 0:
                claim(run.out, self.settings)
            automatic = "bfloat16" if device.type == "cuda" else "float32"
            fit(
                self.model,
                self.part,
                partial(self.loss, label_smoothing=training.label_smoothing),
                steps=training.steps,
                lr=training.lr,
                schedule=training.factors(),
                weight_decay=training.weight_decay,
                seed=training.seed,
                accumulate=run.accumulate,
                precision=automatic if run.precision == "auto" else run.precision,
                compile=run.compile,
                checkpoint=run.out / CHECKPOINT,
                checkpoint_every=run.checkpoint_every,
                validate=self.validate,
                describe=self.describe,
                on_step=self.on_step,
            )
            model = self.whole()
            if self.rank == 0:
                write_settings(run.out, self.settings)  # by now the checkpoint has been accepted
                save_weights(run.out / WEIGHTS, model)
                if 0 in run.snapshots:
                    save_weights(run.out / "weights-0.safetensors", self.untrained())
        return model.to(device)

    def untrained(self) -> Any:
        """The model before the first update, on the CPU."""
        return build_model(self.settings.spec(), seed=self.settings.training.seed)

    def whole(self) -> Any:
        """A copy on the CPU, not divided; all processes must call it together."""
        model = self.untrained()
        model.load_state_dict(gather(self.model.state_dict()))
        return model

    def part(self, n: int) -> Any:
        """This process's share of a batch, or of an accumulated part of it."""
        step, place = divmod(n, self.run.accumulate)
        first, count = self.rank + self.world_size * place, self.run.accumulate * self.world_size
        batch = self.batches(step)
        size = len(tree_leaves(batch)[0])
        rows = slice(first % size, None, count)  # one row twice, where they are too few
        return tree_map(lambda tensor: tensor[rows], batch)

    def on_step(self, done: int, loss: Tensor) -> None:
        """Remember the loss, and keep the weights of a snapshot."""
        self.done, self.latest = done, loss
        if done in self.run.snapshots:
            model = self.whole()
            if self.rank == 0:
                save_weights(self.run.out / f"weights-{done}.safetensors", model)

    def validate(self) -> float:
        """Report the losses on the way."""
        found, trained = self.measure(self.model), self.describe(self.latest.item())
        steps = self.settings.training.steps
        report(f"step {self.done} of {steps}: {trained}, held out {found:.3f}")
        return found

    def describe(self, nats: float) -> str:
        """A loss in bits."""
        return f"{nats / math.log(2):.3f} {self.unit}"
