"""Typical wrong answers to the exercises of chapter 4, and how each is named."""

from tests.wrong_answers import answers

SHIFT = """
def inputs_and_labels(sentences):
    rows = [torch.tensor([START, *words, END]) for words in sentences]
    target = pad_sequence(rows, batch_first=True, padding_value=PAD)
    return target[:, :-1], target[:, 1:]
"""
BY_HAND = """
def inputs_and_labels(sentences):
    read = [torch.tensor([START, *words]) for words in sentences]
    wanted = [torch.tensor([*words, END]) for words in sentences]
    return [pad_sequence(rows, batch_first=True, padding_value=PAD) for rows in (read, wanted)]
"""
READ = """
from attn_notes.masks import masked_softmax


def read(hidden, memory, mask, score):
    weights = masked_softmax(score(hidden[-1][:, None], memory), mask)
    context = weights @ memory
    return context[:, 0], weights[:, 0]
"""
LOSS = """
def loss_of_real_tokens(logits, labels):
    log_p = logits.log_softmax(-1).gather(-1, labels[..., None])[..., 0]
    real = labels != PAD
    return -log_p[real].mean()
"""
GREEDY = """
from attn_notes.data import PAD


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
PICK = "\ndef pick(log_probs, lengths, alpha):\n    return "
TABLE = "answer = torch.tensor({}, device='cpu')"
EVEN = [[0.25] * 4] * 4
LAST = [0.0, 0.0, 0.0, 1.0]
TIE = [[1 / 3, 1 / 3, 1 / 3, 0.0], [0.34, 0.33, 0.0, 0.33], [0.34, 0.33, 0.0, 0.33], LAST]
LATER_TIE = [[1 / 3, 1 / 3, 1 / 3, 0.0], [0.0, 1 / 3, 2 / 3, 0.0], [1 / 3, 0.0, 1 / 3, 1 / 3]]
LATER_TIE += [[2 / 3, 0.0, 1 / 3, 0.0]]
ENDLESS = [[0.4, 0.35, 0.25, 0.0], [0.4, 0.0, 0.0, 0.6], [0.0, 0.4, 0.0, 0.6], [0.0, 0.0, 1.0, 0.0]]
TRAP = [[0.6, 0.4, 0.0, 0.0], [0.3, 0.3, 0.0, 0.4], LAST, LAST]

ANSWERS = answers(
    shifted_by_one=[
        (SHIFT, "target[:, :-1], target[:, 1:] -> target[:, 1:], target[:, :-1]", "are swapped"),
        (BY_HAND, "(read, wanted) -> (wanted, read)", "inputs and labels are swapped"),
        (SHIFT, "target[:, 1:] -> target[:, :-1]", "the labels are the inputs"),
        (BY_HAND, "(read, wanted) -> (read, read)", "the labels are the inputs"),
        (BY_HAND, "(read, wanted) -> (wanted, wanted)", "the inputs are the labels"),
        (BY_HAND, "[*words, END] -> words, dtype=torch.long", "END is missing from the labels"),
        (BY_HAND, "[START, *words] -> words, dtype=torch.long", "START is missing from the inputs"),
        (SHIFT, "target[:, 1:] -> target[:, 2:]", "the labels are shifted by two"),
        (SHIFT, "target[:, 1:] -> target", "START is among the labels"),
        (SHIFT, "target[:, :-1], -> target,", "the inputs are one place too long"),
        (
            BY_HAND,
            "[*words, END] -> words + [PAD] * (max(map(len, sentences)) - len(words)) + [END]",
            "END stands behind the padding",
        ),
        (BY_HAND, "PAD) for -> PAD, padding_side='left') for", "the padding stands in front"),
        (
            SHIFT,
            "target[:, 1:] -> target[:, 1:].masked_fill(target[:, 1:] == PAD, -100)",
            "the loss ignores PAD",
        ),
        (SHIFT, "return target[:, :-1], target[:, 1:] -> return target", "return two tensors"),
        (SHIFT, "target[:, 1:] -> target[:, 1:].float()", "the labels should have dtype"),
        (
            SHIFT,
            "= [torch -> = [words.append(END) for words in sentences] and [torch",
            "changes the",
        ),
    ],
    read_source=[
        (READ, "hidden[-1] -> hidden[0]", "the query is the bottom layer's state"),
        (READ, "hidden[-1] -> hidden[1]", "the query is the second layer's state"),
        (READ, ", mask) -> , mask | True)", "the padding is read: where is the mask?"),
        (READ, ", mask) -> , mask | True) * mask", "masked after the softmax, a row no longer"),
        (READ, "context[:, 0] -> context", "the context has three axes"),
        (READ, "context[:, 0], weights[:, 0] -> context.squeeze(), weights.squeeze()", "one seq"),
        (READ, "hidden[-1] -> hidden[2]", "the answer raises IndexError"),
        (READ, "weights[:, 0] -> weights", "the weights have three axes"),
        (READ, "weights @ memory -> memory.mean(1, True)", "the context is a plain mean"),
        (READ, ", mask) -> ).where(mask, -10.0).softmax(-1)", "masked_softmax( -> (", "near -40"),
        (READ, "context[:, 0], -> ", "return two tensors, context and weights, got Tensor"),
        (READ, "weights[:, 0] -> weights[:, 0], mask", "context and weights, got 3"),
        (READ, "context[:, 0], weights -> weights[:, 0], context", "weights are swapped"),
    ],
    masked_loss=[
        (LOSS, "log_p[real] -> log_p", "the mean over all 8 places: padding counts"),
        (LOSS, "log_p[real] -> (log_p * real)", "the sum is divided by all 8 places"),
        (LOSS, "log_p[real] -> ((log_p * real).sum(-1) / real.sum(-1))", "a mean over sentences"),
        (LOSS, "return - -> return ", "it is negative"),
        (LOSS, "real].mean() -> real & (labels != END)].mean()", "END is left out: it is a real"),
        (LOSS, "logits. -> logits.index_fill(-1, torch.tensor(PAD), -1e9).", "leave PAD in"),
        (LOSS, ".mean() -> .sum()", "it is the sum over the real tokens"),
        (LOSS, "log_softmax(-1) -> softmax(-1).log()", "a small softmax is 0, and its logarithm"),
        (LOSS, "log_softmax(-1) -> sub(logits.detach().logsumexp(-1, True))", "the gradient of"),
        (LOSS, ".mean() -> .mean().item()", "but no gradient flows: return the tensor"),
        (LOSS, "log_softmax(-1) -> log_softmax(1)", "the softmax runs over positions"),
    ],
    greedy_loop=[
        (GREEDY, "ended.all() -> ended.any()", "the first sentence has ended"),
        (GREEDY, ".masked_fill(ended, PAD) -> ", "a sentence goes on after END"),
        (GREEDY, "logits, state = model.step -> logits, _ = model.step", "the same state"),
        (
            GREEDY,
            ".masked_fill(ended, PAD) -> ",
            "append(tokens -> append(tokens.masked_fill(ended, PAD)",
            "END has become PAD: fill first",
        ),
        (GREEDY, "[tokens], tokens == END -> [tokens], tokens < 0", "one sentence begins with END"),
        (GREEDY, " and not ended.all() -> ", "after every sentence has ended"),
        (GREEDY, " and not ended.all() -> ", ".masked_fill(ended, PAD) -> ", "it never stops"),
        (GREEDY, " and not ended.all() -> ", "(said, -> ([s for s in said if s.any()],", "earlier"),
        (GREEDY, "len(said) < max_length and -> ", "it says more than 3 words"),
        (GREEDY, "model.step(tokens, -> model.step(source[:, 0],", "the words chosen last"),
        (GREEDY, "dim=1) -> dim=1).float()", "dtype torch.int64, got torch.float32"),
        (GREEDY, "start(source, lengths) -> start(source)", "was not given the lengths"),
        (GREEDY, "step(tokens, state) -> step(state, tokens)", "its second was a Tensor"),
    ],
    length_penalty=[
        (PICK + "(log_probs / ((5 + lengths) / 6) ** min(1, alpha)).argmax()", "best should be 1"),
        (PICK + "(log_probs * ((5 + lengths) / 6) ** alpha).argmax()", "favours the short"),
        (PICK + "log_probs.argmax()", "the lengths hardly count"),
        (PICK + "(log_probs / lengths**alpha).argmax()", "log p is divided by T^α: the penalty is"),
        (PICK + "(log_probs / ((4 + lengths) / 6) ** alpha).argmax()", "and T counts END once"),
        (PICK + "(log_probs / ((6 + lengths) / 6) ** alpha).argmax()", "and T counts END once"),
        (PICK + "(log_probs / ((5 + lengths) / 6)).argmax()", "α should be an exponent"),
        (PICK + "(log_probs / ((5 + lengths) / 6) ** alpha).argmin()", "this is the least score"),
        (PICK + "(log_probs / ((5 + lengths) / 6) ** alpha).max()", "the best score: return its"),
    ],
    fool_beam=[
        (TABLE.format([[0.5, 0.5, 0, 0]] * 4), "no sentence ends"),
        (TABLE.format(EVEN), "greedy finds the best sentence, the empty one, with p = 0.250"),
        (TABLE.format(TRAP), "a beam of two finds the best sentence, b, with p = 0.400"),
        (TABLE.format(ENDLESS), "greedy finds the best sentence, a, with p = 0.240"),
        (TABLE.format(LATER_TIE), "greedy finds the best sentence, b, with p = 0.111"),
        (TABLE.format(TIE), "a beam of two finds the best sentence, c, with p = 0.333"),
        ("answer = torch.ones(4, 4)", "the row of START should be 0 or more and sum to 1"),
        ("answer = [[0.25] * 4, [0.25] * 4, [0.25] * 4, None]", "4 rows of 4 numbers"),
        ("answer = [[0.25] * 4] * 3", "the table should have shape (4, 4), got (3, 4)"),
    ],
)
