"""Where the parts of a model stand: its attention, blocks, norms and output (chapter 11).

One table of names, for the models of `attn_notes.transformer` and for those of the reference
library, `transformers`, as they are. Nothing is imported from it: whoever has such a model has it.
"""

import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Literal, NamedTuple

from torch import Tensor, nn

from attn_notes.cache import KVCache
from attn_notes.multihead import MultiHeadAttention
from attn_notes.transformer.blocks import Block

Part = Literal["output", "query", "key", "value", "pattern"]
See = Callable[[Part, Tensor], Tensor]  # what becomes of a part of all heads, (B, H, L, ...)


class Family(NamedTuple):
    """What the parts of a model are called; a name may be a path."""

    layer: str  # the parts of an attention layer, by which it is known, its output projection last
    own: str  # in a block: its self-attention
    before: str  # the norm in front of that; none in a post-norm model
    network: str  # what the feed-forward network writes
    blocks: str  # in the whole: the list of blocks
    embeddings: str  # what the first of them reads
    norm: str  # the norm behind the last; none in a post-norm model


OURS = Family("out_proj", "self_attn", "norm1", "feed_forward", "blocks", "embeddings", "norm")
GPT2 = Family("c_attn c_proj", "attn", "ln_1", "mlp", "h", "drop", "ln_f")
BERT = Family(
    "self.query self.key self.value output.dense",
    "attention",
    "",
    "output.dense",
    "encoder.layer",
    "embeddings",
    "",
)
LLAMA = Family(  # Mistral, Qwen, Gemma and others too
    "q_proj k_proj v_proj o_proj",
    "self_attn",
    "input_layernorm",
    "mlp",
    "layers",
    "embed_tokens",
    "norm",
)
KNOWN = "MultiHeadAttention, or that of GPT-2, BERT, Llama, Qwen or Gemma in transformers"


class Layer(NamedTuple):
    """An attention layer of a model."""

    name: str
    module: Any
    family: Family
    num_heads: int
    num_kv_heads: int

    @property
    def block(self) -> str:
        """The name of the block that holds it."""
        return self.name.rpartition(".")[0]

    @property
    def out_proj(self) -> nn.Module:
        """The projection that reads all heads' outputs, side by side."""
        return part_of(self.module, self.output)

    @property
    def output(self) -> str:
        """What that is called."""
        return self.family.layer.split()[-1]

    def head_of(self, part: Part, index: int) -> int:
        """The number of the head (key-value head, for keys and values) that head `index` uses."""
        return index * self.num_kv_heads // self.num_heads if part in ("key", "value") else index

    def weights(self) -> list[Tensor]:
        """Of queries, keys, values and output: (H · D, E), (G · D, E), (G · Dv, E), (E, H · Dv)."""
        output = weight_of(self.out_proj)
        if self.family is OURS:
            return [*self.module.qkv_weights(), output]
        names = self.family.layer.split()[:-1]
        weights = [weight_of(part_of(self.module, name)) for name in names]
        return [*(weights[0].chunk(3) if len(weights) == 1 else weights), output]


def part_of(module: nn.Module, path: str) -> Any:
    """The part at a path, or None."""
    part: Any = module if path else None
    for name in path.split("."):
        part = getattr(part, name, None)
    return part


def weight_of(projection: Any) -> Tensor:
    """A projection's weight (out, in); GPT-2's stands the other way round."""
    return projection.weight if isinstance(projection, nn.Linear) else projection.weight.T


def read_layer(name: str, module: Any) -> Layer | None:
    """An attention layer as such, or None if the module is none that is known."""
    if isinstance(module, MultiHeadAttention):
        return Layer(name, module, OURS, module.num_heads, module.num_kv_heads)
    for family in (GPT2, BERT, LLAMA):
        first, *_, last = parts = [part_of(module, path) for path in family.layer.split()]
        is_other = len(parts) == 2 and isinstance(first, nn.Linear)  # packed in another order
        if is_other or not all(isinstance(part, nn.Module) for part in parts):
            continue
        width = part_of(module, "head_dim") or module.self.attention_head_size
        heads, keys = weight_of(last).shape[1] // width, part_of(module, "k_proj")
        groups = heads if keys is None else weight_of(keys).shape[0] // width
        return Layer(name, module, family, heads, groups)
    return None


def find_layers(model: nn.Module) -> dict[str, Layer]:
    """Every attention layer by its name; raise if there is none."""
    layers = {name: read_layer(name, module) for name, module in model.named_modules()}
    if found := {name: layer for name, layer in layers.items() if layer is not None}:
        return found
    raise ValueError(
        f"model must have attention that is known ({KNOWN}), got {type(model).__name__}"
    )


class Stack(NamedTuple):
    """Blocks on one residual stream, and what stands around them."""

    model: nn.Module
    name: str  # how the names in it begin: "body."
    blocks: tuple[str, ...]
    layers: tuple[Layer, ...]

    @property
    def family(self) -> Family:
        """What its parts are called."""
        return self.layers[0].family

    @property
    def norm(self) -> Any:
        """The norm behind the last block, if there is one."""
        norm = part_of(self.body, self.family.norm)
        return None if isinstance(norm, nn.Identity) else norm

    @property
    def body(self) -> nn.Module:
        """The module that holds embeddings, blocks and the last norm."""
        return self.model.get_submodule(self.name.rstrip("."))

    @property
    def token_weight(self) -> Tensor:
        """The table of the tokens' embeddings (V, E)."""
        model: Any = self.model
        own = part_of(self.body, "embeddings.tokens")
        return (model.get_input_embeddings() if own is None else own).weight

    @property
    def streams(self) -> list[str]:
        """The places of the residual stream: after the embeddings, and after each block."""
        name = self.family.embeddings
        return [f"{self.name}{name}"] * (part_of(self.body, name) is not None) + [*self.blocks]

    @property
    def networks(self) -> list[str]:
        """The feed-forward networks, by what each writes to the stream."""
        names = [f"{block}.{self.family.network}".lstrip(".") for block in self.blocks]
        return [name for name in names if part_of(self.model, name) is not None]

    def norm_before(self, layer: Layer) -> Any:
        """The norm between the stream and a self-attention; None in a post-norm model."""
        block = self.model.get_submodule(layer.block)
        is_first = getattr(block, "norm_first", True)
        return part_of(block, layer.family.before) if is_first else None

    def norm_after(self, place: str) -> Any:
        """The norm between a sublayer and the stream, as in Gemma 2 and 3; None elsewhere."""
        name, _, part = place.rpartition(".")
        block = self.model.get_submodule(name)
        kind = "attention" if part == self.family.own else "feedforward"
        has_both = hasattr(block, "post_feedforward_layernorm")
        return getattr(block, f"post_{kind}_layernorm") if has_both else None


def find_stacks(model: nn.Module) -> list[Stack]:
    """The stacks of blocks of a model, in the order of computation."""
    stacks: dict[str, Stack] = {}
    for layer in find_layers(model).values():
        block = model.get_submodule(layer.block)
        if not layer.name or (layer.family is OURS and not isinstance(block, Block)):
            continue  # attention alone, or in a block whose sums are not known
        prefix, blocks = f"{layer.block}.".lstrip("."), [layer.block]  # a block alone
        container = layer.block.rpartition(".")[0]
        if f".{container}".endswith(f".{layer.family.blocks}"):
            prefix = container.removesuffix(layer.family.blocks)
            children = model.get_submodule(container).named_children()
            blocks = [f"{container}.{n}" for n, _ in children]
        before = stacks.get(prefix, Stack(model, prefix, tuple(blocks), ()))
        stacks[prefix] = before._replace(layers=(*before.layers, layer))
    return [*stacks.values()]


# Inside the attention


@contextmanager
def tapped(layer: Layer, parts: Collection[Part], see: See) -> Iterator[None]:
    """Let `see` read and replace the parts of all heads whenever the layer computes them.

    Queries (B, H, L, D) and keys (B, G, S, D) are those of the scores: behind their norms and
    rotations, keys with those of a cache. Values are (B, G, S, Dv), the pattern (B, H, L, S) before
    dropout, outputs (B, H, L, Dv).
    """

    def before_projection(_: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        heads = args[0].unflatten(-1, (layer.num_heads, -1)).transpose(-3, -2)  # (B, H, L, D)
        return see("output", heads).transpose(-3, -2).flatten(-2), *args[1:]

    with ExitStack() as undo:
        if "output" in parts:
            undo.callback(layer.out_proj.register_forward_pre_hook(before_projection).remove)
        if inner := {*parts} - {"output"}:
            tap = _tap_ours if layer.family is OURS else _tap_reference
            undo.enter_context(tap(layer.module, inner, see))
        yield


@contextmanager
def _tap_ours(module: MultiHeadAttention, parts: Collection[Part], see: See) -> Iterator[None]:
    """The cache is the last to have keys and values, a rotation queries, a dropout the pattern."""
    shown: list[Tensor] = []

    def before(_: nn.Module, args: Any, options: dict[str, Any]) -> Any:
        rotary, cache = options.get("rotary"), options.get("cache")
        turned: Iterator[Any] = iter([partial(see, "query"), lambda keys: keys])  # queries first

        def turn(x: Tensor) -> Tensor:
            return next(turned)(x if rotary is None else rotary(x))

        own = {"rotary": turn, "cache": _SeenCache(KVCache() if cache is None else cache, see)}
        return args, {**options, **own, "need_weights": options.get("need_weights") or open_}

    def before_dropout(_: nn.Module, args: tuple[Tensor]) -> tuple[Tensor]:
        shown[:] = [see("pattern", args[0])]
        return (shown[0],)

    def after(_: nn.Module, _args: Any, output: tuple[Tensor, Tensor | None]) -> Any:
        return (output[0], shown[0])  # the weights that were used

    open_ = "pattern" in parts
    with ExitStack() as undo:
        undo.callback(module.register_forward_pre_hook(before, with_kwargs=True).remove)
        if open_:
            undo.callback(module.dropout.register_forward_pre_hook(before_dropout).remove)
            undo.callback(module.register_forward_hook(after).remove)
        yield


class _SeenCache:
    """A cache that shows the keys and values that it gives."""

    def __init__(self, cache: KVCache, see: See) -> None:
        self.cache, self.see, self.length = cache, see, cache.length

    def update(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """As in `KVCache`."""
        keys, values = self.cache.update(key, value)
        return self.see("key", keys), self.see("value", values)


NAME = "attn_notes"  # of our attention function, in the reference library's table
SEEN: dict[nn.Module, list[tuple[Collection[Part], See]]] = {}  # who looks, the outermost first


@contextmanager
def _tap_reference(layer: Any, parts: Collection[Part], see: See) -> Iterator[None]:
    """The library calls the attention function that the config names: for a while, this one."""
    module = layer.self if hasattr(layer, "self") else layer
    modeling = sys.modules.get("transformers.modeling_utils")
    eager = getattr(sys.modules[type(module).__module__], "eager_attention_forward", None)
    config = getattr(module, "config", None)
    if modeling is None or eager is None or config is None:
        wanted = "an attention of transformers with `eager_attention_forward`"
        got = f"got {type(module).__name__} of {type(module).__module__}"
        raise ValueError(f"for {', '.join(sorted(parts))} a layer must be {wanted}, {got}")
    masks = sys.modules["transformers.masking_utils"]
    modeling.ALL_ATTENTION_FUNCTIONS.register(NAME, _attend)
    masks.ALL_MASK_ATTENTION_FUNCTIONS.register(NAME, masks.eager_mask)
    before = config._attn_implementation
    SEEN.setdefault(module, []).append((parts, see))
    config._attn_implementation = NAME
    try:
        yield
    finally:
        config._attn_implementation = before
        SEEN[module].pop()
        if not SEEN[module]:
            del SEEN[module]


def _attend(
    module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **options: Any
) -> tuple[Tensor, Tensor]:
    """The model's own open attention, whose numbers are shown on their way; (B, L, H, D)."""
    seen = SEEN.get(module, [])
    for _, see in seen:
        query, key, value = see("query", query), see("key", key), see("value", value)
    if mask is None and query.shape[2] > 1 and getattr(module, "is_causal", False):
        raise ValueError("a causal layer must be run by its model, which makes its mask, got none")
    eager = sys.modules[type(module).__module__].eager_attention_forward
    output, weights = eager(module, query, key, value, mask, **options)
    patterns = [see for parts, see in seen if "pattern" in parts]
    if not patterns:
        return output, weights
    for see in patterns:
        weights = see("pattern", weights)  # (B, H, L, S)
    value = value.repeat_interleave(weights.shape[1] // value.shape[1], dim=1)
    return (weights @ value).transpose(1, 2), weights
