"""Typical wrong answers to the exercises on what a cache costs, and how each is named."""

from tests.wrong_answers import answers, guesses

TOKEN = 61 * (512 + 64) * 2
BYTES = {"token": TOKEN, "own": 61 * 128 * (192 + 128) * 2, "groups": 2.25, "text": 131_072 * TOKEN}
WHY = {
    "token": "keys and values are made from one latent of 512",
    "own": "each head keeps a key of 128 + 64 numbers and a value of 128",
    "groups": "a key-value head keeps a key and a value, 256 numbers in all",
    "text": "every one of the 131,072 tokens costs all 61 layers",
}
KEEPS = """
def keeps(L, window, first):
    places = torch.arange(L)
    back = places[:, None] - places
    return (back >= 0) & ((back < window) | (places < first))
"""
STEP = """
def step(q, c, W_k, W_v):
    moved = torch.einsum("hd,hdc->hc", q, W_k)
    weights = (moved @ c.mT / q.shape[-1] ** 0.5).softmax(-1)
    return torch.einsum("hc,hvc->hv", weights @ c, W_v)
"""
MADE = """
def step(q, c, W_k, W_v):
    k, v = c @ W_k.mT, c @ W_v.mT
    weights = (q[:, None] @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
    return (weights @ v)[:, 0]
"""

ANSWERS = answers(
    latent_bytes=[
        *guesses(
            BYTES,
            ("token", 61 * 512 * 2, WHY["token"]),
            ("token", 61 * 2 * 512 * 2 + 61 * 64 * 2, WHY["token"]),
            ("own", 61 * 128 * 2 * 128 * 2, WHY["own"]),
            ("groups", 4.5, WHY["groups"]),
            ("text", 131_072 * (512 + 64) * 2, WHY["text"]),
        ),
    ],
    window_with_sink=[
        (KEEPS, " | (places < first) -> ", "must be read by every later query"),
        (KEEPS, "(back < window) | -> ", "the last keys must be read"),
        (
            KEEPS,
            "(back >= 0) & ((back < window) | -> ((back >= 0) & (back < window) |",
            "may not read the future",
        ),
        (KEEPS, "back < window -> back <= window", "the window counts the query's own key"),
        (KEEPS, "back < window -> back < window - first", "beside the window, not inside it"),
        (KEEPS, "return ( -> return ~((", "first)) -> first)))", "True is where"),
        (KEEPS, "places[:, None] - places -> places - places[:, None]", "the mask should be"),
    ],
    absorbed_step=[
        (STEP, "q.shape[-1] -> c.shape[-1]", "the width of a query, not of C"),
        (STEP, " / q.shape[-1] ** 0.5 -> ", "divide the scores by the root of D"),
        (STEP, "softmax(-1) -> softmax(0)", "not over the heads"),
        (STEP, ".softmax(-1) -> ", "must become weights first"),
        (
            STEP,
            'torch.einsum("hc,hvc->hv", weights @ c, W_v) -> weights @ c',
            "must still become a value",
        ),
        (MADE, "make no keys and no values"),
    ],
)
