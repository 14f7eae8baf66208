"""Run a published model on a text, and keep what its heads read."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

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


def read_text(model: Any, tokenizer: Any, text: str | Sequence[str]) -> Reading:
    """What the heads of a model read in a text, or in a pair of texts.

    A pair is two sentences for an encoder, and source and target for an encoder-decoder, which
    writes the target itself if it is given the source alone. The model is left as it was.
    """
    texts = tuple(text) if isinstance(text, list | tuple) else (text,)
    if len(texts) not in (1, 2) or not all(isinstance(one, str) for one in texts):
        raise TypeError(f"text must be a string or two strings, got {text!r}")
    is_ours = not hasattr(tokenizer, "convert_ids_to_tokens")  # our own blocks, a tokenizer alone
    weights = {"need_weights" if is_ours else "output_attentions": True}
    with evaluating(model), _eager(model):
        if not _has_two(model):
            inputs, tokens, special = (_encode_ours if is_ours else _encode)(
                model, tokenizer, *texts
            )
            words = _words(tokenizer, tokens, special)
            return Reading(as_kinds(model(**inputs, **weights)), words, None, special)
        inputs, tokens, special = _encode(model, tokenizer, texts[0])
        written = _written(model, tokenizer, inputs, *texts[1:])
        kinds = as_kinds(model(**inputs, decoder_input_ids=written, **weights))
    added = sorted({written[0, 0].item(), *tokenizer.all_special_ids})
    special = list(dict.fromkeys(special + tokenizer.convert_ids_to_tokens(added)))
    target = tokenizer.convert_ids_to_tokens(written[0].tolist())
    both = (_words(tokenizer, side, special) for side in (tokens, target))
    return Reading(kinds, *both, special)


def can_answer(model: Any) -> bool:
    """Whether a text alone will do: not where the target would have to be given."""
    return not _has_two(model) or bool(getattr(model, "can_generate", bool)())


def _has_two(model: Any) -> bool:
    return getattr(model.config, "is_encoder_decoder", False)


def _encode_ours(
    model: Any, tokenizer: Any, *texts: str
) -> tuple[dict[str, Tensor], list[str], list[str]]:
    """As `_encode`, for a model of this package."""
    found, device = tokenizer.encode(*texts), next(model.parameters()).device
    inputs = {"tokens": torch.tensor([found.ids], dtype=torch.long, device=device)}
    if len(texts) > 1:
        inputs["token_types"] = torch.tensor([found.type_ids], device=device)
    return inputs, found.tokens, _special(found.tokens, found.special_tokens_mask)


def _encode(
    model: Any, tokenizer: Any, *texts: str
) -> tuple[dict[str, Tensor], list[str], list[str]]:
    """The model's inputs, their tokens, and those of them that the tokenizer has added."""
    batch = tokenizer(*texts, return_tensors="pt", return_special_tokens_mask=True)
    added = batch.pop("special_tokens_mask")[0].tolist()
    count, most = len(added), getattr(model.config, "max_position_embeddings", None)
    if most is not None and count > most:
        raise ValueError(f"the text has {count} tokens, and the model reads {most} at most")
    tokens = tokenizer.convert_ids_to_tokens(batch["input_ids"][0].tolist())
    inputs = {name: x.to(model.device) for name, x in batch.items()}
    return inputs, tokens, _special(tokens, added)


def _special(tokens: Sequence[str], added: Sequence[int]) -> list[str]:
    return list(dict.fromkeys(token for token, flag in zip(tokens, added, strict=True) if flag))


def _words(tokenizer: Any, tokens: Sequence[str], special: Sequence[str]) -> list[str]:
    """Tokens as a reader would write them; a tokenizer may say that its letters are bytes."""
    decoder = getattr(getattr(tokenizer, "backend_tokenizer", tokenizer), "decoder", None)
    byte_level = type(decoder).__name__ == "ByteLevel" or None
    return readable(tokens, special, byte_level=byte_level)


def _written(
    model: Any, tokenizer: Any, inputs: dict[str, Tensor], target: str | None = None
) -> Tensor:
    """What the decoder reads, (1, L): a start, and all but the last of what it is to write."""
    if target is None and can_answer(model):
        options: Any = {"max_new_tokens": LONGEST, "do_sample": False, "num_beams": 1}
        return model.generate(**inputs, **options)[:, :-1]
    if target is None:
        name = type(model).__name__
        raise ValueError(f"{name} writes no text: give a pair, the source and the target")
    labels = tokenizer(text_target=target, return_tensors="pt").input_ids.to(model.device)
    if hasattr(model, "prepare_decoder_input_ids_from_labels"):
        return model.prepare_decoder_input_ids_from_labels(labels=labels)
    start = torch.full_like(labels[:, :1], model.config.decoder_start_token_id or 0)
    return torch.cat([start, labels[:, :-1]], dim=1)


@contextmanager
def _eager(model: Any) -> Iterator[None]:
    """Attention that returns its weights; afterwards the model's own again."""
    before = getattr(model.config, "_attn_implementation", None)
    switch = getattr(model, "set_attn_implementation", lambda _: None)
    switch("eager")
    try:
        yield
    finally:
        switch(before)
