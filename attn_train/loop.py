"""The loop of `attn_notes.training`, for long trainings: checkpoints, parts, several devices."""

import math
import random
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from attn_notes.arguments import check_integers
from attn_notes.modes import evaluating
from attn_notes.training.loop import (
    check_optimiser,
    check_update,
    generators,
    progress_bar,
    seed_rng,
    trainable,
    training,
)
from attn_notes.training.metrics import translation_loss
from attn_notes.training.schedules import Schedule, constant
from attn_train.files import load_checkpoint, save_checkpoint
from attn_train.processes import rank_and_world_size
from attn_train.sharding import from_first, gather, is_divided, share, whole


def fit(
    model: nn.Module,
    batches: Callable[[int], Any],
    loss: Callable[[Any, Any], Any] = translation_loss,
    *,
    steps: int,
    lr: float = 3e-3,
    schedule: Schedule = constant(),
    weight_decay: float = 0.0,
    max_norm: float = 1.0,
    seed: int = 0,
    accumulate: int = 1,
    precision: str = "float32",
    compile: bool = False,  # noqa: A002, torch's name
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 200,
    validate: Callable[[], float] | None = None,
    describe: Callable[[float], str] = "loss {:.3f}".format,
    on_step: Callable[[int, Tensor], None] | None = None,
) -> list[float]:
    """Train a model in place as `attn_notes.training.fit` does, for hours, on several devices.

    Inside `process_group`, all processes of torchrun train together, with a model that `shard` has
    divided or a whole one in each. Their batches and the accumulated ones make one large batch, in
    which each counts as its loss says: `loss(model, batch)` gives the mean loss (), or a tuple of
    it and how much it counts, such as its number of tokens; without this a batch counts once.
    Update n reads the batches n · `accumulate` and on, each a function of its number alone.

    The `precision` is "float32", or "bfloat16" for matrix products under autocast. A `checkpoint`
    is a file to resume from if it exists, and to write at the start, every `checkpoint_every`
    steps, and at the end; on a CPU, a resumed training equals an uninterrupted one bit for bit.
    `validate` gives the held-out loss before each checkpoint, in evaluation mode, without
    gradients; at the end the model gets the weights for which it was lowest. `describe` is what the
    bar says of a loss.

    Returns:
        The loss of every step, including those of a checkpoint.

    Raises:
        FloatingPointError: a loss or gradient that is not finite, with its step.
        ValueError: a checkpoint that is damaged or of another training, among others.
    """
    check_optimiser(steps, seed, lr, weight_decay, max_norm)
    check_integers(1, accumulate=accumulate, checkpoint_every=checkpoint_every)
    if precision not in ("float32", "bfloat16"):
        raise ValueError(f"precision must be float32 or bfloat16, got {precision!r}")
    settings = {"seed": seed, "lr": lr, "weight_decay": weight_decay, "max_norm": max_norm}
    state = State(model, settings | {"precision": precision})
    with training(model, seed):
        state.resume(checkpoint, steps)
        compute = _wrapped(model, loss, compile, precision)
        with progress_bar(len(state.losses), steps, is_first=state.rank == 0) as bar:
            for step in range(len(state.losses), steps):
                several = [batches(step * accumulate + n) for n in range(accumulate)]
                value = state.update(compute, several, lr * schedule(step))
                if on_step is not None:
                    on_step(step + 1, value)
                if (step + 1) % checkpoint_every == 0 or step + 1 == steps:
                    state.keep_best(validate)
                    state.save(checkpoint)
                bar.set_postfix_str(describe(state.losses[-1]), refresh=False)
                bar.update()
        state.optimizer.zero_grad()
        if state.best["model"] is not None:
            model.load_state_dict(state.best["model"])
    return state.losses


def _wrapped(
    model: nn.Module, loss: Callable[[Any, Any], Any], compiled: bool, precision: str
) -> Callable[[Any], Any]:
    """The loss as a function of a batch, for all processes and in this precision."""
    first = next(model.parameters())
    trained: Any = model
    if rank_and_world_size()[1] > 1 and not is_divided(first):
        # Gradients share memory with the buckets; no device_ids, so lengths stay on the CPU.
        trained = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    if compiled:
        trained = torch.compile(trained)

    def compute(batch: Any) -> Any:
        lower = torch.autocast(first.device.type, torch.bfloat16)
        with lower if precision == "bfloat16" else nullcontext():
            return loss(trained, batch.to(first.device))

    return compute


def backward(
    compute: Callable[[Any], Any], batches: list[Any], parameters: list[nn.Parameter]
) -> Tensor:
    """The mean loss () over the batches of all processes; the parameters get its gradient."""
    world_size = rank_and_world_size()[1]
    is_shared = len(batches) * world_size > 1
    parts = []
    for batch in batches:
        found = compute(batch)
        value, count = found if isinstance(found, tuple) else (found, 1)
        count = count if is_shared else 1
        (value * count).backward()
        # A sum of counts in half precision would lose tokens.
        wide = value.detach().to(torch.promote_types(value.dtype, torch.float32))
        parts.append(torch.stack((wide, torch.ones_like(wide))) * count)  # (2,)
    sums = torch.stack(parts).sum(0)
    if world_size > 1:
        dist.all_reduce(sums)
    total, weight = sums
    weight = weight.where(weight > 0, 1)  # batches of padding alone count 0
    for parameter in parameters if is_shared else ():
        if parameter.grad is not None:  # by now the mean over the processes
            parameter.grad *= world_size / weight
    return total / weight


class State:
    """A training under way: everything that a checkpoint of it holds."""

    def __init__(self, model: nn.Module, settings: dict[str, Any]) -> None:
        self.model, self.settings = model, settings
        self.parameters = trainable(model)
        self.device = self.parameters[0].device
        decay = {"weight_decay": settings["weight_decay"]}
        self.optimizer = torch.optim.AdamW(self.parameters, **decay, fused=True)
        self.losses: list[float] = []
        self.best: dict[str, Any] = {"loss": math.inf, "model": None}
        self.rank, self.world_size = rank_and_world_size()

    def update(self, compute: Callable[[Any], Any], batches: list[Any], rate: float) -> Tensor:
        """One step down the gradient of the mean loss over all batches; that loss."""
        step = len(self.losses)
        if self.world_size > 1:  # for each process and step its own dropout, also after resuming
            draw = random.Random(f"{self.settings['seed']} {step} {self.rank}")
            seed_rng(draw.getrandbits(63), self.device)
        self.optimizer.zero_grad()
        value = backward(compute, batches, self.parameters)
        norm = whole(nn.utils.clip_grad_norm_(self.parameters, self.settings["max_norm"]))
        check_update(value.item(), norm.item(), step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.losses.append(value.item())
        return value

    def keep_best(self, validate: Callable[[], float] | None) -> None:
        """Measure the held-out loss, and keep the weights if it is the lowest so far."""
        if validate is not None:
            with evaluating(self.model):
                found = float(from_first(validate()))
            if found < self.best["loss"]:
                weights = {name: w.detach().clone() for name, w in self.model.state_dict().items()}
                self.best = {"loss": found, "model": weights}

    def save(self, path: str | Path | None) -> None:
        """Write the checkpoint, in the first process."""
        if path is None:
            return
        here = {
            "settings": self.settings,
            "losses": self.losses,
            "best": self.best,
            "rng": {one.device.type: one.get_state() for one in generators(self.device)},
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict()["state"],
        }
        here = gather(here, keep=self.rank == 0)
        if self.rank == 0:
            save_checkpoint(path, here)

    def resume(self, path: str | Path | None, steps: int) -> None:
        """Go on from the checkpoint if there is one, else write the first.

        Raises:
            ValueError: it is damaged, has another model or other settings, or has done more steps.
        """
        is_there = path is not None and self.rank == 0 and Path(path).exists()
        there = from_first(load_checkpoint(path) if path is not None and is_there else None)
        if there is None:
            self.save(path)
            return
        likes = self.model.state_dict()
        _check_alike(there["model"], likes, f"{path}: model")
        for name, ours in self.settings.items():
            if (theirs := there["settings"].get(name)) != ours:
                raise ValueError(f"{path} must have {name} {ours}, got {theirs}")
        if (done := len(there["losses"])) > steps:
            raise ValueError(f"{path} must have at most {steps} steps, got {done}")
        for kept in (there, there["best"]):
            if kept["model"] is not None:
                kept["model"] = {n: share(w, likes[n]) for n, w in kept["model"].items()}
        for n, averages in there["optimizer"].items():
            averages |= {name: share(w, self.parameters[n]) for name, w in averages.items()}
        self.model.load_state_dict(there["model"])
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": there["optimizer"], "param_groups": groups})
        self.losses, self.best = there["losses"], there["best"]
        for source in generators(self.device):
            if source.device.type in there["rng"]:  # not if it was trained on another device
                source.set_state(there["rng"][source.device.type])


def _check_alike(found: Mapping[str, Tensor], wanted: Mapping[str, Tensor], origin: str) -> None:
    """Raise unless names and shapes are the same, before anything is taken over."""
    for name in sorted(wanted.keys() ^ found.keys()):
        problem = "is missing" if name in wanted else "is an unexpected entry"
        raise ValueError(f"{origin}: {name} {problem}")
    for name, tensor in wanted.items():
        if (shape := tuple(found[name].shape)) != tuple(tensor.shape):
            must = f"must have shape {tuple(tensor.shape)}"
            raise ValueError(f"{origin}: {name} {must}, got {shape}")
