"""Typical wrong answers to the exercises of chapter 5, and how each is named."""

from tests.wrong_answers import answers, guesses

SPLITS = {"a": "whole", "b": "mixed", "c": "whole", "d": "error", "e": "mixed", "f": "whole"}
COUNT = """
def count(embed_dim, num_heads, num_kv_heads, kdim, bias):
    E, small = embed_dim, embed_dim * num_kv_heads // num_heads
    return 2 * E * (E + bias) + 2 * small * (kdim + bias)
"""
BUILT = """
from attn_notes.multihead import MultiHeadAttention
def count(embed_dim, num_heads, num_kv_heads, kdim, bias):
    sizes = {"num_kv_heads": num_kv_heads, "kdim": kdim, "vdim": kdim, "bias": bias}
    layer = MultiHeadAttention(embed_dim, num_heads, **sizes)
    return sum(p.numel() for p in layer.parameters())
"""
LAYER = """
from attn_notes.attention import attention_weights
from attn_notes.multihead import merge_heads
def split_heads(x, heads):
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)
def whole_layer(query, key, value, w_q, w_k, w_v, w_o, num_heads, mask=None):
    G, scale = num_heads * w_k.shape[0] // w_q.shape[0], None
    if mask is not None and mask.dim() == 3:
        mask = mask[:, None]
    q = split_heads(query @ w_q.T, num_heads)
    k, v = split_heads(key @ w_k.T, G), split_heads(value @ w_v.T, G)
    k, v = (x.repeat_interleave(num_heads // G, dim=1) for x in (k, v))
    weights = attention_weights(q, k, attn_mask=mask, scale=scale)
    output = merge_heads(weights @ v) @ w_o.T
    return output, weights
"""
UNTURNED = "unflatten(-1, (heads, -1)).transpose(1, 2) -> view(2, heads, -1, x.shape[-1] // heads)"
PACKAGED = """
from attn_notes.multihead import MultiHeadAttention
def whole_layer(query, key, value, w_q, w_k, w_v, w_o, num_heads, mask=None):
    E, G = len(w_q), len(w_k) * num_heads // len(w_q)
    layer = MultiHeadAttention(E, num_heads, num_kv_heads=G, bias=False)
    parts = (layer.q_proj, layer.k_proj, layer.v_proj, layer.out_proj)
    for part, w in zip(parts, (w_q, w_k, w_v, w_o), strict=True):
        part.weight = nn.Parameter(w)
    return layer(query, key, value, attn_mask=mask, need_weights=True)
"""
MOVED = "\ndef moved_by_head(weights, v, w_o):\n    return "

ANSWERS = answers(
    split_or_mix=[
        *guesses(
            SPLITS,
            ("b", "whole", "this view cuts the memory into"),
            ("c", "mixed", "feature j goes to head j % H"),
            ("d", "whole", "the features are no longer"),
            ("e", "whole", "reshape copies in the order"),
        ),
        (f"answer = {SPLITS | {'f': None}}", "f has no guess"),
    ],
    layer_parameters=[
        (COUNT, "2 * E * (E + bias) -> E * (E + bias)", "is out_proj missing?"),
        (COUNT, "* num_kv_heads -> * num_heads ** (num_kv_heads == num_heads)", "4 heads, 2"),
        (COUNT, "small * -> E *", "keys and values G / H as high?"),
        (COUNT, "+ bias -> ", "are the biases missing?"),
        (COUNT, "+ bias -> + 1", "bias=False means no biases"),
        (COUNT, "small * (kdim + bias) -> (small * kdim + bias * E)", "G · D numbers"),
        (COUNT, "kdim + bias) -> E + bias)", "inputs of width kdim"),
        (BUILT, "count from the sizes alone: build no layer"),
        (COUNT, "2 * E * (E + bias) -> 2 * nn.Linear(E, E + bias).weight.numel()", "no layer"),
        (COUNT, "return -> return 1 +", "4 heads, 4 for keys and values, kdim 5, bias True: "),
    ],
    multi_head=[
        (LAYER, UNTURNED, "tokens and heads are mixed"),
        (LAYER, "merge_heads(weights @ v) -> (weights @ v).reshape(query.shape)", "merge mixes"),
        (LAYER, ", None -> , query.shape[-1] ** -0.5", "the root is that of E, but a head is only"),
        (LAYER, ", None\n -> , 1.0\n", "are not divided by the root of D"),
        (LAYER, " @ w_o.T -> ", "w_o is missing"),
        (LAYER, "w_q.T, num_heads -> w_q.T, 4", "w_v.T, G -> w_v.T, G * 4 // num_heads", "raises"),
        (LAYER, "attn_mask=mask -> attn_mask=None", "a mask (L, S): the mask changes nothing"),
        (LAYER, "dim() == 3 -> dim() == 3 and G == num_heads", "raises ValueError: mask must have"),
        (LAYER, "mask = mask[:, None] -> mask = None", "(B, L, S): the mask changes nothing"),
        (LAYER, "attn_mask=mask -> attn_mask=None if mask is None else ~mask", "is inverted"),
        (LAYER, "value @ w_v.T -> key @ w_v.T", "made from key, not from value"),
        (LAYER, ".T -> ", "the matrices are not transposed: x @ w.T"),
        (LAYER, "@ w_q.T -> @ w_q", "w_q is not transposed: x @ w.T"),
        (LAYER, "@ w_o.T -> @ w_o", "w_o is not transposed: x @ w.T"),
        (LAYER, "_interleave(num_heads // G, dim=1) -> (1, num_heads // G, 1, 1)", "head h reads"),
        (LAYER, "num_heads // G, -> min(2, num_heads // G),", "raises ValueError: query"),
        (LAYER, "output, weights -> output", "output and the weights, got Tensor"),
        (LAYER, "output, weights -> weights, output", "return the output first, then"),
        (PACKAGED, "put the layer together from its parts"),
        (LAYER, "output = -> _ = nn.MultiheadAttention\n    output =", "together from its parts"),
        (LAYER, "num_heads * w_k.shape[0] // w_q.shape[0] -> len(w_k) // 2", "raises ValueError"),
        (LAYER, "], None -> ], 2**-0.5", "with 2 heads of width 6: "),
    ],
    moved_by_head=[
        (MOVED + "weights * v.norm(dim=-1)", "that is the length before w_o"),
        (MOVED + "(v @ w_o.T).norm(dim=-1).expand(weights.shape)", "the weight is missing"),
        (MOVED + "weights * (8 * (v @ w_o.T).square().mean(-1)).sqrt()", "the lengths should"),
        (MOVED + "weights", "that is the weights alone"),
        (MOVED + "(weights @ v @ w_o.T).norm(dim=-1)", "the length of each whole output"),
        (MOVED + "(weights * (v @ w_o.T).norm(dim=-1))**2", "the root is missing"),
    ],
    sees_future=[
        ("answer = set()", "output 0 sees a later input"),
        ("answer = {0, 1, 2, 3}", "output 3 sees no later input than itself"),
        ("answer = 3", "the answer should be a set of positions, got int"),
        ("answer = torch.tensor([True] * 3 + [False] * 3)", "the positions are 0 to 5, got True"),
        ("answer = set(torch.arange(3))", "the positions are 0 to 5, got tensor(0)"),
        ("answer = {0, 1, 6}", "the positions are 0 to 5, got 6"),
        ("answer = {0: True, 1: True, 2: True}", "a set of positions, got dict"),
    ],
)
