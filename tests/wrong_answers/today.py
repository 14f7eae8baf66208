"""Typical wrong answers to chapter 12's exercises, and how each is named."""

from tests.wrong_answers import answers, guesses

FACTOR = dict.fromkeys("adh", "same") | dict.fromkeys("bcefg", "change")
CENTRED = """
def centred(weight, bias):
    return weight - weight.mean(0), bias - bias.mean()
"""
HALVES = """
def to_halves(weight, num_heads):
    rows = weight.unflatten(0, (num_heads, -1, 2))
    return rows.transpose(1, 2).flatten(0, 2)
"""

ANSWERS = answers(
    ten_times=[
        *guesses(
            FACTOR,
            ("a", "change", "the root of the mean square grows"),
            ("b", "same", "which of the two norms subtracts the mean?"),
            ("c", "same", "silu(10 u) is no fixed multiple"),
            ("d", "change", "what stands between"),
            ("e", "same", "a Llama head has no norm"),
            ("f", "same", "queries and keys are normalised"),
            ("g", "same", "the blocks add as much as before"),
            ("h", "change", "the whole stream is ten times as long"),
        ),
        (f"answer = {FACTOR | {'e': 'grows'}}", "e should be"),
    ],
    centred_writer=[
        (CENTRED, "weight.mean(0) -> weight.mean(1, keepdim=True)", "goes over a row"),
        (CENTRED, "weight.mean(0) -> weight.mean()", "this is the mean of all"),
        (CENTRED, "weight.mean(0) -> weight.sum(0)", "not its sum"),
        (
            CENTRED,
            "weight - weight.mean(0) -> (weight - weight.mean(0)) / weight.std(0, correction=0)",
            "take only the mean away",
        ),
        (CENTRED, "weight - weight.mean(0) -> weight", "this is the old weight"),
        (CENTRED, " - bias.mean() -> ", "its mean must go too"),
        (CENTRED, " - bias.mean() ->  - bias.sum()", "the bias should be"),
        (CENTRED, ", bias - bias.mean() -> ", "return two tensors"),
        (CENTRED, "weight - weight.mean(0) -> weight.sub_(weight.mean(0))", "changes its argument"),
    ],
    rows_for_halves=[
        (HALVES, "rows.transpose(1, 2) -> rows", "the rows stand as in the file"),
        (
            HALVES,
            "(num_heads, -1, 2) -> (num_heads, 2, -1)",
            "this is the way back, from halves to pairs",
        ),
        (
            HALVES,
            "rows.transpose(1, 2).flatten -> rows.permute(2, 0, 1, 3).flatten",
            "the rows of different heads are mixed",
        ),
        (HALVES, "rows.transpose -> rows.flip(2).transpose", "would turn the other way"),
        (HALVES, "transpose(1, 2) -> transpose(0, 2)", "keep the head's axis in front"),
        (HALVES, "(num_heads, -1, 2) -> (4, -1, 2)", "with two heads of keys"),
        (HALVES, "(num_heads, -1, 2) -> (-1, 4, 2)", "with a single head of width 16"),
        (HALVES, "flatten(0, 2) -> flatten(1, 2)", "the rows for the queries should have shape"),
    ],
)
