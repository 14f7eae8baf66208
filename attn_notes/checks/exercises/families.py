"""The exercises of chapter 9: what is known, asked, drawn, measured and remembered."""

import math
from typing import Any

import torch
from torch import Tensor

from attn_notes.checks.exercises.base import CheckFailed, compare, draw, exercise, prediction
from attn_notes.data import python_documentation
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
how_many_known = prediction(KNOWN, "a number from 1 to 8")
"""How many of eight tokens can each output know?"""


@exercise
def pooled(answer: Any) -> None:
    """The mean vector of each row's real tokens."""
    (x,) = draw((4, 5, 3), seed=8)
    lengths = torch.tensor([5, 2, 3, 0], device=x.device)
    mask = torch.arange(5, device=x.device) < lengths[:, None]  # (4, 5)
    total = (x * mask[..., None]).sum(1)
    mistakes = {
        "the padding counts: it must be left out of the sum and of the number": x.mean(1),
        "a row without a real token has the mean 0, not 0 / 0": total / lengths[:, None],
    }
    right = total / lengths.clamp(min=1)[:, None]
    compare(answer(x.clone(), mask), right, "the mean", mistakes=mistakes)
    poisoned = x.masked_fill(~mask[..., None], math.nan)
    case = "with NaN in the padding (0 times NaN is NaN, so do not multiply) "
    compare(answer(poisoned, mask), right, "the mean", case=case)


@exercise
def eighty_ten_ten(answer: Any) -> None:
    """Which tokens are asked for, and what is shown in their place."""
    hidden, first, size, share = 4, 5, 105, 0.15
    x = torch.full((400, 100), 7, device=get_device())
    x[:, 80:] = 0
    generator = torch.Generator().manual_seed(8)
    shown, asked = answer(x.clone(), share, hidden, first, size, generator)
    chosen = asked != 0
    if bool((chosen & (x == 0)).any()):
        raise CheckFailed("padding is never chosen, and stays padding")
    compare(asked, x * chosen, "asked", mistakes={"asked must hold the true token": shown * chosen})
    compare(shown.where(~chosen, 0), x.where(~chosen, 0), "what is shown elsewhere")
    there = shown[chosen]
    for what, which, right in (
        ("of the real tokens {:.0%} should be asked for, got {:.0%}", chosen[:, :80], share),
        ("of the chosen tokens {:.0%} should be hidden, got {:.0%}", there == hidden, 0.8),
        ("of the chosen tokens {:.0%} should stay as they are, got {:.0%}", there == 7, 0.1),
    ):
        if abs((got := float(which.double().mean())) - right) > 0.02:
            raise CheckFailed(what.format(right, got))
    if int(there.max()) >= size or len(there.unique()) < 50:
        raise CheckFailed(f"a random token is any id from {first} to {size - 1}, anew each time")


@exercise
def nucleus(answer: Any) -> None:
    """The probabilities of top-p."""
    (noise,) = draw((6, 9), seed=8)
    logits, p = 3 * noise, 0.8
    logits[0, 4] = 20.0  # one sure token
    falling, ids = logits.softmax(-1).sort(-1, descending=True)
    reached = falling.cumsum(-1)
    first = torch.arange(9, device=ids.device) == 0

    def kept(keep: Tensor) -> Tensor:
        chosen = falling * keep
        share = chosen / chosen.sum(-1, keepdim=True)
        return torch.zeros_like(chosen).scatter(-1, ids, share)

    mistakes = {
        "a sure token is cut, and nothing is left: always keep the first": kept(reached <= p),
        "the token that crosses p is missing": kept((reached <= p) | first),
    }
    right = kept(reached - falling < p)
    compare(answer(logits.clone(), p), right, "the nucleus", mistakes=mistakes)


@exercise
def bits_from_perplexity(answer: Any) -> None:
    """Bits per character, from a perplexity per token."""
    bits = math.log2(60.0)
    mistakes = {
        "those are bits per token: how many tokens are there to a character?": bits,
        "it is tokens / characters, not the other way": 4 * bits,
    }
    compare(answer(60.0, 2500, 10_000), bits / 4, "the bits per character", mistakes=mistakes)


@exercise
def proud_number(answer: Any) -> None:
    """A vocabulary with which the bits per character are wonderful, and worth nothing."""
    train, held_out = python_documentation()[:6], python_documentation()[6:8]
    if NGramModel(2, train, answer(train)).bits_per_character(held_out) > 0.1:
        raise CheckFailed("still too honest: which token costs nothing, if it is all there is?")


@exercise
def seen_before(answer: Any) -> None:
    """The share of a text that lies in a run which stands in the training texts."""
    for train, test, n, right, why in (
        (["to be or not to be", "that is"], "or not mine", 6, 7 / 11, "each run counts in full"),
        (["abcdef"], "xabcdex", 3, 5 / 7, "runs overlap, and no character counts twice"),
        (["abc", "def"], "abcdef", 4, 0.0, "no run crosses from one text into another"),
    ):
        case = f"for {train}, {test!r} and n = {n} ({why}) "
        compare(answer(train, test, n), right, "the share", case=case)
