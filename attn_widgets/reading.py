"""Let a model read a text or a picture, and keep what its heads read in it."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from attn_notes.data import Vocabulary
from attn_notes.inside import rollout
from attn_notes.modes import evaluating
from attn_widgets import neurons, pictures
from attn_widgets.layers import as_layers, find_kinds
from attn_widgets.tokens import readable
from attn_widgets.views import Maps, Reading, find_mask

LONGEST = 64  # tokens of an answer that an encoder-decoder writes itself
CANDIDATES = 5  # of the next token
ALSO = ("values", "rollout", "neurons")  # what can be shown besides the weights


def read_text(
    model: Any,
    tokenizer: Any,
    text: str | Sequence[str],
    also: Sequence[str] = (),
    layers: Sequence[int] | None = None,
) -> Reading:
    """What the heads of a model read in a text, or in a pair of texts.

    A pair is two sentences for an encoder, and source and target for an encoder-decoder, which
    writes the target itself if it is given the source alone. The model is left as it was. For
    "neurons", the queries and keys of `layers` are kept, by default of all.
    """
    texts = tuple(text) if isinstance(text, list | tuple) else (text,)
    if len(texts) not in (1, 2) or not all(isinstance(one, str) for one in texts):
        raise TypeError(f"text must be a string or two strings, got {_named(text)}")
    # A tokenizer may say that its letters are bytes.
    decoder = getattr(getattr(tokenizer, "backend_tokenizer", tokenizer), "decoder", None)
    words = partial(readable, byte_level=type(decoder).__name__ == "ByteLevel" or None)
    if "neurons" in also and _has_two(model):
        raise ValueError(f"also='neurons' must come with one stack, got {type(model).__name__}")
    watch: AbstractContextManager[dict[int, neurons.Vectors]] = nullcontext({})
    if "neurons" in also:
        watch = neurons.watching(model, layers)
    with evaluating(model), eager(model), watch as vectors:
        if not _has_two(model):
            inputs, tokens, special = _encode(model, tokenizer, *texts)
            outputs, kinds = _run(model, inputs, is_ours=_is_ours(tokenizer), also=also)
            target = None
        else:
            inputs, tokens, special = _encode(model, tokenizer, texts[0])
            given = _written(model, tokenizer, inputs, *texts[1:])  # (1, L)
            outputs, kinds = _run(model, inputs | {"decoder_input_ids": given}, also=also)
            added = sorted({given[0, 0].item(), *tokenizer.all_special_ids})
            special = list(dict.fromkeys(special + tokenizer.convert_ids_to_tokens(added)))
            target = words(tokenizer.convert_ids_to_tokens(given[0].tolist()), special)
    maps = as_maps(kinds, words(tokens, special), target, kv_heads=kv_heads_of(model))
    if vectors:
        maps[""] = maps[""]._replace(vectors=neurons.check(vectors, kinds))
    following = _candidates(outputs, maps, tokenizer, partial(words, special=special))
    return Reading(maps, special, following)


def read_picture(model: Any, processor: Any, image: Any, also: Sequence[str] = ()) -> Reading:
    """What the heads of a model read in a picture, one row for each token that it is cut into.

    The picture is shown as the model sees it: as large and as cut as its processor makes it.
    """
    if isinstance(image, str):  # a processor would look for such a file, or load it from a site
        raise TypeError(f"{type(model).__name__} reads pictures, got {_named(image)}")
    if "neurons" in also:
        raise ValueError("also='neurons' must come with a text, got a picture")
    model = getattr(model, "vision_model", model)  # CLIP has two
    if not callable(processor):
        raise TypeError(f"a vision model must come with its processor, got {_named(processor)}")
    pixels = processor(images=image, return_tensors="pt")["pixel_values"]
    if pixels.dim() != 4 or len(pixels) != 1:
        raise ValueError(f"image must be one picture, got pixels of shape {tuple(pixels.shape)}")
    with evaluating(model), eager(model):
        inputs = {"pixel_values": pixels.to(next(model.parameters()).device)}
        kinds = _run(model, inputs, also=also)[1]
    side = model.config.patch_size
    high, wide = side if isinstance(side, list | tuple) else (side, side)
    grid = (pixels.shape[2] // high, pixels.shape[3] // wide)
    shown = pictures.as_seen(pixels[0].cpu(), getattr(processor, "image_processor", processor))
    return of_picture(kinds, shown, grid)


def of_picture(kinds: dict[str, list[Tensor]], image: Any, grid: Sequence[int]) -> Reading:
    """The maps of a picture's patches, named by row and column, and the picture itself."""
    L = next(iter(kinds.values()))[0].shape[-1]
    tokens, first = pictures.patch_names(L, grid)
    shown = pictures.encode_picture(image)
    extra = {"image": {"pixels": shown, "grid": [*grid], "first": first}}
    return Reading(as_maps(kinds, tokens), tokens[:first], extra)


def is_vision(model: Any) -> bool:
    """Whether a model reads pictures."""
    return hasattr(model, "vision_model") or getattr(model, "main_input_name", "") == "pixel_values"


def kv_heads_of(model: Any) -> int | None:
    """How many key-value heads each layer has, as the model's configuration says."""
    config = getattr(model.config, "get_text_config", lambda: model.config)()
    names = ("num_key_value_heads", "num_kv_heads")
    return next((n for name in names if (n := getattr(config, name, None))), None)


def as_maps(
    kinds: dict[str, list[Tensor]],
    source: list[str] | None,
    target: list[str] | None = None,
    *,
    kv_heads: int | None = None,
) -> dict[str, Maps]:
    """The maps of each kind, between the tokens of its two sides."""
    sides = {"encoder": (source, None), "decoder": (target, None), "cross": (target, source)}
    maps: dict[str, Maps] = {}
    for name, layers in kinds.items():
        kind, shown = name.partition(" ")[0], name.rpartition(" ")[2]
        H, L, S = layers[0].shape
        queries, keys = sides.get(kind, (source, target))
        if keys is None and (L != S or kind == "cross"):
            keys = [str(n) for n in range(S)]
        mask = None if kind == "cross" else find_mask(layers)
        if shown == "values":  # one of length 0 is not masked
            mask = maps[name.removesuffix(shown).strip()].mask
        groups = None if shown == "rollout" or kv_heads == H else kv_heads
        maps[name] = Maps(layers, queries or [str(n) for n in range(L)], keys, mask, groups)
    return maps


def rolled_out(kinds: dict[str, list[Tensor]]) -> dict[str, list[Tensor]]:
    """How far the layers of each kind reach back, whose tokens read one another."""
    found = {}
    for kind, layers in kinds.items():
        if kind != "cross" and layers[0].shape[-2] == layers[0].shape[-1]:
            means = [layer.mean(0, keepdim=True) for layer in layers]  # (1, L, L) each
            upto = [rollout(means[: n + 1])[None] for n in range(len(means))]
            found[f"{kind} rollout".strip()] = upto
    return found


def _run(
    model: Any, inputs: dict[str, Tensor], *, also: Sequence[str], is_ours: bool = False
) -> tuple[Any, dict[str, list[Tensor]]]:
    """The outputs of a model, and the layers of each kind of attention."""
    asked = {"need_weights" if is_ours else "output_attentions": True}
    values = _Values()
    with values if "values" in also else nullcontext():
        outputs = model(**inputs, **asked)
    raw = find_kinds(outputs)
    kinds, more = {kind: as_layers(layers) for kind, layers in raw.items()}, {}
    if "values" in also:
        for kind, layers in raw.items():
            more[f"{kind} values".strip()] = [values.weighted(layer) for layer in layers]
    return outputs, kinds | more | (rolled_out(kinds) if "rollout" in also else {})


class _Values(TorchFunctionMode):
    """Keeps what each map of weights is multiplied by: the values, whatever the model's names."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[int, tuple[Tensor, Tensor]] = {}  # by where the weights lie in memory

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        is_product = getattr(func, "__name__", "") in ("matmul", "__matmul__", "bmm")
        if is_product and len(args) == 2:
            self.found[args[0].data_ptr()] = args  # kept, so that no other takes the place
        return func(*args, **(kwargs or {}))

    def weighted(self, weights: Tensor) -> Tensor:
        """The share (H, L, S) that each key's weighted value has in the lengths of a row."""
        _, value = self.found.get(weights.data_ptr(), (None, None))
        if value is None or value.shape[-2] != weights.shape[-1]:
            raise ValueError("also='values' must find the values of each layer, got none of one")
        lengths = weights[0] * value.float().norm(dim=-1).view(
            -1, 1, weights.shape[-1]
        )  # (H, L, S)
        total = lengths.sum(-1, keepdim=True)
        return (lengths / total.where(total > 0, 1)).float().cpu()


def _candidates(outputs: Any, maps: dict[str, Maps], tokenizer: Any, words: Any) -> dict[str, Any]:
    """What a model that writes expects after each token: {"next": [[[token, share], ...], ...]}."""
    logits, last = getattr(outputs, "logits", None), maps.get("decoder", maps.get(""))
    if logits is None or last is None or last.mask is None or logits.dim() != 3:
        return {}
    if bool(last.mask[..., 0, -1].any()) or logits.shape[1] != len(last.queries):
        return {}
    shares, ids = logits[0].float().softmax(-1).topk(min(CANDIDATES, logits.shape[-1]))
    name = _names_of(tokenizer)
    rows = [words([name(n) for n in row]) for row in ids.tolist()]
    near = [[round(p, 4) for p in row] for row in shares.tolist()]
    return {"next": [[*map(list, zip(*row, strict=True))] for row in zip(rows, near, strict=True)]}


def _names_of(tokenizer: Any) -> Any:
    """The token of an id; a model may know more ids than its tokenizer has tokens."""
    if isinstance(tokenizer, Vocabulary):
        return lambda n: "".join(tokenizer.decode([n])) or f"[{n}]"
    is_ours = _is_ours(tokenizer)
    one = tokenizer.id_to_token if is_ours else tokenizer.convert_ids_to_tokens
    return lambda n: one(n) or f"[{n}]"


def can_answer(model: Any) -> bool:
    """Whether a text alone will do: not where the target would have to be given."""
    return not _has_two(model) or bool(getattr(model, "can_generate", bool)())


def _has_two(model: Any) -> bool:
    return getattr(model.config, "is_encoder_decoder", False)


def _is_ours(tokenizer: Any) -> bool:
    """Whether it is a tokenizer alone, as our own blocks have."""
    return not hasattr(tokenizer, "convert_ids_to_tokens")


def _named(given: Any) -> str:
    """Something that was given, briefly."""
    text = repr(given)
    return text if len(text) < 60 else f"a {type(given).__name__}"


def _encode(
    model: Any, tokenizer: Any, *texts: str
) -> tuple[dict[str, Tensor], list[str], list[str]]:
    """The model's inputs, their tokens, and those of them that the tokenizer has added."""
    if not _is_ours(tokenizer):
        inputs = tokenizer(*texts, return_tensors="pt", return_special_tokens_mask=True)
        added = inputs.pop("special_tokens_mask")[0].tolist()
        tokens = tokenizer.convert_ids_to_tokens(inputs["input_ids"][0].tolist())
    elif isinstance(tokenizer, Vocabulary):  # of characters
        tokens = [*"".join(texts)]
        added = [0] * len(tokens)
        inputs = {"tokens": torch.tensor([tokenizer.encode(tokens)], device="cpu")}  # (1, L)
    elif not hasattr(tokenizer, "id_to_token"):
        raise TypeError(f"a model of text must come with its tokenizer, got {_named(tokenizer)}")
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
def eager(model: Any) -> Iterator[None]:
    """Attention that returns its weights; afterwards the model's own again."""
    before = getattr(model.config, "_attn_implementation", None)
    switch = getattr(model, "set_attn_implementation", lambda _: None)
    switch("eager")
    try:
        yield
    finally:
        switch(before)
