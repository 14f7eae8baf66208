"""The exercises of chapter 9's published models: what a file holds, and the mean of a text."""

import math
from typing import Any

import torch

from attn_exercises.base import compare, draw, of_function, pair


@of_function
def unpacked(answer: Any) -> None:
    """Queries, keys and values, cut from one layer that holds them head by head."""
    heads, head_dim = 2, 4
    (weights, biases) = draw((heads, 3, head_dim, 8), (heads, 3, head_dim), seed=9)
    weight, bias = weights.flatten(0, 2), biases.flatten()  # (3E, E), (3E,)
    got = pair(answer(weight, bias, heads), "two tensors, the three weights and the three biases")

    right = weights.transpose(0, 1).flatten(1, 2)  # (3, E, E)
    mistakes = {
        "the rows stand head by head, not as in GPT-2's order": weight.view(3, 8, 8),
        "nn.Linear's layout has the outputs first: transpose nothing": right.mT,
        "the weights are in the file's order: put the three in front, the heads behind": weight,
        "the heads come before the three: (H, 3, D), not (3, H, D)": _regrouped(weight, 3, heads),
        "a head's rows stand together, as (H, D), not (D, H)": (
            weights.permute(1, 2, 0, 3).flatten(1, 2)
        ),
        "inside a head the three stand one after the other, (3, D), not (D, 3)": (
            weight.unflatten(0, (heads, head_dim, 3)).permute(2, 0, 1, 3).flatten(1, 2)
        ),
        "keys and values are exchanged": right[[0, 2, 1]],
    }
    compare(got[0], right, "the weights", mistakes)
    mistakes = {
        "the biases stand head by head, like the rows of the weight": bias.view(3, 8),
        "a head's biases stand together, as (H, D), not (D, H)": biases.permute(1, 2, 0).flatten(1),
    }
    compare(got[1], biases.transpose(0, 1).flatten(1), "the biases", mistakes)


def _regrouped(weight: torch.Tensor, three: int, heads: int) -> torch.Tensor:
    """The weights (3, E, E) of who takes the rows' indices as (3, H, D), and exchanges the two."""
    return weight.unflatten(0, (three, heads, -1)).transpose(0, 1).reshape(3, 8, 8)


@of_function
def pooled(answer: Any) -> None:
    """The mean vector of each row's real tokens."""
    (x,) = draw((4, 5, 3), seed=8)
    lengths = torch.tensor([[5], [2], [3], [0]], device=x.device)
    mask = torch.arange(5, device=x.device) < lengths  # (4, 5)
    mask[2] = mask[2].flip(0)  # padding may stand in front
    mask[0, 2] = False  # and inside
    x[1, 1], lengths = 0, mask.sum(1, keepdim=True)  # a real token may be a vector of zeros
    total = (x * mask[..., None]).sum(1)
    mistakes = {
        "the padding counts: leave it out of the sum and of the number": x.mean(1),
        "a row without a real token has the mean 0, not 0 / 0": total / lengths,
        "divide by the number of real tokens, not by the length of the row": total / 5,
        "real tokens may stand anywhere: use the mask, and not how many they are": torch.stack(
            [row[:n].sum(0) / max(n, 1) for row, (n,) in zip(x, lengths.tolist(), strict=True)]
        ),
    }
    right = total / lengths.clamp(min=1)
    compare(answer(x, mask), right, "the mean", mistakes)
    poisoned = x.masked_fill(~mask[..., None], math.nan)
    case = "with NaN in the padding (0 times NaN is NaN, so replace it) "
    compare(answer(poisoned, mask), right, "the mean", case=case)
    sick, its = x.clone(), right.clone()
    sick[1, 0, 2] = its[1, 2] = math.nan
    case = "with NaN in a real token, which must show in the mean, "
    compare(answer(sick, mask), its, "the mean", case=case)
