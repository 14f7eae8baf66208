"""The heads of the reader's own model, in one call."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attn_notes.arguments import check_mask
from attn_widgets import reading
from attn_widgets.encoding import check_tokens
from attn_widgets.heads import HeadExplorer
from attn_widgets.layers import as_kinds
from attn_widgets.tokens import readable, special_among
from attn_widgets.views import Maps, Reading, kept_places


def show_attention(
    model: Any,
    tokens: Any = None,
    text: Any = None,
    *,
    special: Sequence[str] | None = None,
    mask: Tensor | Sequence[Tensor] | None = None,
    kv_heads: int | None = None,
    image: Any = None,
    grid: Sequence[int] | None = None,
    also: str | Sequence[str] = (),
    layers: Sequence[int] | None = None,
    title: str = "",
) -> HeadExplorer:
    """The heads of any model on a text or a picture: weights, outputs, or the model itself.

    The ways to call it are `show_attention(weights, tokens)`,
    `show_attention(outputs, source_tokens, target_tokens)`,
    `show_attention(model, tokenizer, text)`, `show_attention(vision_model, processor, image)`, and
    `show_attention(weights, image=image, grid=(14, 14))`. Nothing of the model is changed.

    Args:
        model: the layers (1, H, L, S) that a model returns, also as arrays, lists, or tensors of
            (H, L, S) or (L, S), from 0 to 1; outputs that hold such layers, of an encoder-decoder
            all three kinds; or a model of the reference library, or an `Encoder` or `DecoderOnly`.
            Of one text: a batch is refused.
        tokens: L tokens, those that read; of an encoder-decoder's outputs those of the source.
            Or the model's tokenizer, a `Vocabulary` of characters, or the processor of pictures.
        text: S tokens, where others are read; of an encoder-decoder's outputs the L of the target.
            With a model: the text, or two: a pair of sentences, or source and target. An
            encoder-decoder that is given the source alone writes the target itself. Or a picture.
        special: the tokens that can be hidden; by default those that the tokenizer adds, or,
            without one, those that look like them, such as `[CLS]` and `</s>`.
        mask: (L, S), bool, `True` = may attend, or one a layer. By default what the weights show:
            causal where no weight of any head is for a later token, and a window where all heads
            of a layer end at the same distance.
        kv_heads: how many heads of a layer have keys and values of their own, where others share
            them. A model's configuration says it.
        image: with weights, the picture that was read: of PIL, or an array.
        grid: rows and columns of the picture's patches, the last of the L tokens.
        also: any of "values", "rollout" and "neurons": show besides the weights what they become
            when each is multiplied by the length of the value that it reads; how far all layers
            together reach back; or the products of query and key, feature by feature, that add up
            to a score. The first and the last need the model.
        layers: for "neurons", the layers whose queries and keys are kept, by default all. Each
            costs 2 bytes for each of its (H + G) · L · D numbers, a third more in a page. A model
            that adds a bias to its scores, or caps them, is refused.
        title: a line above the view.

    Returns:
        The view. It saves itself by `save_html`, `save_png` and `save_svg`, and shows new weights
        of the same tokens once they are set, `view.weights = new`. Of a model that writes, it shows
        the likeliest next tokens as well.

    Example:
        >>> import torch
        >>> layers = [torch.eye(3, device="cpu").expand(1, 4, 3, 3)] * 2
        >>> show_attention(layers, ["<s>", "Ġa", "Ġrose"])
        HeadExplorer(1 sentence, 2 layers x 4 heads;
                     layer 0, head 0: 3 tokens, weights 0.00 to 1.00)
    """
    also = (also,) if isinstance(also, str) else tuple(also)
    if not set(also) <= set(reading.ALSO):
        raise ValueError(f"also must be among {', '.join(reading.ALSO)}, got {also}")
    if layers is not None and "neurons" not in also:
        raise ValueError(f"layers must come with also='neurons', got also={also}")
    read = _reader(model, tokens, also, layers)
    if isinstance(model, nn.Module):
        given = image if text is None else text
        if given is None:
            wanted = "(model, tokenizer, text), or with its processor and an image"
            raise TypeError(f"a model must come with its tokenizer and a text: {wanted}")
        found = read(given)
    else:
        kinds = _kinds(model, also)
        found = _of_tokens(kinds, tokens, text) if image is None else _of_image(kinds, image, grid)
    if special is not None:
        found = found._replace(special=[*special])
    maps = {kind: _changed(one, mask, kv_heads) for kind, one in found.maps.items()}
    answers = isinstance(model, nn.Module) and isinstance(given, str | list | tuple)
    encode = read if answers and reading.can_answer(model) else None
    view = HeadExplorer(
        [found._replace(maps=maps)], title=title, encode=encode, special=found.special
    )
    if "image" not in found.extra:  # where the class token comes first
        queries = next(iter(maps.values())).queries
        view.token = max(kept_places(queries, found.special, True), default=0)  # most to read
    return view


def compare(**views: HeadExplorer) -> HeadExplorer:
    """Two views side by side, by the names that they are given: the same head in both.

    Two checkpoints on one text, or one model on two texts. Where the tokens are the same, a third
    map shows the difference of the weights, the second less the first.

    Args:
        views: two, of the same layers and heads, each as it shows itself now.

    Example:
        >>> import torch
        >>> first = show_attention([torch.eye(2, device="cpu")[None]], ["a", "b"])
        >>> second = show_attention([torch.full((1, 2, 2), 0.5, device="cpu")], ["a", "b"])
        >>> compare(before=first, after=second)
        HeadExplorer(2 sentences, 1 layers x 1 heads;
                     layer 0, head 0: 2 tokens, weights 0.00 to 1.00)
    """
    if len(views) != 2:
        raise TypeError(f"compare must have two views by name, got {len(views)}")
    special = [token for view in views.values() for token in view.data["special"]]
    readings = [view.reading() for view in views.values()]
    both = HeadExplorer(readings, special=[*dict.fromkeys(special)], names=[*views])
    both.token = next(iter(views.values())).token
    return both


def _reader(model: Any, tokens: Any, also: Sequence[str], layers: Sequence[int] | None) -> Any:
    """What reads a text or a picture with this model."""
    if reading.is_vision(model):
        return partial(reading.read_picture, model, tokens, also=also)
    return partial(reading.read_text, model, tokens, also=also, layers=layers)


def _changed(maps: Maps, mask: Any, kv_heads: int | None) -> Maps:
    """The maps with the mask and the groups that the reader gave, checked."""
    if mask is not None:
        layers = [mask] if isinstance(mask, Tensor) and mask.dim() < 3 else [*mask]
        for one in layers:
            check_mask(one, maps.layers[0].shape, of="weights")
        if len(layers) not in (1, len(maps.layers)):
            raise ValueError(f"mask must be one or one a layer, got {len(layers)} masks")
        maps = maps._replace(mask=layers[0] if len(layers) == 1 else torch.stack(layers))
    return maps if kv_heads is None else maps._replace(kv_heads=kv_heads)


def _kinds(outputs: Any, also: Sequence[str]) -> dict[str, list[Tensor]]:
    """The kinds of attention of a model's outputs, or of weights."""
    if needed := {"values", "neurons"} & {*also}:
        wanted = f"also={min(needed)!r} must come with the model itself"
        raise TypeError(f"{wanted}, got weights alone")
    kinds = as_kinds(outputs)
    return kinds | reading.rolled_out(kinds) if "rollout" in also else kinds


def _of_image(kinds: dict[str, list[Tensor]], image: Any, grid: Any) -> Reading:
    if grid is None or len(grid) != 2:
        raise TypeError(f"an image must come with its grid (rows, columns), got {grid}")
    return reading.of_picture(kinds, image, grid)


def _of_tokens(kinds: dict[str, list[Tensor]], *tokens: Any) -> Reading:
    """These kinds between the tokens that the reader gave, of the source and of the target."""
    given = [None if each is None else check_tokens("tokens", each) for each in tokens]
    special = special_among([token for each in given for token in each or ()])
    source, target = (None if each is None else readable(each, special) for each in given)
    return Reading(reading.as_maps(kinds, source, target), special)
