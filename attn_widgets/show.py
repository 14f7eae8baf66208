"""The heads of the reader's own model, in one call."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attn_notes.arguments import check_mask
from attn_notes.modes import evaluating
from attn_widgets.encoding import check_tokens
from attn_widgets.heads import HeadExplorer
from attn_widgets.layers import as_kinds
from attn_widgets.tokens import readable, special_among
from attn_widgets.views import Maps, find_mask, kept_places

LONGEST = 64  # tokens of an answer that an encoder-decoder writes itself


Read = tuple[dict[str, Maps], list[str]]  # the maps of each kind of attention; the special tokens


def show_attention(
    model: Any,
    tokens: Any = None,
    text: Any = None,
    *,
    special: Sequence[str] | None = None,
    mask: Tensor | None = None,
    title: str = "",
) -> HeadExplorer:
    """The heads of any model on a text: weights, a model's outputs, or the model itself.

    The three ways to call it are `show_attention(weights, tokens)`,
    `show_attention(outputs, source_tokens, target_tokens)` and
    `show_attention(model, tokenizer, text)`. Nothing of the model is changed.

    Args:
        model: the layers (1, H, L, S) that a model returns, also as arrays, lists, or tensors of
            (H, L, S) or (L, S), from 0 to 1; outputs that hold such layers, of an encoder-decoder
            all three kinds; or a model of the reference library, or an `Encoder` or `DecoderOnly`.
            Of one text: a batch is refused.
        tokens: L tokens, those that read; of an encoder-decoder's outputs those of the source.
            Or the model's tokenizer.
        text: S tokens, where others are read; of an encoder-decoder's outputs the L of the target.
            With a model: the text, or two: a pair of sentences, or source and target. An
            encoder-decoder that is given the source alone writes the target itself.
        special: the tokens that can be hidden; by default those that the tokenizer adds, or,
            without one, those that look like them, such as `[CLS]` and `</s>`.
        mask: (L, S), bool, `True` = may attend. By default the causal mask where no weight of any
            head is for a later token.
        title: a line above the view.

    Returns:
        The view. It saves itself by `save_html`, `save_png` and `save_svg`, and shows new weights
        of the same tokens once they are set, `view.weights = new`.

    Example:
        >>> import torch
        >>> layers = [torch.eye(3, device="cpu").expand(1, 4, 3, 3)] * 2
        >>> show_attention(layers, ["<s>", "Ġa", "Ġrose"])
        HeadExplorer(1 sentence, 2 layers x 4 heads;
                     layer 0, head 0: 3 tokens, weights 0.00 to 1.00)
    """
    encode = None
    if not isinstance(model, nn.Module):
        maps, found = _read_outputs(model, tokens, text)
    elif text is None:
        raise TypeError("a model must come with its tokenizer and a text: (model, tokenizer, text)")
    else:
        maps, found = read_text(model, tokens, text)
        if can_answer(model):
            encode = lambda typed: read_text(model, tokens, typed)[0]  # noqa: E731
    if mask is not None:
        check_mask(mask, next(iter(maps.values())).layers[0].shape, of="weights")
        maps = {kind: one._replace(mask=mask) for kind, one in maps.items()}
    special = found if special is None else special
    view = HeadExplorer([maps], title=title, encode=encode, special=special)
    queries = view.data["sentences"][0]["views"][0]["queries"]
    view.token = max(kept_places(queries, special, True), default=0)  # the last has most to read
    return view


def _read_outputs(outputs: Any, *tokens: Any) -> Read:
    """The kinds of attention of a model's outputs, with the tokens that the reader gave."""
    given = [None if each is None else check_tokens("tokens", each) for each in tokens]
    special = special_among([token for each in given for token in each or ()])
    words = (None if each is None else readable(each, special) for each in given)
    return _as_maps(as_kinds(outputs), *words), special


def _as_maps(
    kinds: dict[str, list[Tensor]], source: list[str] | None, target: list[str] | None = None
) -> dict[str, Maps]:
    """The maps of each kind, between the tokens of its two sides."""
    maps, sides = (
        {},
        {"encoder": (source, None), "decoder": (target, None), "cross": (target, source)},
    )
    for kind, layers in kinds.items():
        L, S = layers[0].shape[-2:]
        queries, keys = sides.get(kind, (source, target))
        if keys is None and (L != S or kind == "cross"):
            keys = [str(n) for n in range(S)]
        mask = None if kind == "cross" else find_mask(layers)
        maps[kind] = Maps(layers, queries or [str(n) for n in range(L)], keys, mask)
    return maps


def read_text(model: Any, tokenizer: Any, text: str | Sequence[str]) -> Read:
    """What the heads of a model read in a text, or in a pair of texts.

    A pair is two sentences for an encoder, and source and target for an encoder-decoder, which
    writes the target itself if it is given the source alone. The model is left as it was.
    """
    texts = tuple(text) if isinstance(text, list | tuple) else (text,)
    if len(texts) not in (1, 2) or not all(isinstance(one, str) for one in texts):
        raise TypeError(f"text must be a string or two strings, got {text!r}")
    is_ours = not hasattr(tokenizer, "convert_ids_to_tokens")  # our own blocks, a tokenizer alone
    weights = {"need_weights" if is_ours else "output_attentions": True}
    # A tokenizer may say that its letters are bytes.
    decoder = getattr(getattr(tokenizer, "backend_tokenizer", tokenizer), "decoder", None)
    words = partial(readable, byte_level=type(decoder).__name__ == "ByteLevel" or None)
    with evaluating(model), _eager(model):
        if not _has_two(model):
            inputs, tokens, special = _encode(model, tokenizer, *texts)
            return _as_maps(as_kinds(model(**inputs, **weights)), words(tokens, special)), special
        inputs, tokens, special = _encode(model, tokenizer, texts[0])
        written = _written(model, tokenizer, inputs, *texts[1:])
        kinds = as_kinds(model(**inputs, decoder_input_ids=written, **weights))
    added = sorted({written[0, 0].item(), *tokenizer.all_special_ids})
    special = list(dict.fromkeys(special + tokenizer.convert_ids_to_tokens(added)))
    target = tokenizer.convert_ids_to_tokens(written[0].tolist())
    return _as_maps(kinds, words(tokens, special), words(target, special)), special


def can_answer(model: Any) -> bool:
    """Whether a text alone will do: not where the target would have to be given."""
    return not _has_two(model) or bool(getattr(model, "can_generate", bool)())


def _has_two(model: Any) -> bool:
    return getattr(model.config, "is_encoder_decoder", False)


def _encode(
    model: Any, tokenizer: Any, *texts: str
) -> tuple[dict[str, Tensor], list[str], list[str]]:
    """The model's inputs, their tokens, and those of them that the tokenizer has added."""
    if hasattr(tokenizer, "convert_ids_to_tokens"):
        inputs = tokenizer(*texts, return_tensors="pt", return_special_tokens_mask=True)
        added = inputs.pop("special_tokens_mask")[0].tolist()
        tokens = tokenizer.convert_ids_to_tokens(inputs["input_ids"][0].tolist())
    else:
        found = tokenizer.encode(*texts)
        added, tokens, given = found.special_tokens_mask, found.tokens, [found.ids, found.type_ids]
        ids, types = torch.tensor(given, dtype=torch.long, device="cpu")[:, None]  # each (1, L)
        inputs = {"tokens": ids} | ({"token_types": types} if len(texts) > 1 else {})
    most = getattr(model.config, "max_position_embeddings", None)
    if most is not None and len(tokens) > most:
        raise ValueError(f"the text has {len(tokens)} tokens, and the model reads {most} at most")
    special = [token for token, flag in zip(tokens, added, strict=True) if flag]
    device = next(model.parameters()).device
    return {name: x.to(device) for name, x in inputs.items()}, tokens, list(dict.fromkeys(special))


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
