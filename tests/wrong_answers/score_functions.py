"""Typical wrong answers to the exercises of chapter 2, and how each is named."""

from tests.wrong_answers import instead

WINNERS = {"dot": "b", "gaussian": "a", "dot, keys moved": "b", "gaussian, keys moved": "c"}
ADDITIVE = """
def additive_score(query, key, w_q, w_k, w_v):
    q = (query @ w_q.T)[:, :, None, :]
    k = (key @ w_k.T)[:, None, :, :]
    return torch.tanh(q + k) @ w_v
"""
COSINE = "\ndef cosine_score(query, key):\n    return query @ key.mT / "
NORMALISED = """
def cosine_score(query, key):
    query = query / query.norm(dim=-1, keepdim=True)
    key = key / key.norm(dim=-1, keepdim=True)
    return query @ key.mT
"""
QUERY = "query = F.normalize(query, dim=-1)"
BOTH = instead(
    instead(NORMALISED, "query / query.norm(dim=-1, keepdim=True)", "F.normalize(query, dim=-1)"),
    "key / key.norm(dim=-1, keepdim=True)",
    "F.normalize(key, dim=-1)",
)
TRANSPOSED = instead(BOTH, "key.mT", "key.transpose(1, 2)")
WEIGHTS = """
def weights_of(query, key):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    return scores.softmax(dim=-1)
"""
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
        (f"prediction = {WINNERS | {'dot': 'a'}}", "being the query itself is no guarantee"),
        (
            f"prediction = {WINNERS | {'gaussian, keys moved': 'a'}}",
            "gaussian, keys moved is not 'a': every distance changes",
        ),
        (f"prediction = {WINNERS | {'gaussian': 'b'}}", "0 for a key on the query"),
        (f"prediction = {WINNERS | {'dot, keys moved': 'd'}}", "the same number to every dot"),
        (f"prediction = {WINNERS | {'dot': None}}", "dot has no guess"),
        ("prediction = ['b', 'a', 'b', 'c']", "the answer must be a dictionary, got list"),
    ],
    "additive_score": [
        (instead(ADDITIVE, "torch.tanh(q + k)", "(q + k)"), "there is no tanh in between"),
        (
            instead(
                instead(ADDITIVE, "[:, :, None, :]", "[:, None]"), "[:, None, :, :]", "[:, :, None]"
            ),
            "queries and keys have changed places",
        ),
        (instead(ADDITIVE, "[:, :, None, :]", ""), "the answer raises RuntimeError"),
        (
            instead(ADDITIVE, " @ w_v", ".sum(-2)"),
            "the scores should have shape (2, 3, 5), got (2, 3, 13)",
        ),
    ],
    "cosine_score": [
        (COSINE + "1", "this is the dot product: divide by both lengths"),
        (COSINE + "math.sqrt(query.shape[-1])", "not by the two lengths"),
        (NORMALISED, "a query of zeros gives NaN"),
        (NORMALISED.replace("keepdim=True)", "keepdim=True).clamp(min=0.2)"), "short vectors have"),
        (
            COSINE + "(query.norm(dim=-1)[..., None] * key.norm(dim=-1)[..., None, :] + 1e-5)",
            "short vectors have the same cosine",
        ),
        (
            instead(
                NORMALISED,
                "    query =",
                "    if query.norm() == 0:\n        return query @ key.mT\n    query =",
            ),
            "a query of zeros gives NaN",
        ),
        (
            instead(NORMALISED, "key = key / key.norm(dim=-1, keepdim=True)", "").replace(
                "query = query / query.norm(dim=-1, keepdim=True)", QUERY
            ),
            "the cosines should be",
        ),
        (
            instead(NORMALISED, "query = query / query.norm(dim=-1, keepdim=True)", QUERY),
            "a key of zeros gives NaN: score it 0",
        ),
        (TRANSPOSED, "do you count axes from the end?"),
        (instead(BOTH, "query @ key.mT", "key @ query.mT"), "rows are queries, (..., L, S)"),
        (instead(BOTH, "query @ key.mT", "[0.0]"), "should be a tensor, got list"),
    ],
    "softmax_axis": [
        (
            instead(WEIGHTS, "dim=-1", "dim=-2"),
            "for queries (5, 11) the softmax ran over axis 0, the queries",
        ),
        (
            instead(WEIGHTS, "dim=-1", "dim=1 if scores.dim() < 4 else -1"),
            "for queries (2, 5, 11) the softmax ran over axis 1, the queries",
        ),
        (
            instead(WEIGHTS, "dim=-1", "dim=2 if scores.dim() > 2 else -1"),
            "for queries (2, 3, 5, 11) the softmax ran over axis 2, the queries",
        ),
        (instead(WEIGHTS, "dim=-1", "dim=0"), "for queries (5, 11) the softmax ran over axis 0"),
        (instead(WEIGHTS, ".softmax(dim=-1)", ""), "the weights should be"),
    ],
    "divide_by_width": [
        (instead(MEASURE, "key.T / d", "key.T / math.sqrt(d)"), "that is still the root of d"),
        (
            instead(
                MEASURE,
                "scores.var().item(), entropy.mean().item() / math.log(64)",
                "entropy.mean().item() / math.log(64), scores.var().item()",
            ),
            "or the entropy's share, which stands second",
        ),
        (
            instead(instead(MEASURE, "softmax(-1)).sum(-1)", "softmax(0)).sum(0)"), "64)", "400)"),
            "the entropy should fall short of ln 64 by about 7.5e-03 of it",
        ),
        (
            instead(MEASURE, "entropy.mean()", "entropy[0]"),
            "the entropy should fall short of ln 64 by about 1.2e-04 of it",
        ),
        (
            instead(MEASURE, "math.log(64)", "math.log('64')"),
            "the answer raises TypeError: must be",
        ),
        (instead(MEASURE, " / math.log(64)", ""), "is in nats: divide it by ln 64"),
        ("\ndef measure(d):\n    return 1 / d, 1.0", "1/16 is the prediction"),
        (
            instead(MEASURE, "entropy.mean().item() / math.log(64)", "1.0"),
            "the entropy should fall short of ln 64 by about 7.5e-03 of it, got 0.0e+00",
        ),
        (instead(MEASURE, "scores.var()", "scores.std()"), "square it"),
        (instead(MEASURE, "return scores.var().item(), ", "return "), "return two numbers"),
        ("\ndef measure(d):\n    return [None, 'all']", "return two numbers"),
    ],
}
