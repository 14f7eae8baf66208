"""Texts whose numbers with a stated tolerance, `0.998 ± 0.01`, are compared within it.

Such numbers are what `attn_notes.checks.measured` prints. All the rest of a text, the tolerances
among it, must be the same, but for the spaces around a number, which its width moves.
"""

import re
from typing import Any

NUMBER = r"[-−]?\d+(?:\.\d+)?(?:e[-+]\d+)?"
MEASURED = re.compile(rf"[ ]*(?<![\w.])({NUMBER}) ± ({NUMBER})(?![\w.]*\d)[ ]*")


def difference_of_measured(reference: str, test: str) -> str | None:
    """The first difference of two texts beyond the stated tolerances, in words; None for none."""
    skeletons = [MEASURED.sub(r" # ± \2 ", text) for text in (reference, test)]
    if skeletons[0] != skeletons[1]:
        return "the texts differ in more than their measured numbers"
    pairs = zip(MEASURED.findall(reference), MEASURED.findall(test), strict=True)
    for (ours, tolerance), (theirs, _) in pairs:
        # Both are rounded: a last place of each may be lost in that.
        if abs(_value(ours) - _value(theirs)) > _value(tolerance) * (1 + 1e-9):
            return f"{ours} became {theirs}, more than {tolerance} away"
    return None


def pair_texts(
    test: list[dict[str, Any]], reference: list[dict[str, Any]]
) -> tuple[list[dict[str, Any]], list[str]]:
    """The test's outputs, each text within tolerance replaced by the stored one; what differs."""
    replaced, complaints = list(test), []
    for n, (ours, stored) in enumerate(zip(test, reference, strict=False)):
        new, old = _text_of(ours), _text_of(stored)
        if new is None or old is None or new == old or not MEASURED.search(old):
            continue
        if found := difference_of_measured(old, new):
            complaints.append(found)
        else:
            replaced[n] = _with_text(ours, old)
    return replaced, complaints


def _value(number: str) -> float:
    return float(number.replace("−", "-"))


def _text_of(output: dict[str, Any]) -> str | None:
    return output.get("text", output.get("data", {}).get("text/plain"))


def _with_text(output: dict[str, Any], text: str) -> dict[str, Any]:
    if "text" in output:
        return type(output)({**output, "text": text})
    return type(output)({**output, "data": {**output["data"], "text/plain": text}})
