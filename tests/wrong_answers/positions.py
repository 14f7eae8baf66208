"""Typical wrong answers to the exercises of chapter 6, and how each is named."""

from tests.wrong_answers import answers

ENCODE = """
def encode(x, table, cached):
    new = torch.arange(x.shape[1])
    return x + table[cached[:, None] + new]
"""
OUTPUTS = dict.fromkeys(("none", "causal", "rotary", "alibi"), "equal")
OUTPUTS |= {"sinusoidal": "differ", "learned": "differ"}
SHIFT = """
def shift(offset, embed_dim):
    j = torch.arange(embed_dim // 2)
    angle = offset * 10_000.0 ** (-2 * j / embed_dim)
    R = torch.zeros(embed_dim, embed_dim)
    R[::2, ::2] = R[1::2, 1::2] = torch.diag(angle.cos())
    R[::2, 1::2] = torch.diag(angle.sin())
    R[1::2, ::2] = -R[::2, 1::2]
    return R
"""
ORDER = "def order(D):\n    return "
HORIZON = "def horizon(slope, share):\n    return "

ANSWERS = answers(
    own_rows=[
        (ENCODE, "cached[:, None] + -> ", "every text starts at position 0 again"),
        (ENCODE, "cached[:, None] -> cached[0]", "all texts start at position 5: text 1 has 2"),
        (ENCODE, "table[ -> positions.sinusoidal_encoding(32, 8)[", "the sum should be"),
        (ENCODE, " + new -> ", "all new tokens of a text get"),
        (ENCODE, "+ new -> + new + 1", "the first new token stands at `cached`, not one"),
        (ENCODE, "+ new -> + new.flip(0)", "the new tokens are numbered backwards"),
    ],
    one_letter=[
        (f"outputs = {OUTPUTS | {'causal': 'differ'}}", "the mask changes how many values"),
        (f"outputs = {OUTPUTS | {'rotary': 'differ'}}", "rotary is not 'differ': it turns queries"),
        (f"outputs = {OUTPUTS | {'alibi': 'differ'}}", "alibi is not 'differ': it changes the"),
        (f"outputs = {OUTPUTS | {'learned': 'equal'}}", "learned is not 'equal': its rows are"),
        (f"outputs = {OUTPUTS | {'none': False}}", 'none should be "equal" or "differ", got False'),
        ("outputs = {'none': 'equal'}", 'causal has no guess: write "equal" or "differ"'),
    ],
    shift_matrix=[
        (SHIFT, "return R -> return R.T", "shift(1, 2): it turns the wrong way"),
        (SHIFT, "-2 * j -> -j", "shift(3, 8): pair j turns by base**(-2j/E)"),
        (SHIFT, "offset * -> 1 *", "shift(3, 8): it turns by one step, whatever the offset"),
        (
            SHIFT,
            "return R -> n = torch.cat((2 * j, 2 * j + 1))\n    return R[n][:, n]",
            "side by side",
        ),
        ("from attn_notes.positions import rotation_between as shift", "own: write one yourself"),
    ],
    column_order=[
        (ORDER + "range(D)", "order(4): that changes nothing"),
        (ORDER + "[c // 2 + (c % 2) * (D // 2) for c in range(D)]", "that is the way back"),
        (ORDER + "[*range(1, D, 2), *range(0, D, 2)]", "second feature of each pair comes first"),
        (ORDER + "[*range(0, D, 2)] * 2", "order(4): the list should be 1 at (2,), got 0"),
        (ORDER + "[*range(0, D, 2)]", "order(4): the list should have shape (4,), got (2,)"),
        (ORDER + "[0.0, 2.5, 1.0, 3.0]", "should have dtype torch.int64, got torch.float32"),
        (ORDER + "None", "order(4) should be a list of column numbers"),
    ],
    alibi_horizon=[
        (HORIZON + "math.ceil(-math.log(share) / slope)", "r^n is what lies beyond"),
        (HORIZON + "int(-math.log(1 - share) / slope)", "one too few: round up"),
        (HORIZON + "int(-math.log(1 - share) / slope) + 1", "one word fewer already"),
        (HORIZON + "-math.log(1 - share) / slope", "the number of words is whole: round up"),
        (HORIZON + "[5]", "the answer should be a number, got list"),
    ],
)
