"""The heads of the reader's own model, in one call."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from attn_notes.arguments import check_mask
from attn_notes.widgets.encoding import check_tokens
from attn_notes.widgets.heads import HeadExplorer
from attn_notes.widgets.layers import as_kinds
from attn_notes.widgets.reading import Reading, can_answer, read_text
from attn_notes.widgets.tokens import readable, special_among
from attn_notes.widgets.views import Maps, find_mask, kept_places


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
        reading = _read_outputs(model, tokens, text)
    elif text is None:
        raise TypeError("a model must come with its tokenizer and a text: (model, tokenizer, text)")
    else:
        reading = read_text(model, tokens, text)
        if can_answer(model):
            encode = lambda typed: _as_maps(read_text(model, tokens, typed))  # noqa: E731
    maps = _as_maps(reading)
    if mask is not None:
        check_mask(mask, next(iter(maps.values())).layers[0].shape, of="weights")
        maps = {kind: one._replace(mask=mask) for kind, one in maps.items()}
    special = reading.special if special is None else special
    view = HeadExplorer([maps], title=title, encode=encode, special=special)
    queries = view.data["sentences"][0]["views"][0]["queries"]
    view.token = max(kept_places(queries, special, True), default=0)  # the last has most to read
    return view


def _read_outputs(outputs: Any, tokens: Any, others: Any) -> Reading:
    """The kinds of attention of a model's outputs, with the tokens that the reader gave."""
    kinds = as_kinds(outputs)
    given = [None if each is None else check_tokens("tokens", each) for each in (tokens, others)]
    special = special_among([token for each in given for token in each or ()])
    source, target = (None if each is None else readable(each, special) for each in given)
    return Reading(kinds, source, target, special)


def _as_maps(reading: Reading) -> dict[str, Maps]:
    """The maps of each kind, between the tokens of its two sides."""
    maps = {}
    for kind, layers in reading.kinds.items():
        L, S = layers[0].shape[-2:]
        queries, keys = {
            "encoder": (reading.source, None),
            "decoder": (reading.target, None),
            "cross": (reading.target, reading.source),
        }.get(kind, (reading.source, reading.target))
        queries = queries or [str(n) for n in range(L)]
        if keys is None and (L != S or kind == "cross"):
            keys = [str(n) for n in range(S)]
        maps[kind] = Maps(layers, queries, keys, None if kind == "cross" else find_mask(layers))
    return maps
