"""What the checks of the exercises share: a verdict that is printed, and comparisons of values.

A table of mistakes maps a sentence to the value that this mistake gives.
"""

import dis
import functools
import reprlib
from collections.abc import Callable, Collection, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor

from attn_notes.checks.properties import CheckFailed
from attn_notes.device import get_device

Value = Tensor | float | Sequence[Any]


def exercise(check: Callable[[Any], None]) -> Callable[[Any], None]:
    """Make a check that raises into an exercise that prints `Correct` or `Not yet: …`."""

    @functools.wraps(check)
    def verdict(answer: Any) -> None:
        words = "Not yet: the answer is still to be written"
        try:
            if answer is not None:
                check(answer)
                words = "Correct"
        except CheckFailed as failure:
            words = f"Not yet: {failure}"
        except Exception as error:  # whatever the reader's code raises is part of the answer
            if not isinstance(error, NotImplementedError) or error.args:  # torch raises it as well
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
        if str(home := getattr(answer, "__module__", "")).startswith(("attn_notes", "torch")):
            raise CheckFailed(f"this function is {home}'s own: write one yourself")
        check(functools.partial(_call, answer))

    return verdict


def require(check: Any, answer: Any) -> None:
    """Raise unless a check finds the answer right: for notebooks that are graded by a program."""
    check.__wrapped__(answer)


def _call(answer: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """What the answer gives for copies, which must afterwards be what they were."""
    copies = [one.clone() if isinstance(one, Tensor) else one for one in arguments]
    try:
        got = answer(*copies, **options)
    except Exception as error:  # whatever the reader's code raises, with the case in which it does
        if isinstance(error, CheckFailed | NotImplementedError):
            raise
        given = ", ".join(map(_shown, arguments))
        words = f"given {given} the answer raises {type(error).__name__}: {error}"
        raise CheckFailed(words) from error
    for copy, one in zip(copies, arguments, strict=True):
        if isinstance(one, Tensor) and difference(copy, one):
            raise CheckFailed("the answer changes its argument in place: work on a copy")
    return got


def _shown(one: Any) -> str:
    if isinstance(one, Tensor):
        return repr(tuple(one.shape)) if one.dim() else "a tensor without axes"
    return type(one).__name__ if callable(one) else reprlib.repr(one)


def prediction(
    guesses: str,
    parts: Mapping[str, Sequence[Any]],
    *,
    in_any_order: bool = False,
) -> Callable[[Any], None]:
    """An exercise that asks for a guess for each part; `parts` holds the right one and its reason.

    The guesses are words, numbers, or lists of integers.
    """

    def plain(x: Any) -> Any:
        is_list = isinstance(x, Collection) and not isinstance(x, str)
        return x if not is_list else set(x) if in_any_order else tuple(x)

    @exercise
    def check(answer: Any) -> None:
        if not isinstance(answer, Mapping):
            raise CheckFailed(f"the answer must be a dictionary, got {type(answer).__name__}")
        for part, (truth, why) in parts.items():
            if (guess := answer.get(part)) is None:
                raise CheckFailed(f"{part} has no guess: write {guesses}")
            if not _fits(guess, plain(truth), guesses):
                raise CheckFailed(f"{part} should be {guesses}, got {guess!r}")
            if plain(guess) != plain(truth):
                raise CheckFailed(f"{part} is not {guess!r}: {why}")

    return check


def _fits(guess: Any, truth: Any, guesses: str) -> bool:
    """Whether a guess is of the truth's kind; a word must be one of the guesses."""
    if isinstance(truth, str):
        return f'"{guess}"' in guesses
    if isinstance(truth, tuple | set):
        kind = Sequence if isinstance(truth, tuple) else Collection
        listed = isinstance(guess, kind) and not isinstance(guess, str | Tensor)
        return listed and all(isinstance(number, Integral) for number in guess)
    return isinstance(guess, bool if isinstance(truth, bool) else Real)


def compare(
    got: Any, right: Value, what: str, mistakes: Mapping[str, Any] | None = None, case: str = ""
) -> None:
    """Raise unless `got` is right; say which of the `mistakes` it is, or how it differs."""
    if not (words := difference(got, right)):
        return
    for mistake, wrong in (mistakes or {}).items():
        if not difference(got, wrong):
            raise CheckFailed(f"{case}{mistake}")
    raise CheckFailed(f"{case}{what} should {words}")


def difference(got: Any, expected: Value) -> str:
    """How a tensor or number should differ: in type, shape, dtype or value; "" if within 1e-4."""
    if not isinstance(got, Tensor | Real):
        kind = "tensor" if isinstance(expected, Tensor) else "number"
        return f"be a {kind}, got {type(got).__name__}"
    got = got if isinstance(got, Tensor | bool) else float(got)  # a fraction, too
    # On the CPU, since not every device has 64-bit numbers.
    answer, right = (torch.as_tensor(x, device="cpu").detach() for x in (got, expected))
    if answer.shape != right.shape:
        return f"have shape {tuple(right.shape)}, got {tuple(answer.shape)}"
    floats = answer.is_floating_point() and not right.is_floating_point()  # no ids, no indices
    if (right.dim() and floats) or (answer.dtype == torch.bool) != (right.dtype == torch.bool):
        return f"have dtype {right.dtype}, got {answer.dtype}"
    answer, right = answer.double(), right.double()
    close = torch.isclose(answer, right, rtol=1e-6, atol=1e-4, equal_nan=True)
    if bool(close.all()):
        return ""
    at = tuple((~close).nonzero()[0].tolist())  # the first
    place = f" at {at}" if at else ""
    a, b = answer[at].item(), right[at].item()
    digits = 9 if f"{a:.6g}" == f"{b:.6g}" else 6
    return f"be {b:.{digits}g}{place}, got {a:.{digits}g}"


def pair(got: Any, what: str) -> tuple[Any, Any]:
    """The two things that an answer returns."""
    several = isinstance(got, tuple | list)
    if not several or len(got) != 2:
        raise CheckFailed(f"return {what}, got {len(got) if several else type(got).__name__}")
    return got[0], got[1]


AUTOGRAD = {"autograd", "backward", "grad", "requires_grad_", "vjp", "jacrev", "jacfwd", "jvp"}


def refuse(answer: Any, names: set[str], words: str) -> None:
    """Refuse right values that come from what the exercise rules out, such as autograd."""
    function = answer.args[0]
    known, codes = getattr(function, "__globals__", {}), [getattr(function, "__code__", None)]
    for code in filter(None, codes):
        codes += [part for part in code.co_consts if hasattr(part, "co_code")]  # of inner functions
        for step in dis.get_instructions(code):
            home = getattr(known.get(step.argval), "__module__", None)
            own = step.opname == "LOAD_GLOBAL" and home == function.__module__  # a helper
            if step.opcode in dis.hasname and step.argval in names and not own:
                raise CheckFailed(f"the values are right, but {words}")


def numbers(answer: Any, refusal: str) -> Tensor:
    """A table of numbers that the reader wrote as lists or as a tensor."""
    rows = answer if isinstance(answer, list | tuple) else []
    plain = [row.tolist() if isinstance(row, Tensor) else row for row in rows]
    try:
        return torch.as_tensor(plain or answer, device="cpu")
    except (TypeError, ValueError, RuntimeError):
        raise CheckFailed(refusal) from None


def draw(*shapes: tuple[int, ...], seed: int = 0) -> list[Tensor]:
    """One normal tensor for each shape, the same on every machine."""
    rng, device = torch.Generator("cpu").manual_seed(seed), get_device()
    return [torch.randn(shape, generator=rng, device="cpu").to(device) for shape in shapes]
