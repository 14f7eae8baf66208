"""The training loop: one for every model of the book, in plain torch (chapter 4 and on)."""

import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import AdamW
from tqdm import tqdm

from attn_notes.arguments import check_integers, check_positive
from attn_notes.training.metrics import translation_loss
from attn_notes.training.schedules import Schedule, constant


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
    on_step: Callable[[int, Tensor], None] | None = None,
) -> list[float]:
    """Train a model in place: AdamW (Loshchilov and Hutter, 2019), clipped gradients. Chapter 4.

    The caller's random state stays as it is. A bar is shown in a terminal or a notebook, unless
    `ATTN_NOTES_PROGRESS=0` is set. `attn_train` has the loop for longer trainings.

    Args:
        model: its parameters that require a gradient are trained, on their device.
        batches: `batches(n)` is batch 0, 1, …, with a method `to(device)`.
        loss: `loss(model, batch)` gives the mean loss (), or a tuple that begins with it.
        steps: the number of updates.
        lr: the highest learning rate.
        schedule: maps a step to a factor of `lr`.
        weight_decay: of AdamW.
        max_norm: the gradient's largest norm, over all parameters; `math.inf` clips nothing.
        seed: of dropout, 0 or more.
        on_step: called as `on_step(done, loss)` after each update; the loss () is a tensor.

    Returns:
        The loss of every step; a loss or gradient that is not finite raises a FloatingPointError.

    Example:
        >>> target = torch.tensor([1.0, -1.0])
        >>> model = nn.Linear(2, 2)
        >>> square = lambda model, x: (model(x) - x).square().mean()
        >>> losses = fit(model, lambda n: target, square, steps=100, lr=0.1)
        >>> losses[-1] < 0.01 * losses[0]
        True
    """
    check_optimiser(steps, seed, lr, weight_decay, max_norm)
    parameters = trainable(model)
    optimizer = AdamW(parameters, weight_decay=weight_decay, fused=True)
    losses: list[float] = []
    with training(model, seed), progress_bar(0, steps) as bar:
        for step in range(steps):
            found = loss(model, batches(step).to(parameters[0].device))
            value = found[0] if isinstance(found, tuple) else found
            optimizer.zero_grad()
            value.backward()
            norm = nn.utils.clip_grad_norm_(parameters, max_norm)
            check_update(value.item(), norm.item(), step)
            for group in optimizer.param_groups:
                group["lr"] = lr * schedule(step)
            optimizer.step()
            losses.append(value.item())
            if on_step is not None:
                on_step(step + 1, value.detach())
            bar.set_postfix_str(f"loss {losses[-1]:.3f}", refresh=False)
            bar.update()
    optimizer.zero_grad()
    return losses


def trainable(model: nn.Module) -> list[nn.Parameter]:
    """The parameters that require a gradient; raise if there are none."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    if not parameters:
        raise ValueError("model must have parameters that require a gradient, got none")
    return parameters


def check_optimiser(steps: int, seed: int, lr: float, weight_decay: float, max_norm: float) -> None:
    """Raise for what would train another way without a word, such as uphill."""
    check_integers(0, steps=steps, seed=seed)
    check_positive(lr=lr, max_norm=min(max_norm, 1e30))  # infinity clips nothing
    if not 0 <= weight_decay < math.inf:
        raise ValueError(f"weight_decay must be 0 or more, and finite, got {weight_decay}")


def check_update(loss: float, norm: float, step: int) -> None:
    """Raise unless loss and gradient are finite, before the weights take them over."""
    if not math.isfinite(loss + norm):
        got = f"loss {loss} and a gradient of norm {norm} in step {step}"
        hint = "a lower lr or a longer warm-up may help"
        raise FloatingPointError(f"loss and gradient must be finite, got {got}; {hint}")


@contextmanager
def training(model: nn.Module, seed: int) -> Iterator[None]:
    """Training mode and seeded generators inside; afterwards everything as it was."""
    device = next(model.parameters()).device
    modes = {module: module.training for module in model.modules()}
    states = [(source, source.get_state()) for source in generators(device)]
    try:
        model.train()
        seed_rng(seed, device)
        yield
    finally:
        for source, state in states:
            source.set_state(state)
        for module, mode in modes.items():
            module.training = mode


def generators(device: torch.device) -> list[torch.Generator]:
    """The random number generators of the CPU and of a device."""
    match device.type:
        case "cuda":
            return [torch.default_generator, torch.cuda.default_generators[device.index]]
        case "mps":
            return [torch.default_generator, torch.mps._get_default_mps_generator()]
    return [torch.default_generator]


def seed_rng(seed: int, device: torch.device) -> None:
    """Seed the CPU and one device; torch.manual_seed would seed every device."""
    for generator in generators(device):
        generator.manual_seed(seed)


def progress_bar(done: int, steps: int, *, is_first: bool = True) -> Any:
    """A bar, in the first process; hidden where nobody watches or the output is compared."""
    is_watched = sys.stderr.isatty() or type(sys.stderr).__module__.startswith("ipykernel")
    is_compared = "PYTEST_CURRENT_TEST" in os.environ  # a kernel that nbval starts inherits it
    is_silenced = os.environ.get("ATTN_NOTES_PROGRESS") == "0" or is_compared or not is_first
    count: Any = {"total": steps, "initial": done, "unit": "step"}
    return tqdm(desc="training", **count, disable=is_silenced or not is_watched, file=sys.stderr)
