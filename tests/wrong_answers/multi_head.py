"""Typical wrong answers to the exercises of chapter 5, and how each is named."""

from tests.wrong_answers import instead

SPLITS = {"a": "whole", "b": "mixed", "c": "whole", "d": "error", "e": "mixed", "f": "whole"}
COUNT = """
def count(embed_dim, num_heads, num_kv_heads, kdim, bias):
    E, small = embed_dim, embed_dim * num_kv_heads // num_heads
    return """
LAYER = """
def whole_layer(query, key, value, w_q, w_k, w_v, w_o, num_heads, mask=None):
    G = num_heads * w_k.shape[0] // w_q.shape[0]
    if mask is not None and mask.dim() == 3:
        mask = mask[:, None]
    q = split_heads(query @ w_q.T, num_heads)
    k, v = split_heads(key @ w_k.T, G), split_heads(value @ w_v.T, G)
    k, v = (x.repeat_interleave(num_heads // G, dim=1) for x in (k, v))
    weights = attention_weights(q, k, attn_mask=mask)
    return merge_heads(weights @ v) @ w_o.T, weights
"""
MOVED = "\ndef moved(weights, v, w_o):\n    return "
MIXED = """
def whole_layer(query, key, value, w_q, w_k, w_v, w_o, num_heads, mask=None):
    B, L, E = query.shape
    q = (query @ w_q.T).view(B, num_heads, L, E // num_heads)
    k = (key @ w_k.T).view(B, num_heads, -1, E // num_heads)
    v = (value @ w_v.T).view(B, num_heads, -1, E // num_heads)
    weights = attention_weights(q, k, attn_mask=mask)
    return (weights @ v).reshape(B, L, E) @ w_o.T, weights
"""

ANSWERS: dict[str, list[tuple[str, str]]] = {
    "split_or_mix": [
        (f"answer = {SPLITS | {'b': 'whole'}}", "b is not 'whole': this view cuts the memory into"),
        (f"answer = {SPLITS | {'c': 'mixed'}}", "c is not 'mixed': feature j goes to head j % H"),
        (f"answer = {SPLITS | {'d': 'whole'}}", "d is not 'whole': the features are no longer"),
        (f"answer = {SPLITS | {'e': 'whole'}}", "e is not 'whole': reshape copies in the order"),
    ],
    "count_parameters": [
        (COUNT + "3 * E**2 + 3 * bias * E", "is out_proj missing?"),
        (COUNT + "2 * E**2 + 2 * kdim * E + 4 * bias * E", "keys and values G / H as high?"),
    ],
    "multi_head": [
        (MIXED, "tokens and heads are mixed"),
        (
            instead(LAYER, "mask=mask)", "mask=mask, scale=query.shape[-1] ** -0.5)"),
            "the root is that of E, but a head is only D wide",
        ),
        (instead(LAYER, "mask=mask)", "mask=mask, scale=1.0)"), "are not divided by the root of D"),
        (instead(LAYER, ") @ w_o.T,", "),"), "w_o is missing"),
        (instead(LAYER, ", attn_mask=mask)", ")"), "with a mask (L, S): the mask changes nothing"),
    ],
    "moved_by_head": [
        (MOVED + "weights * v.norm(dim=-1)", "that is the length before w_o"),
        (MOVED + "(v @ w_o.T).norm(dim=-1).expand(weights.shape)", "the weight is missing"),
    ],
    "sees_future": [
        ("answer = set()", "output 0 sees the future too"),
        ("answer = {0, 1, 2, 3}", "output 3 sees no later input than itself"),
    ],
}
