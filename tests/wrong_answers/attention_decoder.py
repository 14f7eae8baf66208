"""Typical wrong answers to the exercises of chapter 4, and how each is named."""

from tests.wrong_answers import instead

GREEDY = """
def say_greedily(model, source, lengths, max_length):
    state, said = model.start(source, lengths), []
    tokens = torch.full((len(source),), START, device=source.device)
    ended = torch.zeros_like(tokens, dtype=torch.bool)
    while len(said) < max_length and not ended.all():
        logits, state = model.step(tokens, state)
        tokens = logits.argmax(-1).masked_fill(ended, PAD)
        ended = ended | (tokens == END)
        said.append(tokens)
    return torch.stack(said, dim=1)
"""

_SHAPES = (
    'answer = {{"keys": {keys}, "query": {query}, "weights": (5, 1, 7), "context": {context}, '
    '"gru_input": {gru}, "logits": (5, 9, 11)}}'
)
_RIGHT = {"keys": (5, 7, 12), "query": (5, 1, 8), "context": (5, 12), "gru": (1, 5, 16)}


def _shapes(**wrong: tuple[int, ...]) -> str:
    return _SHAPES.format(**{**_RIGHT, **wrong})


ANSWERS: dict[str, list[tuple[str, str]]] = {
    "decoder_shapes": [
        (_shapes(keys=(5, 7, 6)), "keys is not of shape (5, 7, 6): one for each source word"),
        (_shapes(query=(2, 5, 8)), "query is not of shape (2, 5, 8): the top layer's state"),
        (_shapes(context=(5, 8)), "context is not of shape (5, 8): an average of keys"),
        (_shapes(gru=(1, 5, 12)), "embedding and context end to end: 4 + 12"),
    ],
    "read_source": [
        (
            """
def read(hidden, memory, mask, score):
    weights = masked_softmax(score(hidden[0][:, None], memory), mask)
    return (weights @ memory)[:, 0], weights[:, 0]
""",
            "the query is the state of the bottom layer",
        ),
        (
            """
def read(hidden, memory, mask, score):
    weights = score(hidden[-1][:, None], memory).softmax(-1)
    return (weights @ memory)[:, 0], weights[:, 0]
""",
            "sentence 1 has two words, and its padding is read",
        ),
        (
            """
def read(hidden, memory, mask, score):
    weights = masked_softmax(score(hidden[-1][:, None], memory), mask)
    return weights @ memory, weights[:, 0]
""",
            "drop the axis of the one query",
        ),
        (
            """
def read(hidden, memory, mask, score):
    weights = masked_softmax(score(hidden[-1][:, None], memory), mask)
    return (weights @ memory)[:, 0]
""",
            "read should return (context, weights), got Tensor",
        ),
    ],
    "masked_loss": [
        (
            """
def loss_of_real_tokens(logits, labels):
    return F.cross_entropy(logits.mT, labels)
""",
            "it is the mean over all 8 places: padding counts",
        ),
        (
            """
def loss_of_real_tokens(logits, labels):
    log_p = logits.log_softmax(-1).gather(-1, labels[..., None])[..., 0]
    return (-log_p * (labels != PAD)).mean()
""",
            "padding is left out of the sum but not of the number divided by",
        ),
        (
            """
def loss_of_real_tokens(logits, labels):
    log_p = logits.log_softmax(-1).gather(-1, labels[..., None])[..., 0]
    real = labels != PAD
    return -((log_p * real).sum(-1) / real.sum(-1)).mean()
""",
            "it is a mean over sentences",
        ),
        (
            """
def loss_of_real_tokens(logits, labels):
    log_p = logits.log_softmax(-1).gather(-1, labels[..., None])[..., 0]
    return log_p[labels != PAD].mean()
""",
            "it is negative",
        ),
    ],
    "greedy_loop": [
        (
            instead(GREEDY, "not ended.all()", "not ended.any()"),
            "it stops when the first sentence has ended",
        ),
        (
            instead(GREEDY, ".masked_fill(ended, PAD)", ""),
            "a sentence goes on after END",
        ),
        (
            """
def say_greedily(model, source, lengths, max_length):
    state, said = model.start(source, lengths), []
    tokens = torch.full((len(source),), START, device=source.device)
    for _ in range(max_length):
        logits, state = model.step(tokens, state)
        said.append(logits.argmax(-1))
    return torch.stack(said, dim=1)
""",
            "after the first step the model should hear what it has said itself",
        ),
        (
            instead(
                GREEDY,
                "while len(said) < max_length and not ended.all():",
                "for _ in range(max_length):",
            ),
            "it goes on to the longest length although every sentence has ended",
        ),
        (
            """
def say_greedily(model, source, lengths, max_length):
    state, said = model.start(source, lengths), []
    tokens = source[:, 0]
    logits, state = model.step(tokens, state)
    return logits.argmax(-1)[:, None]
""",
            "the first word that the model hears should be START",
        ),
    ],
    "length_penalty": [
        (
            """
def pick(log_probs, lengths, alpha):
    return (log_probs * ((5 + lengths) / 6) ** alpha).argmax()
""",
            "multiplied, the penalty favours the short",
        ),
        (
            """
def pick(log_probs, lengths, alpha):
    return (log_probs / lengths**alpha).argmax()
""",
            "is it ((5 + T) / 6)^α?",
        ),
        (
            """
def pick(log_probs, lengths, alpha):
    return (log_probs / ((5 + lengths) / 6)).argmax()
""",
            "with α = 0 the most probable wins",
        ),
    ],
    "fool_beam": [
        (
            "answer = torch.full((4, 4), 0.25, device='cpu')",
            "greedy finds the best sentence, ''",
        ),
        (
            """
answer = torch.tensor(
    [[0.6, 0.4, 0.0, 0.0], [0.3, 0.3, 0.0, 0.4], [0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0]],
    device="cpu",
)
""",
            "a beam of two finds the best sentence, 'b' with p = 0.400",
        ),
        (
            "answer = torch.ones(4, 4, device='cpu')",
            "the rows should be 0 or more and sum to 1, got sums [4.0, 4.0, 4.0, 4.0]",
        ),
    ],
}
