"""Typical wrong answers to the exercises of chapter 13 in depth, and how each is named."""

from tests.wrong_answers import answers, guesses

LONGER = {"a": "half", "b": "double", "c": "four times", "d": "same", "e": "same", "f": "same"}
ROWS = """
def by_rows(q, k, v, gates):
    c = gates.cumprod(0)
    weights = ((q * c) @ (k / c).mT).tril()
    return weights @ v
"""
LOST = """
gates_64 = torch.ones(64)
gates_64[:25] = 0.01
"""

ANSWERS = answers(
    longer_chunks=guesses(
        LONGER,
        ("a", "double", "there are L / C chunks"),
        ("b", "same", "L / C tables of C × C"),
        ("c", "double", "it has C rows and C columns"),
        ("d", "double", "each token reads the state once"),
        ("e", "double", "S is D × Dv"),
        ("f", "double", "the forms are equal"),
    ),
    row_gates=[
        (ROWS, "k / c -> k / (c / gates)", "a token's own gate leaves its own value alone"),
        (ROWS, "cumprod(0) -> cumprod(0) / gates", "acts on the state before it"),
        (ROWS, ".tril() -> ", "may read no key after it"),
        (ROWS, "k / c -> k", "divide the keys by their running product"),
        (ROWS, ".cumprod(0) -> ", "take the running product"),
        (ROWS, "q * c -> q", "k / c -> k", "everything fades, by the gates"),
        (ROWS, "gates. -> gates.mean(-1, keepdim=True).", "a gate of its own"),
        (ROWS, ".tril() -> .tril(-1)", "a query reads its own key, too"),
        (ROWS, "cumprod(0) -> cumprod(1)", "the outputs should be"),
        (ROWS, "gates.cumprod(0) -> gates.cumprod_(0)", "changes its argument in place"),
    ],
    lost_quotient=[
        (LOST, ":25 -> :18", "its inverse is still finite"),
        (LOST, ":25 -> :40", "more than half of the 64 gates must be 1, got 24"),
        (LOST, "0.01 -> 0.0", "each gate must be from 0.01 to 1"),
        (LOST, "ones(64) -> ones(32)", "must have shape (64,), got (32,)"),
        (LOST, "= 0.01 -> = 0.5", "its inverse is still finite"),
        ("gates_64 = 'small'", "the gates must be numbers"),
    ],
)
