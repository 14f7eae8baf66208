"""The exercises of chapter 11 that ask for code: a patch, and the shares of a logit."""

from typing import Any

import torch
from torch import Tensor, nn

from attn_exercises.base import compare, difference, draw, of_function
from attn_notes.checks.properties import CheckFailed


class _Layer(nn.Module):
    """What a patch needs of an attention layer; its input is what the heads say, side by side."""

    def __init__(self, num_heads: int, weight: Tensor) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.out_proj = nn.utils.skip_init(nn.Linear, *weight.shape, bias=False)
        self.out_proj.weight = nn.Parameter(weight, requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.out_proj(x)


@of_function
def patched_position(answer: Any) -> None:
    """A context manager that changes what one head says at one position, and nothing else."""
    heads, new, weight = draw((3, 5, 4, 2), (3, 2), (8, 8))  # (B, L, H, D), (B, D), (E, E)
    x, layer, head, position = heads.flatten(2).clone(), _Layer(4, weight), 1, 3

    def put(positions: Any, features: Any, value: Tensor = new, of: Tensor = x) -> Tensor:
        changed = of.clone()
        changed[:, positions, features] = value
        return changed

    right, plain, own = layer(put(position, slice(2, 4))), layer(x), slice(2, 4)
    everywhere = put(slice(None), own, new[:, None])
    mistakes = {
        "nothing changes: the hook must return the new arguments": plain,
        "the head changes at every position": layer(everywhere),
        "every head changes": layer(put(position, slice(None), new.repeat(1, 4))),
        "heads are counted from 0": layer(put(position, slice(0, 2))),
        "positions are counted from 0": layer(put(position - 1, own)),
        "head h owns the features from hD to (h + 1)D": layer(put(position, slice(1, None, 4))),
        "this changes the layer's output: change what goes into out_proj": put(
            position, own, of=plain
        ),
    }

    runs: list[int] = []
    layer.out_proj.register_forward_pre_hook(lambda *_: runs.append(1))  # somebody else's

    def opened(head: int = head, position: int = position) -> Any:
        manager = answer(layer, head, position, new)
        if not hasattr(manager, "__enter__"):
            raise CheckFailed("the answer should be a context manager: is @contextmanager missing?")
        return manager

    with opened():
        got = layer(x)
    compare(got, right, "the output", mistakes)
    if difference(x, heads.flatten(2)):
        raise CheckFailed("a tensor that was recorded before changes too: work on a clone")
    hook = {"afterwards the layer is still patched: remove the hook": right}
    runs.clear()
    compare(layer(x), plain, "afterwards the output", hook)
    if not runs:
        raise CheckFailed("a hook of somebody else is gone too: remove only your own")
    other = layer(put(0, slice(4, 6)))
    with opened(2, 0):
        compare(layer(x), other, "of head 2 at position 0, the output")

    def fail() -> None:
        with opened():
            raise InterruptedError

    try:
        fail()
    except InterruptedError:
        left = {"after an error in the `with` the hook is still there: remove it in finally": right}
        compare(layer(x), plain, "after an error the output", left)
    else:
        raise CheckFailed("an error in the `with` must come out of it")


@of_function
def shares_of_a_logit(answer: Any) -> None:
    """(P + 1,): the share of each of P parts in a logit, and last that of the norm's bias."""
    for eps, size in ((1e-5, 1.0), (0.5, 0.3)):
        parts, u, gamma, beta = draw((4, 6), (6,), (6,), (6,))
        parts = size * parts + 0.5
        x, last = parts.sum(0), (beta @ u)[None]
        plain, scale = x.std(correction=0), (x.var(correction=0) + eps).sqrt()
        own = _centred(parts) @ (gamma * u) / scale
        each, fewer = (parts.var(-1, correction=0) + eps).sqrt(), (x.var() + eps).sqrt()
        gained = _centred(parts * gamma)
        wrong = {
            "each part has its own standard deviation: divide by that of x": own * scale / each,
            "subtract the mean of each part: C belongs to the share": parts @ (gamma * u) / scale,
            "the gain is missing": _centred(parts) @ u / scale,
            "the standard deviation divides by E, not by E - 1": own * scale / fewer,
            "eps is missing under the root, or is not the one given": own * scale / plain,
            "eps stands under the root": own * scale / (plain + eps),
            "subtract the mean first, then multiply by the gain": gained @ u / scale,
            "divide by the standard deviation, and not by the variance": own / scale,
            "nothing is divided by the standard deviation": own * scale,
            "the bias is a part of its own: do not divide it": own + last / len(parts),
        }
        mistakes = {words: torch.cat([shares, last]) for words, shares in wrong.items()} | {
            "the share of the bias is u · beta, with no division": torch.cat([own, last / scale]),
            "the share of the bias is missing: return P + 1 shares": own,
            "return the shares, and not their sum": own.sum() + last.sum(),
            "the share of the bias stands last": torch.cat([last, own]),
        }
        got = answer(parts, u, gamma, beta, eps)
        compare(got, torch.cat([own, last]), "the shares", mistakes, f"eps = {eps}: ")


def _centred(x: Tensor) -> Tensor:
    """Each row minus its mean."""
    return x - x.mean(-1, keepdim=True)
