"""Typical wrong answers to the exercises of chapter 6, and how each is named."""


def _encode(rows: str) -> str:
    return f"""
def encode(x, table, cached):
    B, L = x.shape[:2]
    new = torch.arange(L, device=x.device)
    return x + table[{rows}]
"""


def _shift(frequency: str, sign: str = "", offset: str = "offset") -> str:
    return f"""
def shift(offset, embed_dim):
    j = torch.arange(embed_dim // 2, device=device)
    angle = {offset} * {frequency}
    R = torch.zeros(embed_dim, embed_dim, device=device)
    R[::2, ::2] = R[1::2, 1::2] = torch.diag(angle.cos())
    R[::2, 1::2] = {sign}torch.diag(angle.sin())
    R[1::2, ::2] = -R[::2, 1::2]
    return R
"""


SLOW = "10_000.0 ** (-2 * j / embed_dim)"


def _order(columns: str) -> str:
    return f"def order(head_dim):\n    D = head_dim\n    return {columns}"


def _same(**wrong: object) -> str:
    right = dict.fromkeys(("none", "causal", "rotary", "alibi"), False)
    return f"differ = {right | {'sinusoidal': True, 'learned': True} | wrong}"


def _horizon(places: str) -> str:
    return f"def horizon(slope, share):\n    return {places}"


ANSWERS: dict[str, list[tuple[str, str]]] = {
    "own_rows": [
        (_encode(":L"), "with cached = [5, 2] and L = 1: every text starts at position 0 again"),
        (
            _encode("cached[0] : cached[0] + L"),
            "both texts start at position 5: text 1 has 2 cached",
        ),
        (
            _encode("cached][:, None"),
            "with cached = [0, 0] and L = 4: all new tokens of a text get",
        ),
        (_encode("cached[:, None] + new + 1"), "the first new token stands at `cached`, not one"),
        (_encode("cached[:, None] + new.flip(0)"), "the new tokens are numbered backwards"),
        (_encode("cached : cached + L"), "the answer raises TypeError: only integer tensors of"),
        ("def encode(x, table, cached):\n    return None", "should be a tensor, got NoneType"),
    ],
    "one_letter": [
        (_same(causal=True), "causal is not True: the mask changes how many values are averaged"),
        (_same(rotary=True), "rotary is not True: it turns queries and keys"),
        (_same(alibi=True), "alibi is not True: it changes the weights"),
        ("differ = {'none': False}", "causal has no guess: write True or False"),
        (_same(learned=False), "learned is not False: its rows are added"),
        (_same(none=0), "none should be True or False, got 0"),
        (_same(learned=[True]), "learned should be True or False, got [True]"),
        ("differ = [False] * 6", "the answer must be a dictionary, got list"),
    ],
    "shift_matrix": [
        (_shift(SLOW, "-"), "shift(1, 2): it turns the wrong way"),
        (_shift("10_000.0 ** (-j / embed_dim)"), "shift(3, 8): pair j turns by base**(-2j/E)"),
        (_shift(SLOW, offset="1"), "shift(3, 8): it turns by one step, whatever the offset"),
        (
            f"""
def shift(offset, embed_dim):
    j = torch.arange(embed_dim // 2, device=device)
    angle = offset * {SLOW}
    cos, sin = torch.diag(angle.cos()), torch.diag(angle.sin())
    return torch.cat((torch.cat((cos, sin), 1), torch.cat((-sin, cos), 1)))
""",
            "shift(3, 8): sine and cosine of a pair stand side by side",
        ),
        (
            _shift(SLOW).replace("(embed_dim, embed_dim,", "(embed_dim,  # one row\n"),
            "the answer raises",
        ),
        ("def shift(offset, embed_dim):\n    return [[1.0]]", "should be a tensor, got list"),
    ],
    "column_order": [
        (_order("range(D)"), "order(4): that changes nothing"),
        (
            _order("[c // 2 + (c % 2) * (D // 2) for c in range(D)]"),
            "order(8): that is the way back, from halves to pairs",
        ),
        (
            _order("[*range(1, D, 2), *range(0, D, 2)]"),
            "order(4): the second feature of each pair comes first",
        ),
        (_order("[*range(0, D, 2)] * 2"), "order(4): the list should be 1 at (2,), got 0"),
        (_order("[*range(0, D, 2)]"), "order(4): the list should have shape (4,), got (2,)"),
        (
            _order("[0.0, 2.5, 1.0, 3.0]"),
            "order(4): the list should have dtype torch.int64, got torch.float32",
        ),
        (
            _order("[2 * c if c < D / 2 else 2 * (c - D / 2) + 1 for c in range(D)]"),
            "order(4): the list should have dtype torch.int64, got torch.float32",
        ),
        (_order("None"), "order(4) should be a list of column numbers"),
    ],
    "alibi_horizon": [
        (_horizon("math.ceil(-math.log(share) / slope)"), "r^n is what lies beyond"),
        (_horizon("int(-math.log(1 - share) / slope)"), "one too few: round up"),
        (_horizon("int(-math.log(1 - share) / slope) + 1"), "one too many: one word fewer already"),
        (_horizon("math.ceil(-math.log(1 - share) / slope) - 1"), "count the query's own word"),
        (_horizon("-math.log(1 - share) / slope"), "the number of words is whole: round up"),
        (_horizon("[5]"), "the answer should be a number, got list"),
    ],
}
