"""What torch is switched to for a while: evaluation, and 32 bits under autocast."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
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


def is_autocast(tensor: Tensor) -> bool:
    """Whether autocast is on for the device of this tensor."""
    kind = tensor.device.type
    return torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)


def without_autocast(tensor: Tensor) -> AbstractContextManager:
    """Autocast is off inside for the device of this tensor: what has 32 bits keeps them."""
    if is_autocast(tensor):
        return torch.autocast(tensor.device.type, enabled=False)
    return nullcontext()
