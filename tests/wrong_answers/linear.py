"""Typical wrong answers to the exercises of chapter 13, and how each is named."""

from tests.wrong_answers import answers, guesses

BUDGET = {"a": "double", "b": "same", "c": "double", "d": "four times", "e": "same"}
BUDGET |= {"f": "eight times"}

LOOP = """
def go_on(q, k, v, state):
    S, z = state
    outputs = []
    for t in range(len(q)):
        S, z = S + torch.outer(k[t], v[t]), z + k[t]
        total = q[t] @ z
        outputs.append(q[t] @ S / total if total else torch.zeros_like(v[t]))
    return torch.stack(outputs), (S, z)
"""
TABLE = """
def go_on(q, k, v, state):
    S, z = state
    weights = (q @ k.mT).tril()
    total = (q @ z + weights.sum(-1))[:, None]
    outputs = torch.where(total == 0, 0.0, (q @ S + weights @ v) / total)
    return outputs, (S + k.mT @ v, z + k.sum(0))
"""
STEP = """
def step(S, k, v, beta, gate):
    left = gate * S
    return left + beta * torch.outer(k, v - k @ left)
"""
OUTSIDE = """
query_2 = (1.0, 0.0)
keys_2 = ((-1.9, 0.0), (-0.095, 0.0))
values_2 = (0.0, 1.0)
"""

ANSWERS = answers(
    fixed_budget=guesses(
        BUDGET,
        ("a", "same", "a cache holds a key"),
        ("b", "double", "each token is added"),
        ("c", "four times", "a token has D + Dv"),
        ("d", "double", "S has D rows"),
        ("e", "double", "the next token adds one"),
        ("f", "same", "S has a column for each"),
    ),
    read_on=[
        (TABLE, ".tril() -> .tril(-1)", "a query reads its own key, too"),
        (TABLE, ".tril() -> ", "may read no key after it"),
        (TABLE, "q @ S + -> ", "q @ z + -> ", "the state that came is not read"),
        (TABLE, "q @ z + -> ", "z that came is left out of the normaliser"),
        (TABLE, "q @ S + -> ", "S that came is left out of the sum"),
        (TABLE, ") / total) -> ))", "divide by the sum of the weights"),
        (TABLE, "total == 0 -> total < 0", "the output is 0, not 0 / 0"),
        (TABLE, "S + k.mT @ v -> k.mT @ v", "adds to the one that came"),
        (TABLE, "z + k.sum(0) -> k.sum(0)", "z adds to the one that came"),
        (TABLE, "return outputs, -> return", "the outputs should have shape"),
        (LOOP, "(S, z)\n -> (z, S)\n", "return S first, then z"),
        (LOOP, " if total else torch.zeros_like(v[t]) -> ", "the output is 0, not 0 / 0"),
        (LOOP, "S, z = S + -> S += ", ", z + k[t] -> ; z += k[t]", "work on a copy"),
    ],
    gated_delta=[
        (STEP, "k @ left -> k @ S", "after the gate, not before"),
        (
            STEP,
            "@ left) -> @ S))",
            "return left -> return gate * (S",
            "leaves the new value alone",
        ),
        (STEP, "gate * S -> S", "everything fades, by the gate"),
        (STEP, "gate * S -> (1 - gate) * S", "multiply by it, not by 1 - gate"),
        (STEP, "v - k @ left -> v", "subtract what the key reads already"),
        (STEP, "beta * -> ", "beta is the share that is corrected"),
        (STEP, "left + beta -> left - beta", "go down the slope of the error"),
        (
            STEP,
            "+ beta * torch.outer(k, v - k -> + torch.outer(k, beta * v - k",
            "beta scales what",
        ),
        (STEP, "torch.outer(k, v - k @ left) -> torch.outer(v - k @ left, k)", "raises"),
        (STEP, "left = gate * S -> left = S.mul_(gate)", "Not yet"),
    ],
    far_outside=[
        (OUTSIDE, "-0.095 -> 0.5", "bring the sum of the weights nearer to 0"),
        (OUTSIDE, "-1.9 -> -0.9", "no weight is negative"),
        (OUTSIDE, "(0.0, 1.0) -> (1.0, 0.0)", "far outside, but below"),
        (OUTSIDE, "-0.095 -> -0.1", "the sum of the weights must not be 0"),
        (OUTSIDE, "(0.0, 1.0) -> (0.0, 9.0)", "the values must be from 0 to 1"),
        (OUTSIDE, "-1.9 -> -19.0", "entries of query and keys must be from -2 to 2"),
        (OUTSIDE, "(1.0, 0.0)\nkeys -> 1.0\nkeys", "the query must have shape (2,), got ()"),
        (OUTSIDE, "(0.0, 1.0) -> 'one'", "the values must be numbers"),
    ],
)
