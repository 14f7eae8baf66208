"""Typical wrong answers to the exercises of chapter 2, and how each is named."""

from tests.wrong_answers import instead

MEASURE = """
def measure(d):
    rng = torch.Generator().manual_seed(0)
    query = torch.randn(400, d, generator=rng).to(device)
    key = torch.randn(64, d, generator=rng).to(device)
    scores = query @ key.T / d
    entropy = torch.special.entr(scores.softmax(-1)).sum(-1)
    return scores.var().item(), entropy.mean().item() / math.log(64)
"""

ANSWERS: dict[str, list[tuple[str, str]]] = {
    "which_key_wins": [
        (
            """
prediction = {
    "dot": "a",
    "gaussian": "a",
    "dot, keys moved": "b",
    "gaussian, keys moved": "c",
}
""",
            "being the query itself is no guarantee",
        ),
        (
            """
prediction = {
    "dot": "b",
    "gaussian": "a",
    "dot, keys moved": "b",
    "gaussian, keys moved": "a",
}
""",
            '"gaussian, keys moved": a is (1, 6) and scores -12.5, but another key scores 0',
        ),
        (
            """
prediction = {
    "dot": "b",
    "gaussian": "a",
    "dot, keys moved": "b",
    "gaussian, keys moved": "e",
}
""",
            "should be one of a, b, c, d, got 'e'",
        ),
    ],
    "additive_score": [
        (
            """
def additive_score(query, key, w_q, w_k, w_v):
    q = (query @ w_q.T)[:, :, None, :]
    k = (key @ w_k.T)[:, None, :, :]
    return (q + k) @ w_v
""",
            "there is no tanh in between",
        ),
        (
            """
def additive_score(query, key, w_q, w_k, w_v):
    q = (query @ w_q.T)[:, None, :, :]
    k = (key @ w_k.T)[:, :, None, :]
    return torch.tanh(q + k) @ w_v
""",
            "queries and keys have changed places",
        ),
        (
            """
def additive_score(query, key, w_q, w_k, w_v):
    q = (query @ w_q.T)[:, :, None, :]
    k = (key @ w_k.T)[:, None, :, :]
    return (torch.tanh(q + k) @ w_v).softmax(-1)
""",
            "return the scores, before the softmax",
        ),
        (
            """
def additive_score(query, key, w_q, w_k, w_v):
    return torch.tanh(query @ w_q.T + key @ w_k.T) @ w_v
""",
            "the answer raises RuntimeError",
        ),
        (
            """
def additive_score(query, key, w_q, w_k, w_v):
    q = (query @ w_q.T)[:, :, None, :]
    k = (key @ w_k.T)[:, None, :, :]
    return torch.tanh(q + k).sum(-2)
""",
            "the scores should have shape (2, 3, 5), got (2, 3, 13)",
        ),
    ],
    "cosine_score": [
        (
            """
def cosine_score(query, key):
    return query @ key.transpose(-2, -1)
""",
            "this is the dot product: divide by both lengths",
        ),
        (
            """
def cosine_score(query, key):
    return query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
""",
            "not by the two lengths",
        ),
        (
            """
def cosine_score(query, key):
    return query @ key.transpose(-2, -1) / (query.norm() * key.norm())
""",
            "each vector has its own",
        ),
        (
            """
def cosine_score(query, key):
    query = query / query.square().sum(-1, keepdim=True)
    key = key / key.square().sum(-1, keepdim=True)
    return query @ key.transpose(-2, -1)
""",
            "take the root",
        ),
        (
            """
def cosine_score(query, key):
    query = query / query.norm(dim=-1, keepdim=True)
    key = key / key.norm(dim=-1, keepdim=True)
    return query @ key.transpose(-2, -1)
""",
            "a query of zeros gives NaN",
        ),
    ],
    "softmax_axis": [
        (
            """
def weights_of(query, key):
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    return scores.softmax(dim=-2)
""",
            "for queries (5, 11) the softmax ran over axis 0, the queries",
        ),
        (
            """
def weights_of(query, key):
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    return scores.softmax(dim=1 if scores.dim() < 4 else -1)
""",
            "for queries (2, 5, 11) the softmax ran over axis 1, the queries",
        ),
    ],
    "divide_by_width": [
        (
            instead(MEASURE, "key.T / d", "key.T / math.sqrt(d)"),
            "that is still the root of d",
        ),
        (
            instead(MEASURE, " / math.log(64)", ""),
            "is in nats: divide it by ln 64",
        ),
        (
            instead(MEASURE, "scores.var()", "scores.std()"),
            "this is the standard deviation: square it",
        ),
    ],
}
