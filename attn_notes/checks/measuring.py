"""A number beside what a rerun may differ by: how the chapters print what they measured."""

import math

from torch import Tensor

from attn_notes.arguments import check_positive


def measured(value: float | Tensor, tolerance: float) -> str:
    """`value ± tolerance` as text, rounded to one decimal place beyond the tolerance's first digit.

    The tolerance, above 0 and in the unit of the value, says how far a rerun may be from the value
    on another processor, with other threads, or, for a trained network, with the rounding errors
    that these bring about. The book's tests compare such a number within it.

    Example:
        >>> print("held-out exact match", measured(0.99817, 0.01))
        held-out exact match 0.998 ± 0.01
    """
    value, tolerance = float(value), float(tolerance)
    check_positive(tolerance=tolerance)
    digit = math.floor(math.log10(tolerance))  # the place of the tolerance's first digit
    if digit >= -4:
        return f"{value:.{max(0, 1 - digit)}f} ± {tolerance:g}"
    first = math.floor(math.log10(abs(value))) if value else digit
    return f"{value:.{max(0, first - digit + 1)}e} ± {tolerance:g}"
