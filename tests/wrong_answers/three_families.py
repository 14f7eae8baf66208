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
    keep = before < p
    keep[..., 0] = True
    kept = falling * keep
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
VOCABULARY = "\ndef known(texts):\n    return "


FIRST_SEEN = """
def seen(train, test, n):
    marks = set()
    for t in train:
        for i in range(len(t) - n + 1):
            if (at := test.find(t[i : i + n])) >= 0:
                marks |= set(range(at, at + n))
    return len(marks) / len(test)
"""

ANSWERS: dict[str, list[tuple[str, str]]] = {
    "how_many_known": [
        (f"answer = {KNOWN | {'b': 8}}", "b is not 8: under a causal mask depth adds nothing"),
        (f"answer = {KNOWN | {'c': 2}}", "c is not 2: this output lies in the prefix"),
        (f"answer = {KNOWN | {'d': 8}}", "d is not 8: it knows the whole source"),
        (f"answer = {KNOWN | {'e': 2}}", "e is not 2: each further block adds one token"),
        (f"answer = {KNOWN | {'f': 7}}", "the row ends at 7"),
        ("answer = [8, 6, 4, 7, 4, 5]", "must be a dict"),
        (f"answer = {KNOWN | {'a': 'all'}}", "a should be a number from 1 to 8, got 'all'"),
    ],
    "pooled": [
        ("\ndef pool(x, mask):\n    return x.mean(1)", "the padding counts"),
        (instead(POOL, ".clamp(min=1)", ""), "a row without a real token has the mean 0"),
        (
            instead(POOL, "mask.sum(1, keepdim=True).clamp(min=1)", "x.shape[1]"),
            "divide by the number of real tokens",
        ),
        (instead(POOL, "~mask", "mask"), "the mean should be"),
        (
            """
def pool(x, mask):
    rows = [row[:n].sum(0) / max(n, 1) for row, n in zip(x, mask.sum(1).tolist(), strict=True)]
    return torch.stack(rows)
""",
            "real tokens may stand anywhere",
        ),
        (
            instead(
                POOL, "x.masked_fill(~mask[..., None], 0)", "(x * mask[..., None]).nan_to_num()"
            ),
            "with NaN in a real token, which must show",
        ),
        (
            instead(POOL, "x.masked_fill(~mask[..., None], 0)", "(x * mask[..., None])"),
            "with NaN in the padding (0 times NaN is NaN",
        ),
        (instead(POOL, "masked_fill", "masked_fill_"), "changes its argument in place"),
        ("\ndef pool(x, mask):\n    return x.mean(1).tolist()", "should be a tensor, got list"),
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
        (instead(ASK, "(fate < 0.9)", "(fate < 1)"), "10% should be another one, got 20%"),
        (instead(ASK, "(fate >= 0.8)", "(fate >= 0.85)"), "10% should be another one, got 5%"),
        (
            instead(ASK, "(chosen < share)", "(chosen[:, :1] < share)"),
            "choose token by token: of some line every real token is chosen",
        ),
        (
            instead(ASK, "    chosen = (", "    fate = fate[:, :1]\n    chosen = ("),
            "draw the fate token by token",
        ),
        (
            instead(ASK, "size, x.shape,", "size, (len(x), 1),"),
            "draw a random id for each token",
        ),
        (instead(ASK, " & (x != 0)", ""), "what is shown elsewhere should be 0"),
        (
            instead(ASK, "x.masked_fill(~chosen, 0)", "shown * chosen"),
            "asked must hold the true token",
        ),
        (instead(ASK, "x.masked_fill(~chosen, 0)", "x"), "should be asked for, got 100%"),
        (instead(ASK, "chosen < share", "chosen < 2 * share"), "20% should be asked for, got 40%"),
        (instead(ASK, "fate < 0.8", "fate < 0.5"), "80% should be hidden, got 50%"),
        (instead(ASK, "first, size, x.shape", "first, first + 9, x.shape"), "got 9 ids from 6"),
        (instead(ASK, "first, size, x.shape", "first, size - 1, x.shape"), "from 6 to 104"),
        (instead(ASK, "first, size, x.shape", "0, size, x.shape"), "any id from 6 to 105"),
        (
            instead(
                ASK,
                "first, size, x.shape, generator=source",
                "first, size, x.shape, device=x.device",
            ),
            "draw from source alone",
        ),
        (
            instead(ASK, "    chosen, fate", "    source = torch.Generator()\n    chosen, fate"),
            "draw from source alone",
        ),
        (
            instead(
                ASK,
                "    chosen, fate",
                "    seed = source.initial_seed()\n"
                "    source = torch.Generator().manual_seed(seed)\n    chosen, fate",
            ),
            "a second call other ones: draw from source alone",
        ),
        (
            instead(
                ASK,
                "    other =",
                "    torch.manual_seed(0)\n    fate = torch.rand(x.shape)"
                ".to(x.device)\n    other =",
            ),
            "a second call other ones: draw from source alone",
        ),
        (instead(ASK, "chosen < share", "chosen < 0.15"), "20% should be asked for, got 15%"),
        (
            instead(ASK, "x.masked_fill(~chosen, 0)", "chosen.float() * x"),
            "asked should have dtype torch.int64, got torch.float32",
        ),
        (
            instead(ASK, "torch.rand(2, *x.shape,", "torch.rand(2, *x[:1].shape,"),
            "20% should be asked for, got 26%",
        ),
        (instead(ASK, "x.masked_fill(chosen", "x.masked_fill_(chosen"), "changes its argument"),
        (instead(ASK, "return shown, ", "return "), "return two tensors"),
    ],
    "nucleus": [
        (instead(NUCLEUS, "    keep[..., 0] = True\n", ""), "at p = 0 the best token stays"),
        (
            instead(
                instead(NUCLEUS, "before < p", "falling.cumsum(-1) < p"),
                "    keep[..., 0] = True\n",
                "",
            ),
            "a sure token is cut",
        ),
        (
            instead(NUCLEUS, "before < p", "falling.cumsum(-1) <= p"),
            "the token that crosses p is missing",
        ),
        (instead(NUCLEUS, "before < p", "before <= p"), "two reach p = 0.5, got 3"),
        (
            instead(NUCLEUS, "torch.zeros_like(kept).scatter(-1, ids, kept)", "kept"),
            "still in falling order",
        ),
        (
            instead(
                NUCLEUS,
                "torch.zeros_like(kept).scatter(-1, ids, kept)",
                "kept.gather(-1, ids)",
            ),
            "gather sorts once more",
        ),
        (
            instead(NUCLEUS, "kept / kept.sum(-1, keepdim=True)", "kept"),
            "divide by the sum of what is kept",
        ),
        (
            instead(NUCLEUS, "    falling, ids", "    logits -= 1\n    falling, ids"),
            "changes its argument in place",
        ),
    ],
    "bits_from_perplexity": [
        (BITS + "math.log2(perplexity)", "bits per token"),
        (BITS + "characters * math.log2(perplexity) / tokens", "not the other way"),
        (BITS + "tokens * math.log(perplexity) / characters", "those are nats"),
        (BITS + "tokens * perplexity / characters", "take the logarithm of the perplexity"),
        (
            BITS + "tokens * math.log2(perplexity) / 10_000",
            "for perplexity 45, 1900 tokens and 8000 characters",
        ),
        (
            BITS + "2500 * math.log2(60) / 10000",
            "for perplexity 45, 1900 tokens and 8000 characters",
        ),
    ],
    "proud_number": [
        (VOCABULARY + "Vocabulary.build(map(list, texts))", "bits, with"),
        (
            VOCABULARY + "Vocabulary.build(map(list, texts), min_count=300)",
            "which token costs nothing",
        ),
        (VOCABULARY + 'Vocabulary(["e"])', "with 1 known characters"),
        (VOCABULARY + "[]", "must return a Vocabulary, got list"),
    ],
    "seen_before": [
        (
            instead(SEEN, "marks[i : i + n] = [True] * n", "marks[i] = True"),
            "each run counts in full",
        ),
        (instead(SEEN, "for t in train for", "for t in train[:1] for"), "the share should be"),
        (FIRST_SEEN, "a run may stand twice in the test"),
        (
            instead(SEEN, "for t in train for", 'for t in ["".join(train)] for'),
            "no run crosses from one text into another",
        ),
        (
            instead(SEEN, "for t in train for", 'for t in ["\\n".join(train)] for'),
            "a line break joins no two texts",
        ),
        (instead(SEEN, "for t in train for", 'for t in [" ".join(train)] for'), "a space joins no"),
        (
            instead(SEEN, "sum(marks) / len(test)", "n * sum(marks[:-1]) / len(test)"),
            "got",
        ),
        (instead(SEEN, "range(len(t) - n + 1)", "range(len(t) - n)"), "the share should be"),
        (
            instead(SEEN, "range(len(test) - n + 1)", "range(len(test) - n)"),
            "the last run of a text counts too",
        ),
        (
            instead(
                instead(SEEN, "range(len(t) - n + 1)", "range(len(t) - n)"),
                "range(len(test) - n + 1)",
                "range(len(test) - n)",
            ),
            "got",
        ),
        (
            instead(SEEN, "t[i : i + n] for t in train for i in range(len(t) - n + 1)", "*train"),
            "the share should be",
        ),
        (
            instead(
                instead(SEEN, "range(len(t) - n + 1)", "range(len(t))"),
                "range(len(test) - n + 1)",
                "range(len(test))",
            ),
            "got",
        ),
    ],
}
