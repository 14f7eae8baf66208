"""Typical wrong answers to the exercises on published models, and how each is named."""

from tests.wrong_answers import answers, guesses

SILENT = (
    dict.fromkeys("ac", "error") | dict.fromkeys("begh", "wrong") | dict.fromkeys("df", "nothing")
)
UNPACK = """
def unpack(weight, bias, num_heads):
    rows = weight.unflatten(0, (num_heads, 3, -1))
    weights = rows.transpose(0, 1).flatten(1, 2)
    biases = bias.unflatten(0, (num_heads, 3, -1)).transpose(0, 1)
    biases = biases.flatten(1)
    return weights, biases
"""
REGROUPED = "rows.view(3, num_heads, -1, 8).transpose(0, 1).reshape(3, 8, 8)"
POOL = """
def pool(x, mask):
    real = mask[..., None]
    total = x.masked_fill(~real, 0).sum(1)
    number = mask.sum(1, keepdim=True).clamp(min=1)
    return total / number
"""
FIRST_PLACES = """
def pool(x, mask):
    rows = [row[:n].sum(0) / max(n, 1) for row, n in zip(x, mask.sum(1).tolist(), strict=True)]
    return torch.stack(rows)
"""

ANSWERS = answers(
    silent_mistakes=[
        *guesses(
            SILENT,
            ("a", "wrong", "3E rows do not fit"),
            ("b", "error", "a square matrix fits both ways"),
            ("d", "wrong", "it adds the same number to every score"),
            ("e", "nothing", "the weights of a row sum to 1"),
            ("f", "error", "six tokens read six rows"),
            ("g", "nothing", "a norm cancels the same number in every feature"),
            ("h", "error", "no shape tells where a norm stands"),
        ),
        (f"answer = {SILENT | {'c': 'silent'}}", "c should be"),
    ],
    unpacked=[
        (UNPACK, "return weights -> return torch.stack(weight.chunk(3))", "GPT-2's order"),
        (UNPACK, "return weights -> return weights.mT", "transpose nothing"),
        (UNPACK, "return weights -> return rows.flatten(0, 2)", "in the file's order"),
        (UNPACK, "flatten(1, 2) -> flatten(1, 2)[[0, 2, 1]]", "keys and values are exchanged"),
        (
            UNPACK,
            "rows.transpose(0, 1).flatten(1, 2) -> rows.permute(1, 2, 0, 3).flatten(1, 2)",
            "stand together, as (H, D)",
        ),
        (
            UNPACK,
            "rows.transpose(0, 1) -> weight.unflatten(0, (num_heads, -1, 3)).permute(2, 0, 1, 3)",
            "(3, D), not (D, 3)",
        ),
        (
            UNPACK,
            "weights = rows -> weights = weight.unflatten(0, (3, num_heads, -1))",
            "the weights should have shape (3, 8, 8)",
        ),
        (
            UNPACK,
            f"rows.transpose(0, 1).flatten(1, 2) -> {REGROUPED}",
            "(H, 3, D), not (3, H, D)",
        ),
        (UNPACK, "return weights, biases -> return weights, bias.view(3, -1)", "the biases stand"),
        (UNPACK, "return weights, biases -> return weights", "return two tensors"),
        (UNPACK, "rows = weight -> rows = weight.zero_()", "changes its argument"),
    ],
    pooled=[
        ("\ndef pool(x, mask):\n    return x.mean(1)", "the padding counts"),
        (POOL, ".clamp(min=1) -> ", "a row without a real token has the mean 0"),
        (POOL, "/ number -> / x.shape[1]", "the number of real tokens"),
        (POOL, "~real -> real", "the mean should be"),
        (POOL, "mask.sum(1, -> x.any(-1).sum(1, ", "the mean should be"),
        (FIRST_PLACES, "real tokens may stand anywhere"),
        (POOL, "x.masked_fill(~real, 0) -> (x * real).nan_to_num()", "NaN in a real token, which"),
        (POOL, "x.masked_fill(~real, 0) -> (x * real)", "with NaN in the padding (0 times NaN is"),
        (POOL, "masked_fill -> masked_fill_", "changes its argument in place"),
    ],
)
