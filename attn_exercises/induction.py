"""The exercise of "A head grown from nothing" that asks for code: an induction head by hand."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from attn_exercises.base import compare, of_function
from attn_notes.device import get_device


@of_function
def induction_by_hand(answer: Any) -> None:
    """The weights of a perfect induction head."""
    rows = [[3, 1, 4, 1, 1, 3, 0, 3, 1], [2, 2, 2, 40, 0, 40, 4, 40, 2]]
    text = torch.tensor(rows, device=get_device())
    for tokens, case in ((text[:, :5], "five tokens: "), (text, "")):
        t, ends = tokens[:, :, None], F.pad(tokens, (1, 1), value=-1)  # a mark before and after
        matches = t == ends[:, None, :-2]  # (B, L, L): the token before key i equals token t
        earlier = torch.ones_like(matches[0]).tril(-1)  # (L, L): key i stands before query t
        cells, no_later = matches & earlier, torch.ones_like(earlier).tril()
        twins, before = t == tokens[:, None], (t == ends[:, None, 2:]) & earlier.roll(-1, 1)
        first_is_last = t == tokens.roll(1, 1)[:, None]
        newest = cells & (cells.flip(-1).cumsum(-1).flip(-1) == 1)
        even, filled = _even(cells), _even(cells | ~cells.any(-1, keepdim=True))
        mistakes = {
            "these keys hold the same token: read the one after it": _even(twins & earlier),
            "these keys hold the token before the earlier twin": _even(before),
            "i must be below t: a token reads itself after its twin": _even(matches & no_later),
            "some queries read later tokens: i must be below t": _even(matches),
            "token 0 has none before it: not the last of the text": _even(first_is_last & earlier),
            "only the last match is read: share the weight among all": _even(newest),
            "the weights of a row with two matches sum to 2": cells.float(),
            "a row without a match should be 0, got nan": cells / cells.sum(-1, keepdim=True),
            "a row without a match should be 0: masked scores still give weights": filled,
        }
        compare(answer(tokens), even, "the weights", mistakes, case)


def _even(cells: Tensor) -> Tensor:
    """Equal weights on the cells of each row; 0 in a row without any."""
    return cells / cells.sum(-1, keepdim=True).clamp(min=1)
