"""Typical wrong answers to the exercises of "A head grown from nothing", and how each is named."""

from tests.wrong_answers import answers, guesses

LAYERS = {"the token twelve places back": "one", "the token that has occurred most often": "one"}
LAYERS |= {"the vowel that occurred last": "one", "the token after the last comma": "two"}
LAYERS |= {"the token after an earlier copy of this one": "two"}
LAYERS |= {"the token before an earlier copy of this one": "two"}
LAYERS |= {"the token before such a copy, with values made one token back": "one"}

INDUCTION = """
def induction(tokens):
    i = torch.arange(tokens.shape[1])
    last = F.pad(tokens, (1, 0), value=-1)[:, :-1]  # the token before
    after = F.pad(tokens, (0, 1), value=-1)[:, 1:]
    cells = (tokens[:, :, None] == last[:, None]) & (i < i[:, None])
    return cells / cells.sum(-1, keepdim=True).clamp(min=1)
"""

ANSWERS = answers(
    layers_needed=[
        *guesses(
            LAYERS,
            ("the token twelve places back", "two", "the distance is in the score"),
            ("the token after the last comma", "one", "the key of that token must say"),
            ("the token after an earlier copy of this one", "one", "the key must hold the token"),
            ("the token before an earlier copy of this one", "one", "the match is on the token"),
        ),
        (f"answer = {LAYERS | {'the vowel that occurred last': 2}}", 'be "one" or "two", got 2'),
    ],
    induction_by_hand=[
        (INDUCTION, "last[:, None] -> tokens[:, None]", "these keys hold the same token"),
        (INDUCTION, "last[:, None] -> after[:, None]", "(i < -> (i + 1 <", "the earlier twin"),
        (INDUCTION, "(i < i -> (i <= i", "a token reads itself after its twin"),
        (INDUCTION, " & (i < i[:, None]) -> ", "some queries read later tokens"),
        (INDUCTION, "last[:, None] -> tokens.roll(1, 1)[:, None]", "token 0 has none before it"),
        (INDUCTION, "last[:, None]) -> last[:, None]) & (tokens[:, :, None] < 6)", "the weights"),
        (INDUCTION, " / cells.sum(-1, keepdim=True).clamp(min=1) -> .float()", "matches sum to 2"),
        (INDUCTION, ".clamp(min=1) -> ", "a row without a match should be 0, got nan"),
        (INDUCTION, "cells / -> (cells + 1e-9) /", "min=1 -> min=5e-9", "scores still give"),
        (INDUCTION, " / cells.sum(-1, keepdim=True).clamp(min=1) -> ", "have dtype"),
        ("induction = None", "the answer is still to be written"),
    ],
)
