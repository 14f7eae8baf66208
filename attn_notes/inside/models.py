"""Where the parts of a model stand: its attention, blocks, norms and output (chapter 11).

One table of names, for the models of `attn_notes.transformer` and for those of the reference
library, `transformers`, as they are. Nothing is imported from it: whoever has such a model has it.
"""

from typing import Any, Literal, NamedTuple

from torch import Tensor, nn

from attn_notes.multihead import MultiHeadAttention
from attn_notes.transformer.blocks import Block

Part = Literal["output", "query", "key", "value", "pattern"]
"""Of a head: what it passes on, and what that is made of."""


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
BERT_LAYER, BERT_BLOCKS = "self.query self.key self.value output.dense", "encoder.layer"
BERT = Family(BERT_LAYER, "attention", "", "output.dense", BERT_BLOCKS, "embeddings", "")
LLAMA_LAYER, LLAMA_NORM = "q_proj k_proj v_proj o_proj", "input_layernorm"  # Qwen, Gemma, ... too
LLAMA = Family(LLAMA_LAYER, "self_attn", LLAMA_NORM, "mlp", "layers", "embed_tokens", "norm")
NORMS = {"input_layernorm", "pre_feedforward_layernorm", "q_norm", "k_norm", "v_norm"}
NORMS |= {"post_attention_layernorm", "post_feedforward_layernorm"}
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

    def unknown_norms(self, block: nn.Module) -> list[str]:
        """The norms in it and in its block, of Llama's kind, whose place is not known."""
        names = [name for x in (block, self.module) for name, _ in x.named_children()]
        is_one = self.family is LLAMA
        return [name for name in names if is_one and "norm" in name and name not in NORMS]

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
    return projection.weight.T if hasattr(projection, "nf") else projection.weight


def read_layer(name: str, module: Any) -> Layer | None:
    """An attention layer as such, or None if the module is none that is known."""
    if isinstance(module, MultiHeadAttention):
        return Layer(name, module, OURS, module.num_heads, module.num_kv_heads)
    for family in (GPT2, BERT, LLAMA):
        first, *_, last = parts = [part_of(module, path) for path in family.layer.split()]
        is_other = len(parts) == 2 and not hasattr(first, "nf")  # packed in another order
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
        if self.family is OURS:
            last = 3 if hasattr(block, "cross_attn") else 2
            number = {"self_attn": 1, "cross_attn": 2}.get(part, last)
            norm = getattr(block, f"out_norm{number}", None)
            return None if isinstance(norm, nn.Identity) else norm
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
