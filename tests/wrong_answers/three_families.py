"""Typical wrong answers to the exercises of chapter 9, and how each is named."""

from tests.wrong_answers import instead

KNOWN = {"a": 8, "b": 6, "c": 4, "d": 7, "e": 4, "f": 5}

POOL = """
def pool(x, mask):
    total = x.masked_fill(~mask[..., None], 0).sum(1)
    return total / mask.sum(1, keepdim=True).clamp(min=1)
"""
ASK = """
def ask(x, share, hidden, first, size, source):
    chosen, fate = torch.rand(2, *x.shape, generator=source).to(x.device)
    chosen = (chosen < share) & (x != 0)
    other = torch.randint(first, size, x.shape, generator=source)
    shown = x.masked_fill(chosen & (fate < 0.8), hidden)
    swapped = chosen & (fate >= 0.8) & (fate < 0.9)
    shown = torch.where(swapped, other.to(x.device), shown)
    return shown, x.masked_fill(~chosen, 0)
"""
NUCLEUS = """
def nucleus(logits, p):
    falling, ids = logits.softmax(-1).sort(-1, descending=True)
    before = falling.cumsum(-1) - falling
    kept = falling * (before < p)
    kept = kept / kept.sum(-1, keepdim=True)
    return torch.zeros_like(kept).scatter(-1, ids, kept)
"""
SEEN = """
def seen(train, test, n):
    runs = {t[i : i + n] for t in train for i in range(len(t) - n + 1)}
    marks = [False] * len(test)
    for i in range(len(test) - n + 1):
        if test[i : i + n] in runs:
            marks[i : i + n] = [True] * n
    return sum(marks) / len(test)
"""
BITS = "\ndef bits(perplexity, tokens, characters):\n    return "


ANSWERS: dict[str, list[tuple[str, str]]] = {
    "how_many_known": [
        (f"answer = {KNOWN | {'b': 8}}", "b is not 8: a causal mask adds nothing with depth"),
        (f"answer = {KNOWN | {'c': 2}}", "c is not 2: output 1 lies in the prefix"),
        (f"answer = {KNOWN | {'e': 2}}", "e is not 2: each block adds one token"),
        (f"answer = {KNOWN | {'f': 7}}", "ahead there is only token 7"),
    ],
    "pooled": [
        ("\ndef pool(x, mask):\n    return x.mean(1)", "the padding counts"),
        (instead(POOL, ".clamp(min=1)", ""), "a row without a real token has the mean 0"),
        (
            instead(POOL, "x.masked_fill(~mask[..., None], 0)", "(x * mask[..., None])"),
            "with NaN in the padding",
        ),
    ],
    "eighty_ten_ten": [
        (
            instead(
                instead(ASK, "(fate < 0.8)", "(fate < 2)"),
                "swapped, other.to(x.device)",
                "~chosen, x",
            ),
            "80% should be hidden, got 100%",
        ),
        (instead(ASK, "(fate < 0.9)", "(fate < 1)"), "10% should stay as they are, got 0%"),
        (instead(ASK, "(fate >= 0.8)", "(fate >= 0.95)"), "10% should stay as they are, got"),
        (instead(ASK, " & (x != 0)", ""), "what is shown elsewhere should be 0"),
        (
            instead(ASK, "x.masked_fill(~chosen, 0)", "shown * chosen"),
            "asked must hold the true token",
        ),
        (instead(ASK, "x.masked_fill(~chosen, 0)", "x"), "should be asked for"),
        (instead(ASK, "chosen < share", "chosen < 2 * share"), "should be asked for"),
        (instead(ASK, "fate < 0.8", "fate < 0.5"), "80% should be hidden"),
        (instead(ASK, "first, size, x.shape", "first, first + 9, x.shape"), "any id from"),
    ],
    "nucleus": [
        (instead(NUCLEUS, "before < p", "falling.cumsum(-1) <= p"), "a sure token is cut"),
        (
            instead(NUCLEUS, "before < p", "(falling.cumsum(-1) <= p) | (before == 0)"),
            "the token that crosses p is missing",
        ),
    ],
    "bits_from_perplexity": [
        (BITS + "math.log2(perplexity)", "bits per token"),
        (BITS + "characters * math.log2(perplexity) / tokens", "not the other way"),
    ],
    "proud_number": [
        ("\ndef known(texts):\n    return Vocabulary.build(map(list, texts))", "still too honest"),
        (
            "\ndef known(texts):\n    return Vocabulary.build(map(list, texts), min_count=300)",
            "which token costs nothing",
        ),
    ],
    "seen_before": [
        (
            instead(SEEN, "marks[i : i + n] = [True] * n", "marks[i] = True"),
            "each run counts in full",
        ),
        (
            instead(SEEN, "for t in train for", 'for t in ["".join(train)] for'),
            "no run crosses from one text into another",
        ),
        (
            instead(SEEN, "sum(marks) / len(test)", "n * sum(marks[:-1]) / len(test)"),
            "got",
        ),
    ],
}
