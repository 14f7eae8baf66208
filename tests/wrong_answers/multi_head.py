"""Typical wrong answers to the exercises of chapter 5, and how each is named."""

START = """
def whole_layer(query, key, value, w_q, w_k, w_v, w_o, num_heads, mask=None):
    G = num_heads * w_k.shape[0] // w_q.shape[0]
    if mask is not None and mask.dim() == 3:
        mask = mask[:, None]
    q = split_heads(query @ w_q.T, num_heads)
    k, v = split_heads(key @ w_k.T, G), split_heads(value @ w_v.T, G)
"""
GROUPS = "    k, v = (x.repeat_interleave(num_heads // G, dim=1) for x in (k, v))\n"
WEIGHTS = "    weights = attention_weights(q, k, attn_mask=mask)\n"
END = "    return merge_heads(weights @ v) @ w_o.T, weights\n"

RIGHT = {"a": "whole", "b": "mixed", "c": "whole", "d": "error", "e": "mixed", "f": "whole"}


def _split(**wrong: str) -> str:
    return f"answer = {RIGHT | wrong}"


ANSWERS: dict[str, list[tuple[str, str]]] = {
    "split_or_mix": [
        (
            _split(b="whole"),
            "b is not 'whole': this view cuts the memory into H pieces",
        ),
        (
            _split(c="mixed"),
            "c is not 'mixed': feature j goes to head j % H",
        ),
        (
            _split(d="whole"),
            "d is not 'whole': the features are no longer side by side",
        ),
        (
            _split(e="whole"),
            "e is not 'whole': reshape copies in the order of the axes",
        ),
    ],
    "count_parameters": [
        (
            """
def count(embed_dim, num_heads, num_kv_heads, kdim, bias):
    return num_heads * (4 * embed_dim**2 + 4 * bias * embed_dim)
""",
            "the heads share the width, each has E / H of it",
        ),
        (
            """
def count(embed_dim, num_heads, num_kv_heads, kdim, bias):
    return 3 * embed_dim**2 + 3 * bias * embed_dim
""",
            "is out_proj missing?",
        ),
        (
            """
def count(embed_dim, num_heads, num_kv_heads, kdim, bias):
    small = embed_dim * num_kv_heads // num_heads
    return 2 * embed_dim**2 + 2 * kdim * small
""",
            "are the biases missing?",
        ),
        (
            """
def count(embed_dim, num_heads, num_kv_heads, kdim, bias):
    small = embed_dim * num_kv_heads // num_heads
    return 2 * embed_dim**2 + 2 * kdim * small + 4 * bias * embed_dim
""",
            "the biases of keys and values shrink with them",
        ),
        (
            """
def count(embed_dim, num_heads, num_kv_heads, kdim, bias):
    return 2 * embed_dim**2 + 2 * kdim * embed_dim + 4 * bias * embed_dim
""",
            "are the matrices of keys and values G / H as high?",
        ),
    ],
    "multi_head": [
        (
            """
def whole_layer(query, key, value, w_q, w_k, w_v, w_o, num_heads, mask=None):
    B, L, E = query.shape
    q = (query @ w_q.T).view(B, num_heads, L, E // num_heads)
    k = (key @ w_k.T).view(B, num_heads, -1, E // num_heads)
    v = (value @ w_v.T).view(B, num_heads, -1, E // num_heads)
    weights = attention_weights(q, k, attn_mask=mask)
    return (weights @ v).reshape(B, L, E) @ w_o.T, weights
""",
            "tokens and heads are mixed",
        ),
        (
            START + GROUPS + "    scores = q @ k.mT / math.sqrt(query.shape[-1])\n"
            "    weights = scores.softmax(-1)\n" + END,
            "the scores are divided by the square root of E",
        ),
        (
            START + GROUPS + "    weights = (q @ k.mT).softmax(-1)\n" + END,
            "the scores are not divided by the square root of D",
        ),
        (
            START + GROUPS + WEIGHTS + "    return merge_heads(weights @ v), weights\n",
            "w_o is missing",
        ),
        (
            START
            + GROUPS
            + WEIGHTS
            + "    return (weights @ v).reshape(query.shape) @ w_o.T, weights\n",
            "merged without transposing back",
        ),
        (
            (START + GROUPS + WEIGHTS + END).replace("mask.dim() == 3", "False"),
            "a mask needs its head axis: mask[:, None]",
        ),
        (
            (START + GROUPS + "    weights = attention_weights(q, k)\n" + END),
            "with a mask (L, S): the mask changes nothing",
        ),
        (
            START + WEIGHTS + END,
            "split them into G heads, and repeat each for its group",
        ),
        (
            START
            + GROUPS.replace(
                "repeat_interleave(num_heads // G, dim=1)", "repeat(1, 2, 1, 1)"
            ).replace("for x in (k, v))", "for x in (k, v)) if G < num_heads else (k, v)")
            + WEIGHTS
            + END,
            "neighbours share one: repeat_interleave, not repeat",
        ),
    ],
    "moved_by_head": [
        (
            """
def moved(weights, v, w_o):
    return weights * v.norm(dim=-1)
""",
            "that is the length before w_o",
        ),
        (
            """
def moved(weights, v, w_o):
    return (weights @ v @ w_o.T).norm(dim=-1)
""",
            "take the norm of each part before they are added",
        ),
        (
            """
def moved(weights, v, w_o):
    return (v @ w_o.T).norm(dim=-1).expand(weights.shape)
""",
            "the weight is missing",
        ),
    ],
    "sees_future": [
        ("answer = set()", "output 0 sees the future too: inputs [0, 1] move it"),
        ("answer = {0, 1, 2, 3}", "output 3 sees no later input than itself"),
    ],
}
