"""The updates of a training: AdamW on clipped gradients, in one of three precisions (chapter 4)."""

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["PRECISIONS", "Updates"]

PRECISIONS = ("float32", "bfloat16", "float16")
"""What a model may compute in while it trains; its weights stay in what they are."""


class Updates:
    """AdamW (Loshchilov and Hutter, 2019) on clipped gradients, in one of `PRECISIONS`.

    In bfloat16 and float16, torch's autocast has matrix products computed in 16 bits and sums,
    softmax and losses in 32. A gradient of 16 bits may be too small for float16, which ends at
    6e-8: so there the loss is multiplied by a large number first and the gradients divided by it
    afterwards, and where that overflows, the step is left out and the number halved
    (Micikevicius et al., 2018).

    Args:
        parameters: to be trained, one or more, on one device.
        lr: the learning rate.
        weight_decay: how much a weight shrinks in a step, in units of the learning rate.
        max_norm: the longest gradient, over all parameters together.
        precision: one of `PRECISIONS`.

    Raises:
        ValueError: another precision.

    Example:
        >>> weight = nn.Parameter(torch.ones(2))
        >>> updates = Updates([weight], lr=0.5, weight_decay=0.0, max_norm=1.0)
        >>> norm = updates.descend(weight.square().sum())
        >>> updates.step(lr=0.5)
        >>> weight.detach()
        tensor([0.5000, 0.5000])
    """

    def __init__(
        self,
        parameters: Sequence[nn.Parameter],
        *,
        lr: float,
        weight_decay: float,
        max_norm: float,
        precision: str = "float32",
    ) -> None:
        if precision not in PRECISIONS:
            raise ValueError(f"precision must be one of {', '.join(PRECISIONS)}, got {precision!r}")
        self.parameters, self.max_norm, self.precision = parameters, max_norm, precision
        self.device = parameters[0].device
        self.optimizer = torch.optim.AdamW(
            parameters, lr=lr, weight_decay=weight_decay, fused=True
        )  # fused: all parameters in one call
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=precision == "float16")

    def in_precision(self) -> AbstractContextManager[Any]:
        """What the model and its loss are computed under.

        Returns:
            A context, anew for each step; in float32 one that does nothing.
        """
        if self.precision == "float32":
            return nullcontext()
        return torch.autocast(self.device.type, dtype=getattr(torch, self.precision))

    def descend(self, loss: Tensor) -> Tensor:
        """The gradients of a loss, clipped.

        Args:
            loss: (), of what was computed `in_precision`.

        Returns:
            (), the norm that the gradients had before they were clipped.
        """
        self.optimizer.zero_grad()
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)
        return nn.utils.clip_grad_norm_(self.parameters, self.max_norm)

    def step(self, lr: float) -> None:
        """Change the parameters by what their gradients say.

        Args:
            lr: the learning rate of this step.
        """
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.scaler.step(self.optimizer)  # in float16 it leaves out what has overflowed
        self.scaler.update()

    def is_fine(self, loss: float, norm: float) -> bool:
        """Whether a training can go on from here.

        Args:
            loss: of a step.
            norm: of its gradient.

        Returns:
            Whether both are finite; in float16 the norm need not be, while there is a smaller
            factor to be tried.
        """
        overflow = self.scaler.is_enabled() and self.scaler.get_scale() > 1.0
        return math.isfinite(loss) and (math.isfinite(norm) or overflow)

    def state(self) -> dict[str, dict[str, Any]]:
        """What a checkpoint has to hold of it.

        Returns:
            The optimizer's state and the scaler's, which is empty but in float16.
        """
        return {"optimizer": self.optimizer.state_dict(), "scaler": self.scaler.state_dict()}

    def restore(self, there: dict[str, Any]) -> None:
        """Go on from a checkpoint.

        Args:
            there: what holds at least that which `state` gave.
        """
        self.optimizer.load_state_dict(there["optimizer"])
        self.scaler.load_state_dict(there["scaler"])
