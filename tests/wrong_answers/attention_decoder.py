"""Typical wrong answers to the exercises of chapter 4, and how each is named."""

from tests.wrong_answers import instead

SHAPES = {
    "keys": (5, 7, 12),
    "query": (5, 1, 8),
    "weights": (5, 1, 7),
    "context": (5, 12),
    "gru_input": (1, 5, 16),
    "logits": (5, 9, 11),
}
READ = """
def read(hidden, memory, mask, score):
    weights = masked_softmax(score(hidden[-1][:, None], memory), mask)
    return (weights @ memory)[:, 0], weights[:, 0]
"""
LOSS = """
def loss_of_real_tokens(logits, labels):
    log_p = logits.log_softmax(-1).gather(-1, labels[..., None])[..., 0]
    real = labels != PAD
    return """
GREEDY = """
def say_greedily(model, source, lengths, max_length):
    logits, state = model.start(source, lengths)
    tokens = logits.argmax(-1)
    said, ended = [tokens], tokens == END
    while len(said) < max_length and not ended.all():
        logits, state = model.step(tokens, state)
        tokens = logits.argmax(-1).masked_fill(ended, PAD)
        ended = ended | (tokens == END)
        said.append(tokens)
    return torch.stack(said, dim=1)
"""
REPEAT = "\ndef say_greedily(model, source, lengths, max_length):\n    return "
PICK = "\ndef pick(log_probs, lengths, alpha):\n    return "
TABLE = "answer = torch.tensor({}, device='cpu')"
EVEN = [[0.25] * 4] * 4
TRAP = [[0.6, 0.4, 0.0, 0.0], [0.3, 0.3, 0.0, 0.4], [0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0]]

ANSWERS: dict[str, list[tuple[str, str]]] = {
    "decoder_shapes": [
        (f"answer = {SHAPES | {'keys': (5, 7, 6)}}", "keys is not (5, 7, 6): one for each source"),
        (f"answer = {SHAPES | {'query': (2, 5, 8)}}", "query is not (2, 5, 8): the top layer's"),
        (f"answer = {SHAPES | {'context': (5, 8)}}", "context is not (5, 8): an average of keys"),
        (f"answer = {SHAPES | {'gru_input': (1, 5, 12)}}", "embedding and context end to end"),
    ],
    "read_source": [
        (instead(READ, "hidden[-1]", "hidden[0]"), "the query is the bottom layer's state"),
        (
            instead(READ, "), mask)", ")).softmax(-1)").replace("masked_softmax", ""),
            "the padding is read: where is the mask?",
        ),
        (
            instead(READ, "(weights @ memory)[:, 0]", "weights @ memory"),
            "the context has three axes",
        ),
    ],
    "masked_loss": [
        (LOSS + "F.cross_entropy(logits.mT, labels)", "the mean over all 8 places: padding counts"),
        (LOSS + "-((log_p * real).sum(-1) / real.sum(-1)).mean()", "it is a mean over sentences"),
        (LOSS + "log_p[real].mean()", "it is negative"),
    ],
    "greedy_loop": [
        (instead(GREEDY, "not ended.all()", "not ended.any()"), "the first sentence has ended"),
        (instead(GREEDY, ".masked_fill(ended, PAD)", ""), "a sentence goes on after END"),
        (
            REPEAT + "model.start(source, lengths)[0].argmax(-1)[:, None].expand(-1, max_length)",
            "each step should be given the words that were chosen last",
        ),
    ],
    "length_penalty": [
        (
            PICK + "(log_probs * ((5 + lengths) / 6) ** alpha).argmax()",
            "multiplied, the penalty favours the short",
        ),
        (PICK + "(log_probs / lengths**alpha).argmax()", "by log p / ((5 + T) / 6)^α, should be 1"),
        (PICK + "(log_probs / ((5 + lengths) / 6)).argmax()", "with α = 0.0 the scores are -2.00"),
    ],
    "fool_beam": [
        (TABLE.format(EVEN), "greedy finds the best sentence, ''"),
        (TABLE.format(TRAP), "a beam of two finds the best sentence, 'b' with p = 0.400"),
        (
            "answer = torch.ones(4, 4, device='cpu')",
            "the rows should be 0 or more and sum to 1, got sums [4.0, 4.0, 4.0, 4.0]",
        ),
    ],
}
