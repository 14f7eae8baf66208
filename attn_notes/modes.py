"""What torch is switched to for a while: evaluation, and 32 bits under autocast."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import torch
from torch import Tensor, nn


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """No gradients and no dropout inside; afterwards every module is in its earlier mode."""
    modules = list(model.modules()) if isinstance(model, nn.Module) else []
    modes = [module.training for module in modules]  # a part may be frozen, and the rest not
    try:
        for module in modules:
            module.training = False
        with torch.inference_mode():
            yield
    finally:
        for module, mode in zip(modules, modes, strict=True):
            module.training = mode


def full_precision(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function compute in 32 bits or more where autocast is on, which would round scores."""

    @wraps(function)
    def call(*inputs: Any, **options: Any) -> Any:
        tensor = next(x for x in (*inputs, *options.values()) if isinstance(x, Tensor))
        if not is_autocast(tensor):
            return function(*inputs, **options)
        with torch.autocast(tensor.device.type, enabled=False):
            wide = (_widened(x) for x in inputs)
            return function(*wide, **{name: _widened(x) for name, x in options.items()})

    return call


def is_autocast(tensor: Tensor) -> bool:
    """Whether autocast is on for the device of this tensor."""
    kind = tensor.device.type
    return torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)


def _widened(x: Any) -> Any:
    if isinstance(x, Tensor) and x.is_floating_point():
        return x.to(torch.promote_types(x.dtype, torch.float32))
    return x
