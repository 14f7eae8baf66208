"""Run a published model on a text, and keep what its heads read."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attn_notes.decoding.generate import evaluating
from attn_notes.widgets.layers import as_kinds
from attn_notes.widgets.tokens import readable

LONGEST = 64  # tokens of an answer that an encoder-decoder writes itself


class Reading(NamedTuple):
    """The weights of each kind of attention, and the tokens of each side where they are known."""

    kinds: dict[str, list[Tensor]]
    source: list[str] | None
    target: list[str] | None
    special: list[str]


def read_text(model: nn.Module, tokenizer: Any, text: str | Sequence[str]) -> Reading:
    """What the heads of a model read in a text, or in a pair of texts.

    A pair is two sentences for an encoder, and source and target for an encoder-decoder, which
    writes the target itself if it is given the source alone. The model is left as it was.
    """
    texts = tuple(text) if isinstance(text, list | tuple) else (text,)
    if len(texts) not in (1, 2) or not all(isinstance(one, str) for one in texts):
        raise TypeError(f"text must be a string or two strings, got {text!r}")
    with evaluating(model), _eager(model):
        if not hasattr(tokenizer, "convert_ids_to_tokens"):  # our own blocks, and a tokenizer alone
            return _read_by_our_own(model, tokenizer, texts)
        if getattr(model.config, "is_encoder_decoder", False):
            return _read_by_two(model, tokenizer, *texts)
        batch, special = _encode(model, tokenizer, *texts)
        kinds = as_kinds(model(**batch, output_attentions=True))
        return Reading(kinds, _words(tokenizer, batch["input_ids"], special), None, special)


def can_answer(model: nn.Module) -> bool:
    """Whether a text alone will do: not where the target would have to be given."""
    two = getattr(model.config, "is_encoder_decoder", False)
    return not two or bool(getattr(model, "can_generate", bool)())


def _read_by_our_own(model: nn.Module, tokenizer: Any, texts: tuple[str, ...]) -> Reading:
    found = tokenizer.encode(*texts)
    device = next(model.parameters()).device
    both = [found.ids, found.type_ids]
    ids, types = torch.tensor(both, dtype=torch.long, device=device)[:, None].unbind(0)
    typed = {"token_types": types} if len(texts) > 1 else {}
    kinds = as_kinds(model(ids, **typed, need_weights=True))
    special = _special(found.tokens, found.special_tokens_mask)
    words = readable(found.tokens, special, byte_level=_is_byte_level(tokenizer))
    return Reading(kinds, words, None, special)


def _read_by_two(model: Any, tokenizer: Any, source: str, target: str | None = None) -> Reading:
    batch, special = _encode(model, tokenizer, source)
    if target is not None:
        labels = tokenizer(text_target=target, return_tensors="pt").input_ids
        written = _shifted(model, labels.to(model.device))
    elif can_answer(model):
        options: Any = {"max_new_tokens": LONGEST, "do_sample": False, "num_beams": 1}
        written = model.generate(**batch, **options)[:, :-1]  # nothing reads the last
    else:
        name = type(model).__name__
        raise ValueError(f"{name} writes no text: give a pair, the source and the target")
    kinds = as_kinds(model(**batch, decoder_input_ids=written, output_attentions=True))
    added = sorted({written[0, 0].item(), *tokenizer.all_special_ids})
    special += tokenizer.convert_ids_to_tokens(added)
    source_words = _words(tokenizer, batch["input_ids"], special)
    target_words = _words(tokenizer, written, special)
    return Reading(kinds, source_words, target_words, list(dict.fromkeys(special)))


def _shifted(model: Any, labels: Tensor) -> Tensor:
    """What a decoder reads where it is to write the labels: a start, and all but the last."""
    if hasattr(model, "prepare_decoder_input_ids_from_labels"):
        return model.prepare_decoder_input_ids_from_labels(labels=labels)
    names = ("decoder_start_token_id", "pad_token_id", "bos_token_id")
    starts = (getattr(model.config, name, None) for name in names)
    start = next((one for one in starts if one is not None), 0)
    return torch.cat([torch.full_like(labels[:, :1], start), labels[:, :-1]], dim=1)


def _encode(model: Any, tokenizer: Any, *texts: str) -> tuple[dict[str, Tensor], list[str]]:
    """The model's inputs, and the tokens that the tokenizer has added."""
    batch = tokenizer(*texts, return_tensors="pt", return_special_tokens_mask=True)
    added = batch.pop("special_tokens_mask")[0].tolist()
    count, most = len(added), getattr(model.config, "max_position_embeddings", None)
    if most is not None and count > most:
        raise ValueError(f"the text has {count} tokens, and the model reads {most} at most")
    tokens = tokenizer.convert_ids_to_tokens(batch["input_ids"][0].tolist())
    return {name: x.to(model.device) for name, x in batch.items()}, _special(tokens, added)


def _special(tokens: Sequence[str], added: Sequence[int]) -> list[str]:
    return list(dict.fromkeys(token for token, flag in zip(tokens, added, strict=True) if flag))


def _words(tokenizer: Any, ids: Tensor, special: Sequence[str]) -> list[str]:
    """Tokens as a reader would write them."""
    byte_level = _is_byte_level(getattr(tokenizer, "backend_tokenizer", None))
    tokens = tokenizer.convert_ids_to_tokens(ids[0].tolist())
    return readable(tokens, special, byte_level=byte_level)


def _is_byte_level(tokenizer: Any) -> bool | None:
    """True of a tokenizer that says so; None leaves it to the tokens."""
    return type(getattr(tokenizer, "decoder", None)).__name__ == "ByteLevel" or None


@contextmanager
def _eager(model: Any) -> Iterator[None]:
    """Attention that returns its weights; afterwards the model's own again."""
    before = getattr(getattr(model, "config", None), "_attn_implementation", None)
    if before in (None, "eager") or not hasattr(model, "set_attn_implementation"):
        yield
        return
    model.set_attn_implementation("eager")
    try:
        yield
    finally:
        model.set_attn_implementation(before)
