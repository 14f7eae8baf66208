"""The exercises of chapter 8: what is known, asked, drawn, measured and remembered."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from attn_notes.checks.exercises.base import exercise, expect_tensor
from attn_notes.checks.properties import CheckFailed
from attn_notes.data import Vocabulary, python_documentation
from attn_notes.device import get_device
from attn_notes.ngrams import NGramModel

__all__ = [
    "bits_from_perplexity",
    "eighty_ten_ten",
    "how_many_known",
    "nucleus",
    "pooled",
    "proud_number",
    "seen_before",
]

KNOWN = {
    "a": (8, "an encoder's output has read every token"),
    "b": (6, "a causal mask adds nothing with depth: 0 to 5"),
    "c": (4, "output 1 lies in the prefix, and the prefix reads the prefix alone"),
    "d": (7, "all five of the source, and two of the target"),
    "e": (4, "each block adds one token further back: 6, 5, 4, 3"),
    "f": (5, "three back, and ahead there is only token 7"),
}


@exercise
def how_many_known(answer: Mapping[str, int | None]) -> None:
    """How many of eight tokens can each output know?"""
    for part, (truth, why) in KNOWN.items():
        guess = answer[part]
        if not isinstance(guess, int):
            raise CheckFailed(f"{part} has no guess: write a number from 1 to 8")
        if guess != truth:
            raise CheckFailed(f"{part} is not {guess}: {why}")


@exercise
def pooled(answer: Callable[[Tensor, Tensor], Tensor]) -> None:
    """The mean vector of each row's real tokens."""
    generator = torch.Generator().manual_seed(8)
    x = torch.randn(4, 5, 3, generator=generator).to(get_device())
    lengths = torch.tensor([5, 2, 3, 0], device=x.device)
    mask = torch.arange(5, device=x.device) < lengths[:, None]  # (4, 5)
    total = (x * mask[..., None]).sum(1)
    expected = total / lengths.clamp(min=1)[:, None]
    got = answer(x.clone(), mask)
    known = {
        "the padding counts: it must be left out of the sum and of the number": x.mean(1),
        "the sum is right, and is divided by L; divide by the number of real tokens": total / 5,
        "that is the sum: divide it by the number of real tokens": total,
        "that is the first token's vector, not the mean": x[:, 0],
    }
    for mistake, wrong in known.items():
        if _same(got[:3], wrong[:3]):
            raise CheckFailed(mistake)
    if isinstance(got, Tensor) and got.shape == expected.shape and bool(got[3].isnan().any()):
        raise CheckFailed("a row without a real token has the mean 0, and here 0 is divided by 0")
    expect_tensor(got, expected, "the mean")
    poisoned = x.masked_fill(~mask[..., None], math.nan)
    if not _same(answer(poisoned, mask), expected):
        raise CheckFailed("NaN in the padding gets through: 0 times NaN is NaN, so do not multiply")


@exercise
def eighty_ten_ten(answer: Callable[..., tuple[Tensor, Tensor]]) -> None:
    """Which tokens are asked for, and what is shown in their place."""
    hidden, first, size, share = 4, 5, 105, 0.15
    x = torch.full((400, 100), 7, device=get_device())
    x[:, 80:] = 0
    given = x.clone()
    shown, asked = answer(x, share, hidden, first, size, torch.Generator().manual_seed(8))
    if not torch.equal(x, given):
        raise CheckFailed("x has been changed in place")
    expect_shape = tuple(x.shape)
    if tuple(shown.shape) != expect_shape or tuple(asked.shape) != expect_shape:
        raise CheckFailed(f"shown and asked must have the shape of x, {expect_shape}")
    _check_asked(x, shown, asked, share)
    there = shown[asked != 0]
    masks, same = (float((there == kind).double().mean()) for kind in (hidden, 7))
    other = there[(there != hidden) & (there != 7)]
    if masks > 0.97:
        raise CheckFailed("every chosen token is hidden: one in five should show a token")
    if same < 0.01:
        raise CheckFailed("no chosen token stays as it is: one in ten should")
    if not len(other):
        raise CheckFailed("no chosen token is replaced by another: one in ten should be")
    for name, got, wanted in (("hidden", masks, 0.8), ("unchanged", same, 0.1)):
        if abs(got - wanted) > 0.02:
            raise CheckFailed(f"of the chosen tokens {wanted:.0%} should be {name}, got {got:.0%}")
    if int(other.min()) < first or int(other.max()) >= size or len(other.unique()) < 50:
        raise CheckFailed(f"a random token is any id from {first} to {size - 1}, anew each time")


def _check_asked(x: Tensor, shown: Tensor, asked: Tensor, share: float) -> None:
    """Raise unless the right number is asked for, and all else is shown as it is."""
    chosen = asked != 0
    if bool((chosen & (x == 0)).any()) or bool((shown != x)[x == 0].any()):
        raise CheckFailed("padding is never chosen, and stays padding")
    if not torch.equal(asked[chosen], x[chosen]):
        raise CheckFailed("asked has the true token at a chosen position, whatever is shown there")
    if bool((shown != x)[~chosen].any()):
        raise CheckFailed("a token that is not asked for is shown as it is")
    got = float(chosen[x != 0].double().mean())
    if abs(got - share) > 0.01:
        raise CheckFailed(f"of the real tokens {share:.0%} should be asked for, got {got:.0%}")


@exercise
def nucleus(answer: Callable[[Tensor, float], Tensor]) -> None:
    """The probabilities of top-p."""
    generator = torch.Generator().manual_seed(8)
    logits = (3 * torch.randn(6, 9, generator=generator)).to(get_device())
    logits[0, 4] = 20.0  # one sure token
    p = 0.8
    falling, ids = logits.softmax(-1).sort(-1, descending=True)
    reached = falling.cumsum(-1)

    def drawn(keep: Tensor) -> Tensor:
        kept = falling * keep
        kept = kept / kept.sum(-1, keepdim=True)
        return torch.zeros_like(kept).scatter(-1, ids, kept)

    needed = reached - falling < p
    short = reached <= p
    at_least_one = short.clone()
    at_least_one[:, 0] = True
    known = {
        "a sure token is cut, and nothing is left: the first one is always kept": drawn(short),
        "the token that crosses p is missing: what is kept must reach p": drawn(at_least_one),
        "that keeps all tokens: cut those that are not needed to reach p": logits.softmax(-1),
        "what is kept must sum to 1 again": drawn(needed) * (falling * needed).sum(-1, True),
        "they are in the order of probability: put them back in the order of the ids": (
            falling * needed / (falling * needed).sum(-1, keepdim=True)
        ),
    }
    got = answer(logits.clone(), p)
    for mistake, wrong in known.items():
        if _same(got, wrong):
            raise CheckFailed(mistake)
    expect_tensor(got, drawn(needed), "the nucleus")


@exercise
def bits_from_perplexity(answer: Callable[[float, int, int], float]) -> None:
    """Bits per character, from a perplexity per token."""
    perplexity, tokens, characters = 60.0, 2500, 10_000
    expected = tokens * math.log2(perplexity) / characters
    got = answer(perplexity, tokens, characters)
    known = {
        "those are bits per token: how many tokens are there to a character?": math.log2(
            perplexity
        ),
        "those are nats: the logarithm is to base 2": expected * math.log(2),
        "more characters make fewer bits for each: tokens / characters, not the other way": (
            characters * math.log2(perplexity) / tokens
        ),
        "a perplexity is exponential in the bits: take its logarithm": (
            tokens * perplexity / characters
        ),
    }
    for mistake, wrong in known.items():
        if math.isclose(got, wrong):
            raise CheckFailed(mistake)
    if not math.isclose(got, expected, rel_tol=1e-6):
        raise CheckFailed(f"for {perplexity}, {tokens} and {characters} it is {expected:.3f} bits")


@exercise
def proud_number(answer: Callable[[Sequence[str]], Vocabulary]) -> None:
    """A vocabulary with which the bits per character are wonderful, and worth nothing."""
    train, held_out = python_documentation()[:6], python_documentation()[6:8]
    vocab = answer(train)
    if not isinstance(vocab, Vocabulary):
        raise CheckFailed(f"the answer should be a Vocabulary, got {type(vocab).__name__}")
    bits = NGramModel(2, train, vocab).bits_per_character(held_out)
    if bits > 0.1:
        raise CheckFailed("still too honest: which token costs nothing, if it is all there is?")


@exercise
def seen_before(answer: Callable[[Sequence[str], str, int], float]) -> None:
    """The share of a text that lies in a run which stands in the training texts."""
    cases = (
        (["to be or not to be", "that is"], "or not mine", 6, 7 / 11),
        (["abcdef"], "xabcdex", 3, 5 / 7),
        (["abc", "def"], "abcdef", 4, 0.0),
        (["abc"], "ab", 3, 0.0),
    )
    whys = (
        "a run counts for all of its n characters",
        "runs overlap, and no character counts twice",
        "a run across the border of two training texts does not exist: do not join them",
        "a text shorter than n has no run",
    )
    for (train, test, n, expected), why in zip(cases, whys, strict=True):
        got: Any = answer(train, test, n)
        got = got.item() if isinstance(got, Tensor) and got.numel() == 1 else got
        if not isinstance(got, int | float) or not math.isclose(got, expected, abs_tol=1e-6):
            raise CheckFailed(
                f"for {train}, {test!r} and n = {n} it is {expected:.3f}, got {got}: {why}"
            )


def _same(got: Any, expected: Tensor) -> bool:
    return (
        isinstance(got, Tensor)
        and got.shape == expected.shape
        and torch.allclose(
            got.detach().cpu().double(), expected.cpu().double(), atol=1e-6, equal_nan=True
        )
    )
