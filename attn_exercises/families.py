"""The exercises of chapter 9: what is known, hidden, drawn, measured and remembered."""

import string
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attn_exercises.base import compare, draw, of_function
from attn_notes.checks.properties import CheckFailed
from attn_notes.data import Vocabulary, number_words
from attn_notes.device import get_device
from attn_notes.ngrams import NGramModel
from attn_notes.transformer import EncoderBlock, TransformerConfig


@dataclass(frozen=True)
class _Parts:
    """What a GPT and a BERT have in common; V = 9, E = 8."""

    embedding: nn.Module
    positions: Tensor  # (16, E)
    blocks: list[Callable[[Tensor, Tensor], Tensor]]
    norm: nn.Module
    out_proj: nn.Module

    def logits(self, ids: Tensor, mask: Tensor) -> Tensor:
        x = self.embedding(ids) + self.positions[: ids.shape[1]]
        for block in self.blocks:
            x = block(x, mask)
        return self.out_proj(self.norm(x))


def _parts() -> _Parts:
    """Two blocks, with parameters that are the same on every machine."""
    config = TransformerConfig(vocab_size=9, embed_dim=8, num_heads=2, ffn_dim=16, norm="pre")
    blocks = [EncoderBlock(config), EncoderBlock(config)]
    embedding, norm, out_proj = nn.Embedding(9, 8), nn.LayerNorm(8), nn.Linear(8, 9)
    every = nn.ModuleList([embedding, *blocks, norm, out_proj]).to(get_device())
    every.requires_grad_(False)
    shapes = [tuple(parameter.shape) for parameter in every.parameters()]
    for parameter, drawn in zip(every.parameters(), draw(*shapes, seed=9), strict=True):
        parameter.copy_(drawn)

    def called(block: EncoderBlock) -> Callable[[Tensor, Tensor], Tensor]:
        return lambda x, mask: block(x, attn_mask=mask)[0]

    return _Parts(embedding, draw((16, 8), seed=8)[0], [*map(called, blocks)], norm, out_proj)


@of_function
def two_families(answer: Any) -> None:
    """The forward pass of a GPT and of a BERT, written from memory."""
    parts, here = _parts(), get_device()
    ids = torch.tensor([[3, 1, 4, 1, 5], [2, 6, 3, 0, 0]], device=here)
    real, not_padding = ids != 0, (ids != 0)[:, None, None]
    everything = torch.ones(5, 5, dtype=torch.bool, device=here)
    causal = everything.tril()
    upside_down = "True means may attend: this mask is upside down"
    masks = {  # the right one, and wrong ones
        "gpt": (
            causal,
            {
                "a GPT needs the causal mask": everything,
                "a GPT may not read later tokens either": not_padding,
                upside_down: causal.mT,
            },
        ),
        "bert": (
            not_padding,
            {
                "a BERT reads both sides: its mask is open": causal,
                "a BERT must not read the padding": everything,
                upside_down: ~not_padding,
            },
        ),
    }
    for family, (mask, wrong) in masks.items():
        got = answer(parts, ids, family)
        if getattr(got, "shape", None) != (2, 5, 9):
            shape = tuple(getattr(got, "shape", ()))
            raise CheckFailed(f"return logits of shape (B, L, V) = (2, 5, 9), got {shape}")
        others = {
            "the positions are missing": replace(parts, positions=0 * parts.positions),
            "the stream ends with a norm": replace(parts, norm=nn.Identity()),
            "call every block, each on what the one before gave": replace(
                parts, blocks=parts.blocks[1:]
            ),
        }
        mistakes = {why: parts.logits(ids, other)[real] for why, other in wrong.items()}
        mistakes |= {why: other.logits(ids, mask)[real] for why, other in others.items()}
        right = parts.logits(ids, mask)[real]
        compare(got[real], right, "the logits of the real tokens", mistakes, f"for {family!r} ")


@of_function
def eighty_ten_ten(answer: Any) -> None:
    """Which tokens are asked for, and what is shown in their place."""
    hidden, first, size, share = 3, 6, 106, 0.2  # not BERT's
    source = torch.Generator("cpu").manual_seed(9)
    x = torch.randint(4, size - 3, (4000, 100), generator=source, device="cpu")  # 4, 5: marks
    x[:2000, 80:] = x[2000:, :20] = 0  # padding stands behind, or in front
    ask = partial(answer, x := x.to(get_device()), share, hidden, first, size)
    devices = [x.device] if x.device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        torch.manual_seed(8)
        got, later = ask(), ask()
        torch.manual_seed(8)
        again = ask()
    if not isinstance(got, tuple | list) or [getattr(g, "shape", 0) for g in got] != [x.shape] * 2:
        raise CheckFailed("return two tensors of the shape of x, shown and asked")
    shown, asked = got
    chosen = asked != 0
    if bool((chosen | (shown != 0))[x == 0].any()):
        raise CheckFailed("padding is never chosen: shown and asked should be 0 there")
    compare(asked, x * chosen, "asked", {"asked must hold the true token": shown * chosen})
    compare(shown.where(~chosen, 0), x.where(~chosen, 0), "what is shown elsewhere")
    swapped = chosen & (shown != hidden) & (shown != x)
    _check_share(chosen[x != 0], share, "of the real tokens {:.0%} should be asked for")
    if not bool((chosen & (x < first)).any()):
        raise CheckFailed(f"a token below {first} may be chosen, too: only 0 is padding")
    _check_share(shown[chosen] == hidden, 0.8, "of the chosen tokens {:.0%} should be hidden")
    _check_share(swapped[chosen], 0.1, "of the chosen tokens {:.0%} should be another one")
    _check_each_token(chosen, shown.where(swapped, 0), chosen & (shown != hidden))
    others = shown[swapped]
    ends = float(((others == first) | (others == size - 1)).float().mean())  # 2 of 100
    if sorted(set(others.tolist())) != list(range(first, size)) or not 0.014 < ends < 0.026:
        wanted = f"any of {first} to {size - 1}, all equally often and drawn for each token"
        found = f"{len(others.unique())} ids, the first and last {ends:.1%} of the time"
        raise CheckFailed(f"a random token is {wanted}, got {found}")
    _check_draws(got, later, again)


def _check_draws(got: Any, later: Any, again: Any) -> None:
    """Raise unless the same seed gives `got` again, and a call without a new seed other results."""
    chosen = got[1] != 0
    alike = (got[0] == later[0])[chosen & (later[1] != 0)].float().mean()  # 0.8² + 0.1²
    if torch.equal(later[1], got[1]) or alike > 0.8 or not all(map(torch.equal, again, got)):
        raise CheckFailed("equal seeds must give equal results, a second call others: seed nothing")
    if int((later[1] != 0).sum()) == int(chosen.sum()) == 64_000:  # exactly a fifth, twice
        raise CheckFailed("choose token by token: of two batches just as many are chosen")


def _check_each_token(chosen: Tensor, others: Tensor, kept: Tensor) -> None:
    """Raise where a choice, a fate or a random id is drawn for a whole line at once."""
    per_line, behind = chosen.sum(1), chosen[:2000, :80]  # 80 real tokens in each line
    if not bool(((per_line > 0) & (per_line < 80)).all()):
        raise CheckFailed("choose token by token: of some line every real token is chosen, or none")
    if torch.equal(behind.any(0), behind.all(0)):
        raise CheckFailed("choose token by token: every line has the same places")
    if float(per_line.float().var()) < 4:  # 80 * 0.2 * 0.8 = 12.8 if tokens are independent
        raise CheckFailed("choose token by token: every line has nearly the same number")
    if float((~kept.any(1)).float().mean()) > 0.2:  # 0.03 if each token has its own
        raise CheckFailed("draw the fate token by token: in too many lines all are hidden")
    lines = torch.arange(len(others), device=others.device)[:, None] * (others.max() + 1)
    if len((lines + others)[others > 0].unique()) < 0.9 * int((others > 0).sum()):
        raise CheckFailed("draw a random id for each token: in a line they are the same")


def _check_share(which: Tensor, right: float, words: str) -> None:
    part = float(which.float().mean())
    if abs(part - right) > 0.0101:
        raise CheckFailed(f"{words.format(right)}, got {part:.0%} (is each drawn by itself?)")


@of_function
def nucleus(answer: Any) -> None:
    """The probabilities of top-p."""
    logits, p = 3 * draw((6, 9), seed=8)[0], 0.8
    logits[0, 4] = 20.0  # one sure token
    falling, ids = logits.softmax(-1).sort(-1, descending=True)
    before = falling.cumsum(-1) - falling

    def kept(keep: Tensor) -> Tensor:
        return falling * keep / (falling * keep).sum(-1, keepdim=True)

    def by_id(values: Tensor) -> Tensor:
        return torch.zeros_like(values).scatter(-1, ids, values)

    reached, right = before + falling < p, kept(before < p)
    mistakes = {
        "a sure token is cut, and nothing is left: always keep the first": by_id(kept(reached)),
        "the token that crosses p is missing": by_id(kept(reached | (before == 0))),
        "the probabilities are still in falling order: put them back by their ids": right,
        "gather sorts once more: scatter puts values back": right.gather(-1, ids),
        "divide by the sum of what is kept": by_id(falling * (before < p)),
    }
    compare(answer(logits, p), by_id(right), "the nucleus", mistakes)
    one = by_id(kept(before == 0))
    compare(answer(logits, 0.0), one, "the nucleus", case="at p = 0 the best token stays: ")
    many, case = draw((1000, 9), seed=8)[0], "at p = 1 nothing is cut, if a sum ends below 1, too: "
    compare(answer(many, 1.0), many.softmax(-1), "the nucleus", case=case)
    number = int((answer(torch.zeros(1, 4, device=ids.device), 0.5) > 0).sum())
    if number != 2:
        raise CheckFailed(f"of four equal tokens two reach p = 0.5, got {number} of them")


@of_function
def proud_number(answer: Any) -> None:
    """A vocabulary with which the bits per character are wonderful, and worth nothing."""
    numbers = [" ".join(number_words(n, "en")) for n in range(800)]
    texts = [", ".join(numbers[at : at + 100]) for at in range(0, 800, 100)]
    train, held_out = texts[:6], texts[6:]
    if not isinstance(vocab := answer(list(train)), Vocabulary):
        raise CheckFailed(f"known must return a Vocabulary, got {type(vocab).__name__}")
    if (bits := NGramModel(2, train, vocab).bits_per_character(held_out)) > 0.1:
        known = f"{bits:.2f} bits; tokens known: {len(vocab.tokens)}"
        raise CheckFailed(f"{known}: which token costs nothing if there is no other?")


@of_function
def seen_before(answer: Any) -> None:
    """The share of a text that lies in a run which stands in the training texts."""
    gaps = (*string.printable, "\n\n", "  ")
    for train, test, n, right, why in (
        (["that is", "to be or not to be"], "or not mine", 6, 7 / 11, "each run counts in full"),
        (["abcdef"], "xabcdex", 3, 5 / 7, "runs overlap, and no character counts twice"),
        (["abc", "def"], "abcdef", 4, 0.0, "no run crosses from one text into another"),
        *((["ab", "cd"], f"b{gap}c", 3, 0.0, "nothing joins two texts") for gap in gaps),
        (["abc"], "xxabc", 3, 3 / 5, "the last run of a text counts too"),
        (["ab"], "abab", 3, 0.0, "a text shorter than n has no run"),
        (["abc"], "abcxabc", 3, 6 / 7, "a run may stand twice in the test"),
        (["ABC"], "abc", 3, 0.0, "a capital is another character"),
        (["abc", "xyz"], "abc", 3, 1.0, "every training text counts, not the last alone"),
        (["abcd", "xyz"], "abcd-xyz", 3, 7 / 8, "every run counts, not the longest alone"),
        (["a b"], "a  b", 3, 0.0, "spaces count as they stand"),
        (["a b "], " a b", 3, 3 / 4, "spaces count at the ends, too"),
        (["ab "], " ab", 3, 0.0, "a run is not stripped"),
        (["abc"], "abd", 1, 2 / 3, "a run may be one character"),
        (["abc", "abc"], "abcxyz", 3, 1 / 2, "a run counts once, in however many texts"),
        (["a.c"], "abcabc", 3, 0.0, "a dot is a character like others"),
        (["a\nb"], "a bxyz", 3, 0.0, "a line break is no space"),
        (["a\nb"], "a\nbxyz", 3, 1 / 2, "a run may hold a line break"),
        (["aba"], "ababa", 3, 1.0, "a run may begin inside its own copy"),
    ):
        case = f"for {train}, {test!r} and n = {n} ({why}) "
        compare(answer(list(train), test, n), right, "the share", case=case)
