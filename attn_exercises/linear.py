"""The exercises of chapter 13: a state that goes on, the gated delta rule, and a wild average."""

from typing import Any

import torch
from torch import Tensor

from attn_exercises.base import compare, draw, exercise, numbers, of_function, pair
from attn_notes.checks.properties import CheckFailed


@of_function
def read_on(answer: Any) -> None:
    """Causal linear attention that takes a state and returns the next one."""
    q, k, v = (x.abs() for x in draw((5, 3), (5, 3), (5, 2), seed=13))
    k[:2], q[0] = 0, 0
    (S, z) = (x.abs() for x in draw((3, 2), (3,), seed=14))
    fresh, old = (torch.zeros_like(S), torch.zeros_like(z)), (S, z)
    what = "the outputs, and the state as a pair"
    for state, case in ((old, "going on from a state: "), (fresh, "from a state of zeros: ")):
        given = state[0].clone(), state[1].clone()
        outputs, after = pair(answer(q, k, v, given), what)
        if not (given[0].equal(state[0]) and given[1].equal(state[1])):
            raise CheckFailed("the answer changes the state in place: work on a copy")
        right = _read(q, k, v, state)
        zero = _read(q, k, v, fresh)
        mistakes = {
            "write before you read: a query reads its own key, too": _read(q, k, v, state, early=1),
            "the state that came is not read": zero,
            "z that came is left out of the normaliser": _read(q, k, v, (state[0], fresh[1])),
            "S that came is left out of the sum": _read(q, k, v, (fresh[0], state[1])),
            "divide by the sum of the weights": _read(q, k, v, state, divide=False),
            "a query may read no key after it": _read(q, k, v, state, causal=False),
            "where the normaliser is 0 the output is 0, not 0 / 0": _read(
                q, k, v, state, guarded=False
            ),
        }
        compare(outputs, right, "the outputs", mistakes, case)
        got = pair(after, "the state as a pair, S and z")
        whole = state[0] + k.mT @ v, state[1] + k.sum(0)
        words = {
            "the new state adds to the one that came": k.mT @ v,
            "return S first, then z": whole[1],
        }
        compare(got[0], whole[0], "S", words, case)
        words = {"z adds to the one that came": k.sum(0), "z is a sum, no mean": k.mean(0)}
        compare(got[1], whole[1], "z", words, case)


def _read(
    q: Tensor, k: Tensor, v: Tensor, state: tuple[Tensor, Tensor], *, early: int = 0,
    divide: bool = True, causal: bool = True, guarded: bool = True,
) -> Tensor:  # fmt: skip
    """The outputs, right or with one of the mistakes."""
    weights = (q @ k.mT).tril(-early) if causal else q @ k.mT
    sums, total = q @ state[0] + weights @ v, (q @ state[1] + weights.sum(-1))[:, None]
    if not divide:
        return sums
    return torch.where(total == 0, 0.0, sums / total) if guarded else sums / total


@of_function
def gated_delta(answer: Any) -> None:
    """One step of the gated delta rule."""
    S, k, v = draw((4, 3), (4,), (3,), seed=15)
    k = k / k.norm()
    for beta, gate in ((0.5, 0.25), (1.0, 0.0), (0.75, 1.0)):
        left, rest = gate * S, (1 - gate) * S
        right = left + beta * torch.outer(k, v - k @ left)
        mistakes = {
            "subtract what the key reads after the gate, not before": (
                left + beta * torch.outer(k, v - k @ S)
            ),
            "the gate comes before the write, and leaves the new value alone": (
                gate * (S + beta * torch.outer(k, v - k @ S))
            ),
            "everything fades, by the gate": S + beta * torch.outer(k, v - k @ S),
            "subtract what the key reads already": left + beta * torch.outer(k, v),
            "the gate is the share that is kept: multiply by it, not by 1 - gate": (
                rest + beta * torch.outer(k, v - k @ rest)
            ),
            "beta is the share that is corrected": left + torch.outer(k, v - k @ left),
            "go down the slope of the error, not up": left - beta * torch.outer(k, v - k @ left),
            "beta scales what is erased as well": (left + torch.outer(k, beta * v - k @ left)),
        }
        case = f"with beta = {beta} and gate = {gate}: "
        compare(answer(S, k, v, beta, gate), right, "the state", mistakes, case)


@exercise
def far_outside(answer: Any) -> None:
    """A query, two keys and two values whose average with the weights 1 + q·k is above 100."""
    query, keys, values = _three(answer)
    if not (query.abs() <= 2).all() or not (keys.abs() <= 2).all():
        raise CheckFailed("the entries of query and keys must be from -2 to 2")
    if not ((values >= 0) & (values <= 1)).all():
        raise CheckFailed("the values must be from 0 to 1")
    weights = 1 + keys @ query
    if weights.sum().abs() < 1e-5:
        raise CheckFailed("the sum of the weights must not be 0: there is no average then")
    if (weights >= 0).all():
        raise CheckFailed("no weight is negative, so the output stays among the values")
    output = (weights @ values / weights.sum()).item()
    if output < -100:
        words = "far outside, but below: give the other key the value 1"
        raise CheckFailed(f"the output is {output:.4g}, {words}")
    if output <= 100:
        raise CheckFailed(f"the output is {output:.4g}: bring the sum of the weights nearer to 0")


def _three(answer: Any) -> list[Tensor]:
    """The query (2,), the keys (2, 2) and the values (2,) of an answer."""
    if not isinstance(answer, tuple | list) or len(answer) != 3:
        raise CheckFailed("give a query, two keys and two values")
    if any(part is None for part in answer):
        raise NotImplementedError
    wanted = {"the query": (2,), "the keys": (2, 2), "the values": (2,)}
    parts = []
    for part, (name, shape) in zip(answer, wanted.items(), strict=True):
        x = numbers(part, f"{name} must be numbers").double()
        if x.shape != shape:
            raise CheckFailed(f"{name} must have shape {shape}, got {tuple(x.shape)}")
        parts.append(x)
    return parts
