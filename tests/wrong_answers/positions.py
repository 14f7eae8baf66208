"""Typical wrong answers to the exercises of chapter 6, and how each is named."""

HORIZON = "def horizon(slope, share):\n    return "


def _encode(rows: str) -> str:
    return f"def encode(x, table, cached):\n    L = x.shape[1]\n    return x + {rows}"


def _shift(frequency: str, sign: str = "") -> str:
    return f"""
def shift(offset, embed_dim):
    j = torch.arange(embed_dim // 2, device=device)
    angle = offset * {frequency}
    R = torch.zeros(embed_dim, embed_dim, device=device)
    R[::2, ::2] = R[1::2, 1::2] = torch.diag(angle.cos())
    R[::2, 1::2] = {sign}torch.diag(angle.sin())
    R[1::2, ::2] = -R[::2, 1::2]
    return R
"""


def _order(columns: str) -> str:
    return f"def order(head_dim):\n    D = head_dim\n    return {columns}"


def _same(**wrong: bool) -> str:
    right = dict.fromkeys(("none", "causal", "rotary", "alibi"), False)
    return f"differ = {right | {'sinusoidal': True, 'learned': True} | wrong}"


ANSWERS: dict[str, list[tuple[str, str]]] = {
    "mended_slice": [
        (_encode("table[:L]"), "it starts at place 0 again, and not at 5"),
        (_encode("table[cached:L]"), "with 5 cached and 1 new: the slice is empty"),
        (_encode("table[cached]"), "all new tokens stand at place 0: each needs its own row"),
        (
            _encode("(table[:L] if cached == 0 else table[cached : cached + 1])"),
            "with 5 cached and 3 new: all new tokens stand at place 5",
        ),
        (_encode("table[cached : 2 * cached]"), "the answer raises RuntimeError"),
    ],
    "one_letter": [
        (_same(causal=True), "causal is not True: the mask changes how many are averaged"),
        (_same(rotary=True), "rotary is not True: it turns queries and keys"),
        (_same(alibi=True), "alibi is not True: it changes the weights"),
        ("differ = {'none': False}", "causal has no guess: write True or False"),
        (_same(learned=False), "learned is not False: its rows are added"),
    ],
    "shift_matrix": [
        (_shift("10_000.0 ** (-2 * j / embed_dim)", "-"), "it goes the other way"),
        (
            """
def shift(offset, embed_dim):
    j = torch.arange(embed_dim // 2, device=device)
    angle = offset * 10_000.0 ** (-2 * j / embed_dim)
    cos, sin = torch.diag(angle.cos()), torch.diag(angle.sin())
    return torch.cat((torch.cat((cos, sin), 1), torch.cat((-sin, cos), 1)))
""",
            "a sine and its cosine are neighbours here",
        ),
    ],
    "column_order": [
        (_order("range(D)"), "that changes nothing"),
        (
            _order("[c // 2 + (c % 2) * (D // 2) for c in range(D)]"),
            "that is the way back, from halves to pairs",
        ),
        (_order("[*range(0, D, 2)] * 2"), "order(4) = [0, 2, 0, 2]: it should be 1 at (2,)"),
    ],
    "alibi_horizon": [
        (HORIZON + "math.ceil(-math.log(share) / slope)", "r^n is what lies beyond"),
        (HORIZON + "int(-math.log(1 - share) / slope)", "round up"),
    ],
}
