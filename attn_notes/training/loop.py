"""The training loop: one for every model of the book (chapter 4 and on)."""

import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, Self

import torch
from torch import Tensor, nn
from tqdm import tqdm

from attn_notes.training.checkpoints import load_checkpoint, load_state, save_checkpoint
from attn_notes.training.losses import translation_loss
from attn_notes.training.schedules import Schedule, constant

__all__ = ["Movable", "fit"]

READ_EVERY = 16  # steps on an accelerator: reading a number makes the CPU wait for it


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
) -> list[float]:
    """Train a model, in place: AdamW (Loshchilov and Hutter, 2019) on clipped gradients. Chapter 4.

    Dropout draws from a generator seeded with `seed`; the caller's own is as before afterwards,
    and so is the mode (training or evaluation) of each module.

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

    Returns:
        The loss of every step, those of a resumed checkpoint included.

    Raises:
        FloatingPointError: a loss or gradient that is not finite, with its step.
        OSError: the checkpoint cannot be read or written.
        TypeError: a loss that is not a tensor () with a gradient, or a number of steps that is
            not an integer.
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
    _check_steps(steps)
    if not 0 <= weight_decay < math.inf:
        raise ValueError(f"weight_decay must be 0 or more, got {weight_decay}")
    _check_positive(lr=lr, max_norm=max_norm, checkpoint_every=checkpoint_every)
    settings = {"seed": seed, "lr": lr, "weight_decay": weight_decay, "max_norm": max_norm}
    with _training_mode(model), _own_randomness(model, seed):
        state = _State(model, settings, schedule)
        if checkpoint is not None:
            state.open(Path(checkpoint), steps)
        with _bar(state.done, steps, progress) as bar:
            for step in range(state.done, steps):
                value = state.update(loss(model, batches(step).to(state.device)))
                if on_step is not None:
                    on_step(step + 1, value)
                if checkpoint is not None and (
                    (step + 1) % checkpoint_every == 0 or step + 1 == steps
                ):
                    state.save(Path(checkpoint))
                _advance(bar, state.losses)
        state.finish()
    return state.losses


class _State:
    """What a training is made of, and what a checkpoint of it holds."""

    def __init__(self, model: nn.Module, settings: dict[str, Any], schedule: Schedule) -> None:
        self.model, self.settings, self.schedule = model, settings, schedule
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        if not self.parameters:
            raise ValueError("model must have parameters that require a gradient, got none")
        self.device = self.parameters[0].device
        self.optimizer = torch.optim.AdamW(
            self.parameters,
            lr=settings["lr"],
            weight_decay=settings["weight_decay"],
            fused=True,  # all parameters in one call
        )
        self.losses: list[float] = []
        self.unread: list[Tensor] = []  # (2,): loss and norm of the gradient, where they arose

    @property
    def done(self) -> int:
        return len(self.losses) + len(self.unread)

    def update(self, loss: Tensor) -> Tensor:
        """One step down the gradient of `loss`; the loss without its history."""
        if not (isinstance(loss, Tensor) and loss.dim() == 0 and loss.requires_grad):
            kind = tuple(loss.shape) if isinstance(loss, Tensor) else type(loss).__name__
            raise TypeError(f"loss must be a tensor () with a gradient, got {kind}")
        for group in self.optimizer.param_groups:
            group["lr"] = self._rate(self.done)
        self.optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.parameters, self.settings["max_norm"])
        self.unread.append(torch.stack((loss.detach(), norm)))
        if self.device.type == "cpu" or len(self.unread) == READ_EVERY:
            self.read()  # before the weights take it over
        self.optimizer.step()
        return loss.detach()

    def read(self) -> None:
        """Turn losses that are still on the device into numbers."""
        if not self.unread:
            return
        for loss, norm in torch.stack(self.unread).tolist():
            if not (math.isfinite(loss) and math.isfinite(norm)):
                raise FloatingPointError(
                    f"loss and gradient must be finite, got loss {loss} and a gradient of norm "
                    f"{norm} in step {len(self.losses)}; a lower lr or a longer warm-up may help"
                )
            self.losses.append(loss)
        self.unread.clear()

    def finish(self) -> None:
        """Read what is left, and leave no gradient behind."""
        self.read()
        self.optimizer.zero_grad()

    def save(self, path: Path) -> None:
        """Write the checkpoint; what is not finite never gets into one."""
        self.read()
        save_checkpoint(
            path,
            {
                "settings": self._identity(self.done),
                "losses": self.losses,
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "random": _random_states(self.device),
            },
        )

    def open(self, path: Path, steps: int) -> None:
        """Go on from the checkpoint if there is one; else begin with one: it may fail."""
        if not path.exists():
            self.save(path)
            return
        there = load_checkpoint(path)
        if there.keys() != {"settings", "losses", "model", "optimizer", "random"}:
            raise ValueError(f"{path} must be a checkpoint written by fit, got one of {[*there]}")
        done = len(there["losses"])
        for name, ours in self._identity(done).items():
            theirs = there["settings"].get(name)
            if theirs != ours:
                raise ValueError(
                    f"{path} must be of a training with the same settings, got {name} {theirs} "
                    f"there and {ours} here"
                )
        if done > steps:
            raise ValueError(f"{path} must be of {steps} steps at most, got {done}")
        load_state(self.model, there["model"], str(path))
        self.optimizer.load_state_dict(there["optimizer"])
        self.losses = list(there["losses"])
        _set_random_states(there["random"], self.device)

    def _rate(self, step: int) -> float:
        return self.settings["lr"] * self.schedule(step)

    def _identity(self, done: int) -> dict[str, Any]:
        """What must agree for a training to be the continuation of another."""
        sizes = [parameter.numel() for parameter in self.parameters]
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


@contextmanager
def _own_randomness(model: nn.Module, seed: int) -> Iterator[None]:
    """Generators seeded inside; afterwards the caller's numbers go on as if nothing had been."""
    device = next(model.parameters(), torch.empty(0, device="cpu")).device
    before = _random_states(device)
    try:
        # This device's generator alone: torch.manual_seed would change those of all GPUs.
        seeded = {
            d.type: torch.Generator(d).manual_seed(seed) for d in (torch.device("cpu"), device)
        }
        _set_random_states({kind: each.get_state() for kind, each in seeded.items()}, device)
        yield
    finally:
        _set_random_states(before, device)


def _random_states(device: torch.device) -> dict[str, Tensor]:
    """The state of the CPU's generator and of the device's, by the kind of device."""
    states = {"cpu": torch.get_rng_state()}
    if device.type != "cpu":
        states[device.type] = torch.get_device_module(device).get_rng_state(*_index(device))
    return states


def _set_random_states(states: dict[str, Tensor], device: torch.device) -> None:
    torch.set_rng_state(states["cpu"])
    if device.type != "cpu":
        torch.get_device_module(device).set_rng_state(states[device.type], *_index(device))


def _index(device: torch.device) -> tuple[torch.device, ...]:
    return () if device.type == "mps" else (device,)  # which has but one


def _bar(done: int, steps: int, shown: bool | None) -> "tqdm[Any]":
    """The progress bar; silent where nobody watches, or where the output is compared."""
    if shown is None:
        kept_quiet = os.environ.get("ATTN_NOTES_PROGRESS") == "0"
        tested = "PYTEST_CURRENT_TEST" in os.environ  # a kernel that nbval starts inherits it
        in_notebook = type(sys.stderr).__module__.startswith("ipykernel")
        shown = (sys.stderr.isatty() or in_notebook) and not (kept_quiet or tested)
    return tqdm(
        desc="training", total=steps, initial=done, unit="step", disable=not shown, file=sys.stderr
    )


def _advance(bar: "tqdm[Any]", losses: list[float]) -> None:
    if losses and not bar.disable:
        bar.set_postfix_str(f"loss {losses[-1]:.3f}", refresh=False)
    bar.update()


def _check_steps(steps: int) -> None:
    if not isinstance(steps, int):
        raise TypeError(f"steps must be an integer, got {steps!r}")
    if steps < 0:
        raise ValueError(f"steps must be 0 or more, got {steps}")


def _check_positive(**numbers: float) -> None:
    for name, number in numbers.items():
        if not number > 0:
            raise ValueError(f"{name} must be above 0, got {number}")
