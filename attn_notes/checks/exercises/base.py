"""What every exercise is: a check that prints its verdict, of a function, a value or guesses."""

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from torch import Tensor

from attn_notes.checks.exercises.values import difference
from attn_notes.checks.properties import CheckFailed


def exercise(check: Callable[[Any], None]) -> Callable[[Any], None]:
    """Make a check that raises into an exercise that prints `Correct` or `Not yet: …`."""

    @functools.wraps(check)
    def verdict(answer: Any) -> None:
        words = "Not yet: the answer is still to be written"
        try:
            if answer is not None:
                check(answer)
                words = "Correct"
        except NotImplementedError:
            pass
        except CheckFailed as failure:
            words = f"Not yet: {failure}"
        except Exception as error:  # whatever the reader's code raises is part of the answer
            words = f"Not yet: the answer raises {type(error).__name__}: {error}"
        print(words)

    return verdict


def of_function(check: Callable[[Any], None]) -> Callable[[Any], None]:
    """Such an exercise whose answer is a function: it leaves the tensors that it is given alone."""

    @exercise
    @functools.wraps(check)
    def verdict(answer: Any) -> None:
        if not callable(answer):
            raise CheckFailed(f"the answer should be a function, got {type(answer).__name__}")
        check(functools.partial(_call, answer))

    return verdict


def _call(answer: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """What the answer gives for copies, which must afterwards be what they were."""
    copies = [one.clone() if isinstance(one, Tensor) else one for one in arguments]
    got = answer(*copies, **options)
    for copy, one in zip(copies, arguments, strict=True):
        if isinstance(one, Tensor) and difference(copy, one):
            raise CheckFailed("the answer changes its argument in place: work on a copy")
    return got


def prediction(
    truths: Mapping[str, tuple[Any, str]], options: str, also: Mapping[str, Any] | None = None
) -> Callable[[Any], None]:
    """An exercise that asks for a guess for each part; `truths` holds the guess and its reason.

    What `also` holds for a part is right too.
    """

    @exercise
    def check(answer: Any) -> None:
        if not isinstance(answer, Mapping):
            raise CheckFailed(f"the answer must be a dictionary, got {type(answer).__name__}")
        for part, (truth, why) in truths.items():
            if (guess := answer.get(part)) is None:
                raise CheckFailed(f"{part} has no guess: write {options}")
            if not _fits(guess, truth, options):
                raise CheckFailed(f"{part} should be {options}, got {guess!r}")
            guess = tuple(guess) if isinstance(truth, tuple) else guess
            value = set(guess) if isinstance(truth, set) else guess
            if value not in (truth, (also or {}).get(part)):
                raise CheckFailed(f"{part} is not {guess!r}: {why}")

    return check


def _fits(guess: Any, truth: Any, options: str) -> bool:
    """Whether a guess is of the truth's kind; a word must be one of the options."""
    if isinstance(truth, str):
        return f'"{guess}"' in options
    if isinstance(truth, tuple | set):
        kind = Sequence if isinstance(truth, tuple) else Collection
        return isinstance(guess, kind) and all(isinstance(number, int) for number in guess)
    return isinstance(guess, bool if isinstance(truth, bool) else int | float)
