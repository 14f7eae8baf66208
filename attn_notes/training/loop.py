"""The training loop: one for every model of the book (chapter 4 and on)."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol, Self

import torch
from torch import Tensor, nn

from attn_notes.arguments import check_integers
from attn_notes.training.checkpoints import load_checkpoint, load_state, save_checkpoint
from attn_notes.training.distributed import (
    PeerLost,
    any_of_all,
    average,
    data_parallel,
    first_to,
    from_first,
    peers_needed,
    rank,
    together,
    world,
)
from attn_notes.training.losses import translation_loss
from attn_notes.training.progress import advance, progress_bar
from attn_notes.training.randomness import (
    own_randomness,
    random_states,
    seed_of,
    set_random_states,
    sow,
)
from attn_notes.training.schedules import Schedule, constant
from attn_notes.training.updates import Updates

__all__ = ["Movable", "TrainingStopped", "fit"]

READ_EVERY = 16  # steps on an accelerator: reading a number makes the CPU wait for it


class TrainingStopped(RuntimeError):
    """A training that ended before its last step: it was told to, or another process is gone."""


class Movable(Protocol):
    """A batch: a tensor, or anything else that moves as a tensor does."""

    def to(self, device: torch.device, /) -> Self:
        """The same batch on a device.

        Args:
            device: where to.

        Returns:
            The batch there.
        """


def fit(
    model: nn.Module,
    batches: Callable[[int], Movable],
    loss: Callable[[Any, Any], Tensor] = translation_loss,
    *,
    steps: int,
    lr: float = 3e-3,
    schedule: Schedule = constant(),
    weight_decay: float = 0.0,
    max_norm: float = 1.0,
    seed: int = 0,
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 200,
    progress: bool | None = None,
    on_step: Callable[[int, Tensor], None] | None = None,
    precision: str = "float32",
    compile: bool = False,  # noqa: A002, torch's name
    stop: Callable[[], bool] | None = None,
) -> list[float]:
    """Train a model, in place: AdamW (Loshchilov and Hutter, 2019) on clipped gradients. Chapter 4.

    Dropout draws from a generator seeded with `seed`; the caller's own is as before afterwards,
    and so is the mode (training or evaluation) of each module.

    Inside `process_group`, all processes that torchrun has started train together: the gradient is
    the mean of theirs, and process 0 writes the checkpoint, with which any number of processes may
    go on. Where each has its share of one batch, the losses are those of one process on that batch,
    up to rounding: with the losses of this package whatever the shares are, for they are means over
    the real tokens of all; with any other mean where the shares are of one size. Dropout is drawn
    anew in each process and step.

    Args:
        model: its parameters that require a gradient are trained, where they live.
        batches: `batches(step)` is the batch of step 0, 1, …, moved to the model's device here. A
            function of the step alone, or a resumed training would see other batches.
        loss: `loss(model, batch) -> ()`.
        steps: how many updates in all, those of a resumed checkpoint included.
        lr: the learning rate, before `schedule`.
        schedule: step -> factor of `lr`.
        weight_decay: how much a weight shrinks in a step, in units of the learning rate; 0 or
            more.
        max_norm: the longest gradient, over all parameters together; `math.inf` clips none.
        seed: of what is random in the model while it trains.
        checkpoint: a file to go on from if it exists and is of the same settings and sizes;
            `batches` and `loss` are functions, and that they are the same is up to the caller.
            It is written at the start, every `checkpoint_every` steps and at the end. On a CPU a
            training that was interrupted and resumed equals one that was not, bit for bit; on a
            GPU it does so up to the order of sums and the dropout within a recurrent layer, which
            torch cannot restore.
        checkpoint_every: steps between two checkpoints.
        progress: whether to show a bar on stderr; by default in a terminal or a notebook, unless
            the environment says `ATTN_NOTES_PROGRESS=0` or tests are running.
        on_step: called as `on_step(done, loss)` after each update, `done` counting from 1; the
            loss () is a tensor, because reading it would make a GPU wait.
        precision: what to compute in, one of "float32", "bfloat16" and "float16"; the weights stay
            in what they are. In float16 a step whose gradient overflows is left out.
        compile: whether `torch.compile` is to turn the model into kernels of its own first, which
            takes about a minute and needs a compiler that it can use.
        stop: asked before each step whether to end here; one process that says so ends all.

    Returns:
        The loss of every step, those of a resumed checkpoint included.

    Raises:
        FloatingPointError: a loss or gradient that is not finite, with its step.
        OSError: the checkpoint cannot be read or written.
        TrainingStopped: told to by `stop`, or another process is gone. The checkpoint holds all
            steps that were completed.
        TypeError: a loss that is not a tensor () with a gradient, or steps or `checkpoint_every`
            that are not an integer.
        ValueError: a number out of range, a model without parameters to train, or a checkpoint
            that is damaged, of other settings, or further than `steps`.

    Example:
        >>> target = torch.tensor([1.0, -1.0])
        >>> model = nn.Linear(2, 2)
        >>> losses = fit(
        ...     model, lambda step: target, lambda model, x: (model(x) - x).square().mean(),
        ...     steps=100, lr=0.1,
        ... )
        >>> losses[-1] < 0.01 * losses[0]
        True
    """
    check_integers(0, steps=steps)
    check_integers(1, checkpoint_every=checkpoint_every)
    if not 0 <= weight_decay < math.inf:
        raise ValueError(f"weight_decay must be 0 or more, got {weight_decay}")
    _check_positive(lr=lr, max_norm=max_norm)
    settings = {"seed": seed, "lr": lr, "weight_decay": weight_decay, "max_norm": max_norm}
    state = _State(model, settings | {"precision": precision}, schedule)
    path = None if checkpoint is None else Path(checkpoint)
    with _training_mode(model), own_randomness(state.device, seed):
        if path is not None:
            state.open(path, steps)
        trained = torch.compile(data_parallel(model)) if compile else data_parallel(model)
        with state.outliving(path, steps), progress_bar(state.done, steps, progress) as bar:
            for step in range(state.done, steps):
                if stop is not None and any_of_all(stop()):
                    state.save(path)
                    raise TrainingStopped(f"stopped after step {step} of {steps}")
                value = state.update(partial(loss, trained, batches(step).to(state.device)))
                if on_step is not None:
                    on_step(step + 1, value)
                if (step + 1) % checkpoint_every == 0 or step + 1 == steps:
                    state.save(path)
                advance(bar, state.losses)
        state.finish()
    return state.losses


class _State:
    """What a training is made of, and what a checkpoint of it holds."""

    def __init__(self, model: nn.Module, settings: dict[str, Any], schedule: Schedule) -> None:
        self.model, self.settings, self.schedule = model, settings, schedule
        parameters = [p for p in model.parameters() if p.requires_grad]
        if not parameters:
            raise ValueError("model must have parameters that require a gradient, got none")
        self.device = parameters[0].device
        self.updates = Updates(parameters, **{k: v for k, v in settings.items() if k != "seed"})
        self.losses: list[float] = []
        self.unread: list[Tensor] = []  # (2,): loss and norm of the gradient, where they arose

    @property
    def done(self) -> int:
        return len(self.losses) + len(self.unread)

    def update(self, compute: Callable[[], Tensor]) -> Tensor:
        """One step down the gradient of a loss; the loss without its history."""
        rate = self._rate(self.done)
        if world() > 1:  # of this step alone: whoever goes on from here draws the same
            sow(self.device, seed_of(self.settings["seed"], self.done, rank()))
        with self.updates.in_precision(), together():
            loss = compute()
        if not (isinstance(loss, Tensor) and loss.dim() == 0 and loss.requires_grad):
            kind = tuple(loss.shape) if isinstance(loss, Tensor) else type(loss).__name__
            raise TypeError(f"loss must be a tensor () with a gradient, got {kind}")
        norm = self.updates.descend(loss)
        value = average(loss.detach())
        self.unread.append(torch.stack((value, norm)))
        if self.device.type == "cpu" or len(self.unread) == READ_EVERY:
            self.read()  # before the weights take it over
        self.updates.step(rate)
        return value

    def read(self) -> None:
        """Turn losses that are still on the device into numbers."""
        if not self.unread:
            return
        for loss, norm in torch.stack(self.unread).tolist():
            if not self.updates.is_fine(loss, norm):
                raise FloatingPointError(
                    f"loss and gradient must be finite, got loss {loss} and a gradient of norm "
                    f"{norm} in step {len(self.losses)}; a lower lr or a longer warm-up may help"
                )
            self.losses.append(loss)
        self.unread.clear()

    def finish(self) -> None:
        """Read what is left, and leave no gradient behind."""
        self.read()
        self.updates.optimizer.zero_grad()

    @contextmanager
    def outliving(self, path: Path | None, steps: int) -> Iterator[None]:
        """Where another process is lost, the first to notice keeps what all have completed."""
        try:
            with peers_needed():
                yield
        except PeerLost as error:
            if path is not None and first_to("save"):
                with suppress(RuntimeError):  # a GPU that waits for the lost one's
                    self.write(path)
            raise TrainingStopped(f"{error} in step {self.done + 1} of {steps}") from error

    def save(self, path: Path | None) -> None:
        """Have process 0 write the checkpoint, if one is wanted, and all wait for it."""
        if path is not None:
            self.read()
            from_first(partial(self.write, path))

    def write(self, path: Path) -> None:
        """Write the checkpoint; what is not finite never gets into one."""
        self.read()
        save_checkpoint(
            path,
            {
                "settings": self._identity(self.done),
                "losses": self.losses,
                "model": self.model.state_dict(),
                **self.updates.state(),
                "random": random_states(self.device),
            },
        )

    def open(self, path: Path, steps: int) -> None:
        """Go on from the checkpoint if there is one; else begin with one: it may fail."""
        there = from_first(lambda: load_checkpoint(path) if path.exists() else None)
        if there is None:
            self.save(path)
            return
        parts = {"settings", "losses", "model", "optimizer", "scaler", "random"}
        if there.keys() | {"scaler"} != parts:
            raise ValueError(f"{path} must be a checkpoint written by fit, got one of {[*there]}")
        done = len(there["losses"])
        # Files from before there was a precision to choose name none.
        for name, ours in self._identity(done).items():
            theirs = ({"precision": "float32"} | there["settings"]).get(name)
            if theirs != ours:
                raise ValueError(
                    f"{path} must be of a training with the same settings, got {name} {theirs} "
                    f"there and {ours} here"
                )
        if done > steps:
            raise ValueError(f"{path} must be of {steps} steps at most, got {done}")
        load_state(self.model, there["model"], str(path))
        self.updates.restore({"scaler": {}} | there)
        self.losses = list(there["losses"])
        set_random_states(there["random"], self.device)

    def _rate(self, step: int) -> float:
        return self.settings["lr"] * self.schedule(step)

    def _identity(self, done: int) -> dict[str, Any]:
        """What must agree for a training to be the continuation of another."""
        sizes = [parameter.numel() for parameter in self.updates.parameters]
        return {
            **self.settings,
            "device": self.device.type,
            "tensors to train": len(sizes),
            "numbers to train": sum(sizes),
            "learning rate of the last step": self._rate(done - 1) if done else None,
        }


@contextmanager
def _training_mode(model: nn.Module) -> Iterator[None]:
    """Training mode inside; afterwards each module in the mode that it was in."""
    before = {module: module.training for module in model.modules()}
    model.train()
    try:
        yield
    finally:
        for module, mode in before.items():
            module.training = mode


def _check_positive(**numbers: float) -> None:
    for name, number in numbers.items():
        if not number > 0:
            raise ValueError(f"{name} must be above 0, got {number}")
