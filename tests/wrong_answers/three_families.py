"""Typical wrong answers to the exercises of chapter 9, and how each is named."""

from tests.wrong_answers import answers, guesses

KNOWN = {"a": 8, "b": 6, "c": 4, "d": 7, "e": 4, "f": 5}
FORWARD = """
def logits(model, ids, family):
    L = ids.shape[1]
    mask = (ids != 0)[:, None, None]
    if family == "gpt":
        mask = torch.ones(L, L, dtype=torch.bool).tril()
    x = model.embedding(ids) + model.positions[:L]
    for block in model.blocks:
        x = block(x, mask)
    return model.out_proj(model.norm(x))
"""
ASK = """
def ask(x, share, hidden, first, size):
    chosen, fate = torch.rand(2, *x.shape)
    chosen = (chosen < share) & (x != 0)
    other = torch.randint(first, size, x.shape)
    shown = x.masked_fill(chosen & (fate < 0.8), hidden)
    swapped = chosen & (fate >= 0.8) & (fate < 0.9)
    shown = torch.where(swapped, other, shown)
    asked = x.masked_fill(~chosen, 0)
    return shown, asked
"""
ROUNDED = "(first + (size - 1 - first) * torch.rand(x.shape)).round().long()"
NUCLEUS = """
def nucleus(logits, p):
    falling, ids = logits.softmax(-1).sort(-1, descending=True)
    before = falling.cumsum(-1) - falling
    kept = falling * ((before < p) | (before == 0))
    kept = kept / kept.sum(-1, keepdim=True)
    by_id = torch.zeros_like(kept).scatter(-1, ids, kept)
    return by_id
"""
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
    two_families=[
        (FORWARD, ".tril() -> ", "a GPT needs the causal mask"),
        (FORWARD, "tril -> triu", "for 'gpt' True means may attend"),
        (FORWARD, 'family == "gpt" -> family == "t5"', "a GPT may not read later tokens"),
        (FORWARD, 'if family == "gpt" -> if family', "a BERT reads both sides"),
        (FORWARD, "ids != 0 -> ids == ids", "a BERT must not read the padding"),
        (FORWARD, "ids != 0 -> ids == 0", "for 'bert' True means may attend"),
        (FORWARD, " + model.positions[:L] -> ", "the positions are missing"),
        (FORWARD, "model.norm(x) -> x", "the stream ends with a norm"),
        (FORWARD, "model.blocks: -> model.blocks[1:]:", "call every block"),
        (FORWARD, "model.out_proj(model.norm(x)) -> model.norm(x)", "shape (B, L, V) = (2, 5, 9)"),
    ],
    eighty_ten_ten=[
        (ASK, "(fate < 0.9) -> (fate < 1)", "10% should be another one, got 20%"),
        (ASK, "chosen < share -> chosen[:, :1] < share", "choose token by token: of some line"),
        (ASK, "chosen < share -> torch.arange(100) % 5 == 0", "the same places"),
        (ASK, "chosen < share -> (chosen + (x == 0)).argsort(1).argsort(1) < 16", "same number"),
        (ASK, "chosen < share -> chosen < chosen[x > 0].kthvalue(64001)[0]", "just as many"),
        (ASK, "chosen = (chosen -> fate = fate[:, :1]\n    chosen = (chosen", "the fate token by"),
        (ASK, "size, x.shape) -> size, (len(x), 1))", "draw a random id for each token"),
        (ASK, "x != 0 -> x >= first", "only 0 is padding"),
        (ASK, " & (x != 0) -> ", "padding is never chosen"),
        (ASK, "asked = x.masked_fill(~chosen, 0) -> asked = shown * chosen", "hold the true token"),
        (ASK, "asked = x.masked_fill(~chosen, 0) -> asked = x", "should be asked for, got 100%"),
        (ASK, "fate < 0.8 -> fate < 0.5", "80% should be hidden, got 50%"),
        (ASK, "first, size, x.shape -> first, size - 1, x.shape", "got 99 ids, the first"),
        (ASK, f"torch.randint(first, size, x.shape) -> {ROUNDED}", "all equally"),
        (ASK, "chosen, fate = -> torch.seed()\n    chosen, fate =", "equal seeds must give equal"),
        (ASK, "chosen, fate = -> torch.manual_seed(0)\n    chosen, fate =", "a second call others"),
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
