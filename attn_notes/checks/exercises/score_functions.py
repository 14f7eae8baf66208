"""The checks of chapter 2: scores, the axis of the softmax, and the width to divide by."""

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.nn import functional as F

from attn_notes.checks.exercises.base import exercise, expect_tensor
from attn_notes.checks.properties import CheckFailed, check_weights
from attn_notes.scores import ConcatScore

__all__ = [
    "additive_score",
    "cosine_score",
    "divide_by_width",
    "softmax_axis",
    "which_key_wins",
]

Score = Callable[[Tensor, Tensor], Tensor]


@exercise
def which_key_wins(answer: Mapping[str, str | None]) -> None:
    """The winner among four keys under two scores, before and after all keys are moved.

    Args:
        answer: a letter for each of "dot", "gaussian", "dot, keys moved" and
            "gaussian, keys moved".
    """
    query, keys = (1, 1), {"a": (1, 1), "b": (4, 1), "c": (1, -4), "d": (0, 3)}
    for name in ("dot", "gaussian", "dot, keys moved", "gaussian, keys moved"):
        guess = answer.get(name)
        if guess is None:
            raise NotImplementedError
        if guess not in keys:
            raise CheckFailed(f'the answer for "{name}" should be one of a, b, c, d, got {guess!r}')
        rise = 5 if "moved" in name else 0
        moved = {key: (x, y + rise) for key, (x, y) in keys.items()}
        winner = max(moved, key=lambda key: _plane_score(name, query, moved[key]))
        if guess != winner:
            raise CheckFailed(_why_not(name, guess, query, moved[guess], moved[winner]))


def _plane_score(name: str, query: tuple[int, int], key: tuple[int, int]) -> float:
    """The dot product or the Gaussian score of two vectors of the plane."""
    if name.startswith("dot"):
        return query[0] * key[0] + query[1] * key[1]
    return 0.0 - 0.5 * math.dist(query, key) ** 2  # not -0.0 for a key on the query


def _why_not(
    name: str, guess: str, query: tuple[int, int], key: tuple[int, int], winner: tuple[int, int]
) -> str:
    """Why `guess` does not win, without naming the key that does."""
    got, best = _plane_score(name, query, key), _plane_score(name, query, winner)
    message = f'"{name}": {guess} is {key} and scores {got:g}, but another key scores {best:g}'
    if name == "dot" and guess == "a":
        message += "; being the query itself is no guarantee: the dot product rewards length"
    return message


@exercise
def additive_score(answer: Callable[..., Tensor]) -> None:
    """A batched additive score, held against the package's own.

    Args:
        answer: `additive_score(query, key, w_q, w_k, w_v)` with shapes (B, L, Dq), (B, S, Dk),
            (h, Dq), (h, Dk) and (h,); returns (B, L, S).
    """
    # Another prime on every axis, so that no two can be taken for one another.
    B, L, S, query_dim, key_dim, hidden_dim = 2, 3, 5, 7, 11, 13
    query, key = _draw((B, L, query_dim), (B, S, key_dim))
    w_q, w_k, w_v = _draw((hidden_dim, query_dim), (hidden_dim, key_dim), (hidden_dim,), seed=1)
    got = answer(query, key, w_q, w_k, w_v)
    # The oracle is the concat form, which the reader's formula must equal.
    score = ConcatScore(query_dim, key_dim, hidden_dim)
    joined = torch.cat((w_q, w_k), dim=1)
    score.load_state_dict({"proj.weight": joined, "v_proj.weight": w_v[None]})
    expected = score(query, key).detach()
    linear = (query @ w_q.T @ w_v)[:, :, None] + (key @ w_k.T @ w_v)[:, None, :]
    if _equal(got, linear):
        raise CheckFailed("there is no tanh in between, so every query will read alike")
    if _equal(got, expected.transpose(1, 2)):
        raise CheckFailed("queries and keys have changed places: rows are queries, (B, L, S)")
    _refuse_weights(got, expected)
    expect_tensor(got, expected, "the scores", atol=1e-4)


@exercise
def cosine_score(answer: Score) -> None:
    """The cosine of every query with every key; 0 for a zero vector.

    Args:
        answer: `cosine_score(query, key)` with shapes (..., L, D) and (..., S, D); returns
            (..., L, S).
    """
    query, key = _draw((2, 3, 7), (2, 5, 7))
    dot = query @ key.transpose(-2, -1)
    lengths = query.norm(dim=-1)[..., :, None] * key.norm(dim=-1)[..., None, :]
    got = answer(query, key)
    if _equal(got, dot):
        raise CheckFailed("this is the dot product: divide by both lengths")
    if _equal(got, dot / math.sqrt(7)):
        raise CheckFailed("this divides by the root of the width, not by the two lengths")
    if _equal(got, dot / lengths.square()):
        raise CheckFailed("this divides by the squared lengths: take the root")
    if _equal(got, dot / (query.norm() * key.norm())):
        raise CheckFailed("this takes one length for the whole tensor: each vector has its own")
    _refuse_weights(got, dot / lengths)
    expect_tensor(got, dot / lengths, "the cosines")
    zero = answer(torch.zeros_like(query), key)
    if not bool(zero.isfinite().all()):
        raise CheckFailed("a query of zeros gives NaN: it has no direction, and should score 0")
    expect_tensor(zero, torch.zeros_like(dot), "the cosines of a query of zeros")


@exercise
def softmax_axis(answer: Score) -> None:
    """Scaled dot-product weights whose rows sum to 1, whatever axes stand in front.

    Args:
        answer: `weights_of(query, key)` with shapes (..., L, D) and (..., S, D); returns
            (..., L, S).
    """
    for lead in ((), (2,), (2, 3)):
        query, key = _draw((*lead, 5, 11), (*lead, 7, 11))
        scores = query @ key.transpose(-2, -1) / math.sqrt(11)
        got, shape = answer(query, key), tuple(query.shape)
        for axis, name in enumerate((*("batch", "heads")[: len(lead)], "queries")):
            if _equal(got, scores.softmax(axis)):
                raise CheckFailed(
                    f"for queries {shape} the softmax ran over axis {axis}, the {name}"
                )
        expect_tensor(got, scores.softmax(-1), f"the weights for queries {shape}")
        check_weights(got)


@exercise
def divide_by_width(answer: Callable[[int], tuple[float, float]]) -> None:
    """What dividing by d does: a variance of 1/d, and nearly all the entropy there can be.

    Args:
        answer: `measure(d)`, which returns the variance of the scores and the mean entropy of
            their softmax as a share of the greatest possible.
    """
    for d in (16, 1024):
        variance, share = (float(number) for number in answer(d))
        if math.isclose(variance, 1.0, rel_tol=0.2):
            raise CheckFailed(f"at d = {d} the variance is 1: that is still the root of d")
        if math.isclose(variance, d, rel_tol=0.2):
            raise CheckFailed(f"at d = {d} the variance is d: nothing has been divided")
        if math.isclose(variance, d**-0.5, rel_tol=0.2):
            raise CheckFailed(f"at d = {d} this is the standard deviation: square it")
        if not math.isclose(variance, 1 / d, rel_tol=0.2):
            raise CheckFailed(f"at d = {d} the variance should be {1 / d:.2g}, got {variance:.2g}")
        if share > 1.01:
            raise CheckFailed(f"an entropy of {share:.2f} is in nats: divide it by ln 64")
        if share < 0.98:
            raise CheckFailed(f"at d = {d} nearly all the entropy should be left, got {share:.2f}")


def _draw(*shapes: tuple[int, ...], seed: int = 0) -> list[Tensor]:
    """One normal tensor for each shape, the same on every machine."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator, device="cpu") for shape in shapes]


def _equal(got: object, wrong: Tensor) -> bool:
    """Whether the answer is this well-known wrong one."""
    return (
        isinstance(got, Tensor)
        and got.shape == wrong.shape
        and torch.allclose(got.float(), wrong, atol=1e-4)
    )


def _refuse_weights(got: object, scores: Tensor) -> None:
    """Raise if the answer went one step too far."""
    if _equal(got, F.softmax(scores, dim=-1)):
        raise CheckFailed("these are the weights: return the scores, before the softmax")
