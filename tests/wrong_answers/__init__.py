"""Typical wrong answers to the exercises, and the phrase by which each is named."""


def instead(source: str, old: str, new: str) -> str:
    """An answer with one mistake in it."""
    assert old in source
    return source.replace(old, new)
