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
UNTURNED = instead(instead(LAYER, "query @ w_q.T", "query @ w_q"), "key @ w_k.T", "key @ w_k")
UNTURNED = instead(instead(UNTURNED, "value @ w_v.T", "value @ w_v"), "@ w_o.T", "@ w_o")
PACKAGED = """
def whole_layer(query, key, value, w_q, w_k, w_v, w_o, num_heads, mask=None):
    E, G = len(w_q), len(w_k) * num_heads // len(w_q)
    layer = MultiHeadAttention(E, num_heads, num_kv_heads=G, bias=False).to(device)
    parts = (layer.q_proj, layer.k_proj, layer.v_proj, layer.out_proj)
    for part, w in zip(parts, (w_q, w_k, w_v, w_o), strict=True):
        part.weight = nn.Parameter(w)
    return layer(query, key, value, attn_mask=mask, need_weights=True)
"""
RESHAPED = instead(LAYER, "merge_heads(weights @ v)", "(weights @ v).reshape(query.shape)")

ANSWERS: dict[str, list[tuple[str, str]]] = {
    "split_or_mix": [
        (f"answer = {SPLITS | {'b': 'whole'}}", "b is not 'whole': this view cuts the memory into"),
        (f"answer = {SPLITS | {'c': 'mixed'}}", "c is not 'mixed': feature j goes to head j % H"),
        (f"answer = {SPLITS | {'d': 'whole'}}", "d is not 'whole': the features are no longer"),
        (f"answer = {SPLITS | {'e': 'whole'}}", "e is not 'whole': reshape copies in the order"),
        (f"answer = {SPLITS | {'f': None}}", "f has no guess"),
        ("answer = ['whole', 'mixed']", "the answer must be a dictionary, got list"),
        ("answer = 6", "the answer must be a dictionary, got int"),
    ],
    "count_parameters": [
        (COUNT + "3 * E**2 + 3 * bias * E", "is out_proj missing?"),
        (COUNT + "2 * E**2 + 2 * kdim * E + 4 * bias * E", "keys and values G / H as high?"),
        (COUNT + "2 * E**2 + 2 * kdim * small", "are the biases missing?"),
        (COUNT + "2 * E * (E + 1) + 2 * small * (kdim + 1)", "bias=False means no biases"),
        (COUNT + "2 * E * (E + bias) + 2 * (small * kdim + bias * E)", "G · D numbers"),
        (COUNT + "2 * E * (E + bias) + 2 * small * (E + bias)", "inputs of width kdim"),
        (
            COUNT + "sum(p.numel() for p in MultiHeadAttention(E, num_heads, num_kv_heads="
            "num_kv_heads, kdim=kdim, vdim=kdim, bias=bias).parameters())",
            "count from the sizes alone: build no layer",
        ),
        (
            COUNT + "2 * E * (E + bias) + 2 * E * (kdim + bias) * (num_kv_heads // num_heads)",
            "4 heads, 1 for keys and values, kdim 8, bias True: ",
        ),
        (COUNT + "str(E)", "the count should be a number, got str"),
        ("count = 288", "the answer should be a function, got int"),
    ],
    "multi_head": [
        (MIXED, "tokens and heads are mixed"),
        (RESHAPED, "the merge mixes tokens and heads: transpose first"),
        (
            instead(LAYER, "mask=mask)", "mask=mask, scale=query.shape[-1] ** -0.5)"),
            "the root is that of E, but a head is only D wide",
        ),
        (instead(LAYER, "mask=mask)", "mask=mask, scale=1.0)"), "are not divided by the root of D"),
        (instead(LAYER, ") @ w_o.T,", "),"), "w_o is missing"),
        (instead(LAYER, ", attn_mask=mask)", ")"), "with a mask (L, S): the mask changes nothing"),
        (
            instead(LAYER, "        mask = mask[:, None]", "        mask = None"),
            "with a mask (B, L, S): the mask changes nothing",
        ),
        (
            instead(LAYER, "mask=mask)", "mask=None if mask is None else ~mask)"),
            "with a mask (L, S): the mask is inverted",
        ),
        (instead(LAYER, "value @ w_v.T", "key @ w_v.T"), "made from key, not from value"),
        (UNTURNED, "the matrices are not transposed: x @ w.T"),
        (instead(LAYER, "@ w_q.T", "@ w_q"), "w_q is not transposed: x @ w.T"),
        (instead(LAYER, "@ w_o.T", "@ w_o"), "w_o is not transposed: x @ w.T"),
        (
            instead(
                LAYER, "repeat_interleave(num_heads // G, dim=1)", "repeat(1, num_heads // G, 1, 1)"
            ),
            "with 2 key-value heads for 4 of the queries: query head h reads",
        ),
        (
            instead(LAYER, "num_heads // G, dim", "min(2, num_heads // G), dim"),
            "the answer raises ValueError: query and key must have shapes",  # with 1 key-value head
        ),
        (
            instead(LAYER, "w_o.T, weights", "w_o.T"),
            "return the output and the weights, got Tensor",
        ),
        (
            instead(LAYER, "merge_heads(weights @ v) @ w_o.T, weights", "weights"),
            "return the output and the weights, got Tensor",
        ),
        (
            instead(
                LAYER,
                "return merge_heads(weights @ v) @ w_o.T, weights",
                "return weights, merge_heads(weights @ v) @ w_o.T",
            ),
            "return the output first, then the weights",
        ),
        (PACKAGED, "put the layer together from its parts"),
        ("whole_layer = [1, 2]", "the answer should be a function, got list"),
    ],
    "moved_by_head": [
        (MOVED + "weights * v.norm(dim=-1)", "that is the length before w_o"),
        (MOVED + "(v @ w_o.T).norm(dim=-1).expand(weights.shape)", "the weight is missing"),
        (MOVED + "weights", "that is the weights alone"),
        (MOVED + "(weights @ v @ w_o.T).norm(dim=-1)", "the length of each whole output"),
        (MOVED + "(weights * (v @ w_o.T).norm(dim=-1))**2", "the root is missing"),
        (MOVED + "weights.tolist()", "the lengths should be a tensor, got list"),
    ],
    "sees_future": [
        ("answer = set()", "output 0 sees a later input"),
        ("answer = {0, 1, 2, 3}", "output 3 sees no later input than itself"),
        ("answer = [3, 4, 5]", "output 0 sees a later input"),
        ("answer = 3", "the answer should be a set of positions, got int"),
        ("answer = torch.tensor([True] * 3 + [False] * 3)", "the positions are 0 to 5, got True"),
        ("answer = set(torch.arange(3))", "the positions are 0 to 5, got tensor(0)"),
        ("answer = {0, 1, 6}", "the positions are 0 to 5, got 6"),
        ("answer = {0: True, 1: True, 2: True}", "a set of positions, got dict"),
        ("answer = ['0', None]", "the positions are 0 to 5, got '0'"),
    ],
}
