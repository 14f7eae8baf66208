"""How good a model is on what it has not seen: exact match and BLEU, or bits."""

import math
from collections.abc import Sequence

from torch import nn

from attn_notes.checks import CheckFailed, check_no_overlap
from attn_notes.cli.models import LanguageModel, Translator
from attn_notes.data import PAD, Pair, Vocabulary, make_batch
from attn_notes.decoding import translate
from attn_notes.ngrams import NGramModel
from attn_notes.training import bits_per_character, bleu, exact_match, translation_loss

__all__ = ["bits_per_token", "first_characters", "leak", "score_pairs", "score_texts"]

ORDERS = (1, 3, 5)  # of the n-grams that a language model is compared with
MOST_COUNTED = 2_000_000  # characters whose runs fit into memory


def bits_per_token(
    model: nn.Module, pairs: Sequence[Pair], vocabs: Sequence[Vocabulary], batch_size: int
) -> float:
    """The cross-entropy of the targets, END included."""
    device, nats, count = next(model.parameters()).device, 0.0, 0
    for start in range(0, len(pairs), batch_size):
        batch = make_batch(pairs[start : start + batch_size], *vocabs).to(device)
        tokens = int((batch.target[:, 1:] != PAD).sum())
        nats, count = nats + float(translation_loss(model, batch)) * tokens, count + tokens
    return nats / count / math.log(2)


def score_pairs(translator: Translator, pairs: Sequence[Pair]) -> str:
    """A table of exact match and BLEU, greedily decoded: of all pairs, and of each direction."""
    sources, references = zip(*pairs, strict=True)
    vocabs = translator.source_vocab, translator.target_vocab
    length = translator.settings.max_length
    said = translate(translator.model, sources, *vocabs, max_length=length)
    groups = {"all": [*range(len(pairs))]}
    if "," in translator.data.target:
        for n, source in enumerate(sources):
            groups.setdefault(source[0], []).append(n)
    lines = [f"{'held out':>10}{'pairs':>8}{'exact match':>13}{'BLEU':>7}"]
    for name, rows in groups.items():
        both = [said[n] for n in rows], [references[n] for n in rows]
        score = bleu(*([" ".join(tokens) for tokens in side] for side in both))
        lines.append(f"{name:>10}{len(rows):>8}{exact_match(*both):>13.3f}{score:>7.1f}")
    return "\n".join(lines)


def score_texts(writer: LanguageModel, texts: Sequence[str], held_out: Sequence[str]) -> str:
    """A table of held-out bits per character, of the model and of smoothed counts."""
    length = writer.model.config.max_length
    rows = {"this model": bits_per_character(writer.model, held_out, writer.vocab, length=length)}
    counted = first_characters(texts, MOST_COUNTED)
    for order in ORDERS:
        model = NGramModel(order, counted, writer.vocab)
        rows[f"runs of {order}"] = model.bits_per_character(held_out)
    lines = [f"{name:>10}{bits:>8.3f}" for name, bits in rows.items()]
    return "\n".join([f"{'held out':>10} bits per character", *lines])


def first_characters(texts: Sequence[str], most: int) -> list[str]:
    """The beginning of some texts, of at most so many characters together."""
    taken: list[str] = []
    for text in texts:
        taken.append(text[: most - sum(map(len, taken))])
    return [text for text in taken if text]


def leak(texts: Sequence[str], held_out: Sequence[str]) -> str:
    """What chapter 8's check says of passages on both sides of a split; nothing if it passes."""
    sides = (first_characters(side, MOST_COUNTED) for side in (texts, held_out))
    try:
        check_no_overlap(*sides)
    except CheckFailed as failure:
        return str(failure)
    return ""
