"""The values that options of the command line take."""

import argparse
import math
from collections.abc import Callable

__all__ = ["digits", "number", "steps", "whole"]

MOST = 10**9  # of whole numbers: more would overflow somewhere


def whole(lowest: int, highest: int = MOST) -> Callable[[str], int]:
    """A whole number.

    Args:
        lowest: the least that is taken.
        highest: the most.

    Returns:
        A function that reads one, and raises `argparse.ArgumentTypeError` at anything else.

    Example:
        >>> whole(1)("12")
        12
    """

    def parse(text: str) -> int:
        # Nothing that int() lets pass beside digits, such as 1_0; and no more than it can read.
        found = int(text[:20]) if text.isdecimal() else -1
        if not lowest <= found <= highest:
            least = f"a whole number, {lowest} or more"
            bounds = f"at most {highest:,}" if found > highest else least
            raise argparse.ArgumentTypeError(f"must be {bounds}, got {text!r}")
        return found

    return parse


def number(lowest: float, highest: float) -> Callable[[str], float]:
    """A number.

    Args:
        lowest: the least that is taken.
        highest: the most.

    Returns:
        A function that reads one, and raises `argparse.ArgumentTypeError` at anything else.

    Example:
        >>> number(0.0, 1.0)("0.5")
        0.5
    """

    def parse(text: str) -> float:
        try:
            found = float(text)
        except ValueError:
            found = math.nan
        if not lowest <= found <= highest:
            raise argparse.ArgumentTypeError(
                f"must be a number from {lowest:g} to {highest:g}, got {text!r}"
            )
        return found

    return parse


def digits(text: str) -> tuple[int, int]:
    """How many digits, fewest and most.

    Args:
        text: such as 1-12, or 4 for 4-4.

    Returns:
        Both.

    Raises:
        argparse.ArgumentTypeError: anything else.

    Example:
        >>> digits("1-4")
        (1, 4)
    """
    fewest, dash, most = text.partition("-")
    try:
        found = whole(1)(fewest), whole(1)(most if dash else fewest)
    except argparse.ArgumentTypeError:
        found = (1, 0)
    if not found[0] <= found[1] <= 12:
        raise argparse.ArgumentTypeError(f"must be like 1-12, from 1 to 12, got {text!r}")
    return found


def steps(text: str) -> tuple[int, ...]:
    """Some steps.

    Args:
        text: whole numbers with commas between them.

    Returns:
        The numbers.

    Raises:
        argparse.ArgumentTypeError: anything else.

    Example:
        >>> steps("0,300")
        (0, 300)
    """
    return tuple(whole(0)(step) for step in text.split(","))
