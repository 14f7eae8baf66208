"""Answers to the exercises that are right, and written in another way than the book's solutions.

Where there are several to an exercise, a line `# or` parts them.
"""

ANSWERS = {
    "divide_by_width": """
def measure(d):
    torch.manual_seed(0)
    query, key = torch.randn((400, d)), torch.randn((64, d))
    scores = torch.einsum("id,jd->ij", query, key).cpu().double() / d
    weights = scores.exp() / scores.exp().sum(-1, keepdim=True)
    bits = -(weights * weights.log2()).sum(-1)
    return float((scores**2).mean() - scores.mean() ** 2), float(bits.mean() / 6)
""",
    "entropy_to_order": """
def temperature_for(scores, entropy):  # Newton's method on 1/T, from below
    beta = 1e-3 / scores.double().std()
    for _ in range(10000):
        weights = (beta * scores.double()).softmax(-1)
        gap = torch.special.entr(weights).sum() - entropy
        spread = weights @ scores.double() ** 2 - (weights @ scores.double()) ** 2
        if abs(gap) < 1e-5:
            break
        beta = beta * (1 + (gap / (beta**2 * spread)).clamp(-0.1, 0.1))
    return 1 / beta
""",
    "length_penalty": """
def pick(log_probs, lengths, alpha):
    return (log_probs / ((5 + lengths) / 6) ** alpha).cpu().numpy().argmax()
""",
    "empty_rows": "answer = {'a': {}, 'b': [], 'c': (1, 0), 'd': [0], 'e': range(2, 4)}",
    "softmax_with_empty_rows": """
def softmax_over_open(scores, mask):
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(~mask, lowest).softmax(-1) * mask
""",
    "multi_head": """
def whole_layer(query, key, value, w_q, w_k, w_v, w_o, num_heads, mask=None):
    D = len(w_q) // num_heads
    outputs, tables = [], []
    for h in range(num_heads):
        g = h * len(w_k) // len(w_q)
        q, k = query @ w_q[h * D : (h + 1) * D].T, key @ w_k[g * D : (g + 1) * D].T
        scores = torch.einsum("bld,bsd->bls", q, k) / D**0.5
        if mask is not None:
            scores[~(mask[:, h] if mask.dim() == 4 else mask).expand_as(scores)] = -torch.inf
        tables.append(scores.softmax(-1))
        heads = tables[-1] @ value @ w_v[g * D : (g + 1) * D].T
        outputs.append(heads @ w_o[:, h * D : (h + 1) * D].T)
    return sum(outputs), torch.stack(tables, 1)
""",
    "alibi_horizon": """
def horizon(slope, share):
    import numpy as np

    return np.ceil(np.log(1 - share) / -slope).astype(int)
""",
    "column_order": "def order(D):\n    return torch.arange(D).view(-1, 2).T.flatten()",
    "norm_gradient": """
def norm_backward(x, gamma, g, eps=1e-5):
    L, E = x.shape
    rows = []
    for n in range(L):
        centred, u = x[n] - x[n].mean(), gamma * g[n]
        sigma = (centred @ centred / E + eps).sqrt()
        rows.append((u - u.mean() - centred * (u @ centred) / E / sigma**2) / sigma)
    return torch.stack(rows)
""",
    "adam_written": """
def adam(gradients, lr):
    W = torch.nn.Parameter(torch.zeros_like(gradients[0]))
    adam = torch.optim.Adam([W], lr=lr)
    for W.grad in gradients:
        adam.step()
    return W
""",
    "ceiling_without_order": """
def ceiling(numbers):
    from fractions import Fraction

    return Fraction(len({"".join(sorted(str(n))) for n in numbers}), len(numbers))
""",
    "how_many_known": """
import numpy

answer = dict(zip("abcdef", numpy.array([8, 6, 4, 7, 4, 5]), strict=True))
""",
    "two_families": """
def logits(model, ids, family):
    real, places = ids != 0, torch.arange(ids.shape[1])
    mask = real[:, None, None]
    if family == "gpt":
        mask = mask & (places <= places[:, None])
    x = model.embedding(ids) + model.positions[places]
    for block in model.blocks:
        x = block(x, mask)
    return model.out_proj(model.norm(x))
""",
    "eighty_ten_ten": """
def ask(x, share, hidden, first, size):
    u = torch.rand(x.shape) / share
    chosen = (u < 1) & (x != 0)
    other = torch.randint(first, size, x.shape)
    shown = torch.where(u < 0.8, hidden, torch.where(u < 0.9, other, x))
    return [torch.where(chosen, shown, x), x * chosen]
""",
    "mended_rescaling": """
def one_query(scores, values, tile):
    total, output = scores.new_full((), -torch.inf), values.new_zeros(values.shape[1])
    for a, v in zip(scores.split(tile), values.split(tile), strict=True):
        if a.max() > -torch.inf:
            both = torch.logaddexp(total, a.logsumexp(0))
            output = (total - both).exp() * output + (a - both).exp() @ v
            total = both
    return output
# or
def one_query(scores, values, tile):  # skips a masked tile
    m, Z, u = scores.new_full((), -torch.inf), scores.new_zeros(()), 0 * values[0]
    for a, v in zip(scores.split(tile), values.split(tile), strict=True):
        if a.max() == -torch.inf:
            continue
        old, m = m, torch.stack([m, a.max()]).max()
        r, e = torch.e ** (old - m), torch.e ** (a - m)
        Z, u = r * Z + e.sum(), r * u + e @ v
    return u / Z if Z > 0 else u
""",
    "patched_position": """
class patch_at:
    def __init__(self, layer, head, position, new):
        self.projection, self.plain = layer.out_proj, layer.out_proj.forward
        D = layer.out_proj.in_features // layer.num_heads

        def forward(x):
            here = torch.zeros_like(x, dtype=torch.bool)
            here[:, position, D * head : D * (head + 1)] = True
            return self.plain(x.masked_scatter(here, new))

        self.patched = forward

    def __enter__(self):
        self.projection.forward = self.patched

    def __exit__(self, *error):
        self.projection.forward = self.plain
""",
    "integrated_by_hand": """
def integrated(f, x, baseline, steps):
    point = baseline.clone().requires_grad_()
    for n in range(steps):
        with torch.no_grad():
            point.copy_(baseline + (n + 0.5) / steps * (x - baseline))
        f(point).backward()
    return (x - baseline) * point.grad / steps
""",
    "read_on": """
def go_on(q, k, v, state):  # all states at once
    S = state[0] + (k[:, :, None] * v[:, None]).cumsum(0)
    z = state[1] + k.cumsum(0)
    sums, total = torch.einsum("lf,lfd->ld", q, S), (q * z).sum(-1, keepdim=True)
    return (sums / total).nan_to_num(0), [S[-1], z[-1]]
""",
    "gated_delta": """
def step(S, k, v, beta, gate):
    keep = torch.eye(len(k)) - beta * torch.outer(k, k)
    return gate * keep @ S + beta * torch.outer(k, v)
""",
    "far_outside": """
query_2 = torch.tensor([0.0, -2.0])
keys_2 = [[0.0, 1.0], [0.0, 0.001]]
values_2 = torch.tensor([1, 0])
# or
query_2 = [1.0, 0.0]
keys_2 = torch.tensor([[-1.999, 2.0], [0.0, 0.0]])
values_2 = [0, 1]
""",
    "centred_writer": """
def centred(weight, bias):
    E = len(bias)
    minus_mean = torch.eye(E) - torch.ones(E, E) / E
    return minus_mean @ weight, minus_mean @ bias
""",
    "rows_for_halves": """
def to_halves(weight, num_heads):
    heads = weight.chunk(num_heads)
    return torch.cat([torch.cat([head[0::2], head[1::2]]) for head in heads])
""",
    "window_with_sink": """
def keeps(L, window, first):
    mask = torch.ones(L, L, dtype=torch.bool)
    late = mask.tril(-window)
    late[:, :first] = False
    return mask.tril() ^ late
""",
    "absorbed_step": """
def step(q, c, W_k, W_v):
    outputs = []
    for query, to_key, to_value in zip(q, W_k, W_v):
        scores = c @ (to_key.T @ query)
        weights = (scores / len(query) ** 0.5).exp()
        outputs.append(to_value @ (weights @ c / weights.sum()))
    return torch.stack(outputs)
""",
    "row_gates": """
def by_rows(q, k, v, gates):
    logs = gates.log().cumsum(0)
    left = (logs[:, None] - logs[None]).exp()  # (L, L, D)
    return torch.einsum("id,ijd,jd->ij", q, left, k).tril() @ v
""",
    "lost_quotient": """
gates_64 = [1] * 33 + [0.04] * 31
# or
gates_64 = torch.ones(64, dtype=torch.float64)
gates_64[40:60] = 0.01
""",
}
