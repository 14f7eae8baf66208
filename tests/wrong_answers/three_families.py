"""Typical wrong answers to the exercises of chapter 9, and how each is named."""

from tests.wrong_answers import answers, guesses

KNOWN = {"a": 8, "b": 6, "c": 4, "d": 7, "e": 4, "f": 5}
POOL = """
def pool(x, mask):
    real = mask[..., None]
    total = x.masked_fill(~real, 0).sum(1)
    number = mask.sum(1, keepdim=True).clamp(min=1)
    return total / number
"""
FIRST_PLACES = """
def pool(x, mask):
    rows = [row[:n].sum(0) / max(n, 1) for row, n in zip(x, mask.sum(1).tolist(), strict=True)]
    return torch.stack(rows)
"""
ASK = """
def ask(x, share, hidden, first, size, source):
    chosen, fate = torch.rand(2, *x.shape, generator=source).to(x.device)
    chosen = (chosen < share) & (x != 0)
    other = torch.randint(first, size, x.shape, generator=source)
    shown = x.masked_fill(chosen & (fate < 0.8), hidden)
    swapped = chosen & (fate >= 0.8) & (fate < 0.9)
    shown = torch.where(swapped, other.to(x.device), shown)
    asked = x.masked_fill(~chosen, 0)
    return shown, asked
"""
ROUNDED = "(first + (size - 1 - first) * torch.rand(x.shape, generator=source)).round().long()"
ANEW = "source = torch.Generator().manual_seed(source.initial_seed())"
NUCLEUS = """
def nucleus(logits, p):
    falling, ids = logits.softmax(-1).sort(-1, descending=True)
    before = falling.cumsum(-1) - falling
    kept = falling * ((before < p) | (before == 0))
    kept = kept / kept.sum(-1, keepdim=True)
    by_id = torch.zeros_like(kept).scatter(-1, ids, kept)
    return by_id
"""
BITS = "\ndef bits(perplexity, tokens, characters):\n    return "
VOCABULARY = "\ndef known(texts):\n    return "
SEEN = """
def seen(train, test, n):
    runs = {t[i : i + n] for t in train for i in range(len(t) - n + 1)}
    marks = [False] * len(test)
    for i in range(len(test) - n + 1):
        if test[i : i + n] in runs:
            marks[i : i + n] = [True] * n
    return sum(marks) / len(test)
"""
APART = """
def seen(train, test, n):
    marks = set()
    for run in {t[i : i + n] for t in train for i in range(len(t) - n + 1)}:
        at = test.find(run)
        while at >= 0:
            marks |= set(range(at, at + n))
            at = test.find(run, at + n)
    return len(marks) / len(test)
"""
FIRST_SEEN = """
def seen(train, test, n):
    marks = set()
    for t in train:
        for i in range(len(t) - n + 1):
            if (at := test.find(t[i : i + n])) >= 0:
                marks |= set(range(at, at + n))
    return len(marks) / len(test)
"""

ANSWERS = answers(
    how_many_known=[
        *guesses(
            KNOWN,
            ("b", 8, "under a causal mask depth adds nothing"),
            ("c", 2, "this output lies in the prefix"),
            ("d", 8, "it knows the whole source"),
            ("e", 2, "each further block adds one token"),
        ),
        (f"answer = {KNOWN | {'f': 7}}", "the row ends at 7"),
        (f"answer = {KNOWN | {'a': 'all'}}", "a should be a number from 1 to 8, got 'all'"),
    ],
    pooled=[
        ("\ndef pool(x, mask):\n    return x.mean(1)", "the padding counts"),
        (POOL, ".clamp(min=1) -> ", "a row without a real token has the mean 0"),
        (POOL, "/ number -> / x.shape[1]", "the number of real tokens"),
        (POOL, "~real -> real", "the mean should be"),
        (POOL, "mask.sum(1, -> x.any(-1).sum(1, ", "the mean should be"),
        (FIRST_PLACES, "real tokens may stand anywhere"),
        (POOL, "x.masked_fill(~real, 0) -> (x * real).nan_to_num()", "NaN in a real token, which"),
        (POOL, "x.masked_fill(~real, 0) -> (x * real)", "with NaN in the padding (0 times NaN is"),
        (POOL, "masked_fill -> masked_fill_", "changes its argument in place"),
    ],
    eighty_ten_ten=[
        (ASK, "(fate < 0.9) -> (fate < 1)", "10% should be another one, got 20%"),
        (ASK, "chosen < share -> chosen[:, :1] < share", "choose token by token: of some line"),
        (ASK, "chosen < share -> torch.arange(100) % 5 == 0", "the same places"),
        (ASK, "chosen < share -> (chosen + (x == 0)).argsort(1).argsort(1) < 16", "same number"),
        (ASK, "chosen < share -> chosen < chosen[x > 0].kthvalue(64001)[0]", "just as many"),
        (ASK, "chosen = (chosen -> fate = fate[:, :1]\n    chosen = (chosen", "the fate token by"),
        (ASK, "size, x.shape, -> size, (len(x), 1),", "draw a random id for each token"),
        (ASK, "x != 0 -> x >= first", "only 0 is padding"),
        (ASK, " & (x != 0) -> ", "padding is never chosen"),
        (ASK, "asked = x.masked_fill(~chosen, 0) -> asked = shown * chosen", "hold the true token"),
        (ASK, "asked = x.masked_fill(~chosen, 0) -> asked = x", "should be asked for, got 100%"),
        (ASK, "fate < 0.8 -> fate < 0.5", "80% should be hidden, got 50%"),
        (ASK, "first, size, x.shape -> first, size - 1, x.shape", "got 99 ids, the first"),
        (ASK, f"torch.randint(first, size, x.shape, generator=source) -> {ROUNDED}", "all equally"),
        (ASK, "x.shape, generator=source -> x.shape", "equal seeds must give equal results, a"),
        (ASK, f"chosen, fate = -> {ANEW}\n    chosen, fate =", "a second call others"),
        (ASK, "x.masked_fill(chosen -> x.masked_fill_(chosen", "changes its argument"),
        (ASK, "return shown, asked -> return asked", "return two tensors"),
    ],
    nucleus=[
        (NUCLEUS, " | (before == 0) -> ", "at p = 0 the best token stays"),
        (NUCLEUS, "(before < p) | (before == 0) -> falling.cumsum(-1) < p", "a sure token is cut"),
        (NUCLEUS, "before < p -> falling.cumsum(-1) <= p", "the token that crosses p is missing"),
        (NUCLEUS, "before < p -> before <= p", "two reach p = 0.5, got 3"),
        (NUCLEUS, "return by_id -> return kept", "still in falling order"),
        (NUCLEUS, "return by_id -> return kept.gather(-1, ids)", "gather sorts once more"),
        (NUCLEUS, "kept / kept.sum(-1, keepdim=True) -> kept", "divide by the sum of what is kept"),
    ],
    bits_from_perplexity=[
        (BITS + "math.log2(perplexity)", "bits per token"),
        (BITS + "characters * math.log2(perplexity) / tokens", "not the other way"),
        (BITS + "tokens * math.log(perplexity) / characters", "those are nats"),
        (BITS + "tokens * perplexity / characters", "take the logarithm of the perplexity"),
        (BITS + "2500 * math.log2(60) / 10000", "for perplexity 45, 1900 tokens and 8000"),
    ],
    proud_number=[
        (VOCABULARY + "Vocabulary.build(map(list, texts))", "bits; tokens known: "),
        (VOCABULARY + "Vocabulary.build(map(list, texts), min_count=300)", "which token"),
        (VOCABULARY + 'Vocabulary(["e"])', "tokens known: 1: which"),
        (VOCABULARY + "[]", "must return a Vocabulary, got list"),
    ],
    seen_before=[
        (SEEN, "{t[i -> {t.replace(chr(10), ' ')[i", "a line break is no space"),
        (SEEN, "marks[i : i + n] = [True] * n -> marks[i] = True", "each run counts in full"),
        (FIRST_SEEN, "a run may stand twice in the test"),
        (APART, "a run may begin inside its own copy"),
        (SEEN, "in train -> in train[-1:]", "the share should be"),
        (SEEN, 'in train -> in ["\\n\\n".join(train)]', "nothing joins two texts"),
        (SEEN, 'in train -> in ["".join(train)]', "no run crosses from one text into another"),
        (SEEN, 'in train -> in ["e".join(train)]', "nothing joins two texts"),
        (SEEN, "runs = -> test = test.strip()\n    runs =", "spaces count at the ends, too"),
        (SEEN, "range(len(t) - n + 1) -> range(len(t) - n)", "the share should be"),
        (SEEN, "range(len(test) - n + 1) -> range(len(test) - n)", "the last run of a text counts"),
    ],
)
