"""Torch's own blocks with the weights of ours, and what must agree between the two."""

import torch
from torch import Tensor, nn

from attn_notes.transformer import DecoderBlock, EncoderBlock, TransformerConfig
from tests.oracles import gradients

# Torch's names by ours. Torch stacks the first three matrices of an attention.
LAYERS = {
    "self_attn.out_proj": "self_attn.out_proj",
    "cross_attn.out_proj": "multihead_attn.out_proj",
    "norm1": "norm1",
    "norm2": "norm2",
    "norm3": "norm3",
    "feed_forward.linear1": "linear1",
    "feed_forward.linear2": "linear2",
}
ATTENTIONS = {"self_attn": "self_attn", "cross_attn": "multihead_attn"}


def torch_twin(
    block: EncoderBlock | DecoderBlock, settings: TransformerConfig
) -> nn.TransformerEncoderLayer | nn.TransformerDecoderLayer:
    decodes = isinstance(block, DecoderBlock)
    kind = nn.TransformerDecoderLayer if decodes else nn.TransformerEncoderLayer
    twin = kind(
        settings.embed_dim, settings.num_heads, settings.ffn_dim, settings.dropout,
        settings.activation, settings.layer_norm_eps, batch_first=True,
        norm_first=settings.norm == "pre", dtype=torch.float64,
    )  # fmt: skip
    twin.load_state_dict(in_torch_names(block.state_dict()))
    return twin


def in_torch_names(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a block under torch's names, an encoder's or a decoder's."""
    theirs = {}
    for kind in ("weight", "bias"):
        for ours, torch_name in LAYERS.items():
            if f"{ours}.{kind}" in state:
                theirs[f"{torch_name}.{kind}"] = state[f"{ours}.{kind}"]
        for ours, torch_name in ATTENTIONS.items():
            parts = [state.get(f"{ours}.{part}_proj.{kind}") for part in "qkv"]
            if parts[0] is not None:
                theirs[f"{torch_name}.in_proj_{kind}"] = torch.cat(parts)
    return theirs


def assert_same_gradients(block: nn.Module, got: Tensor, twin: nn.Module, expected: Tensor) -> None:
    """The two outputs have the same gradient in every parameter."""
    ours, theirs = dict(block.named_parameters()), dict(twin.named_parameters())
    in_ours = dict(zip(ours, gradients(got, [*ours.values()]), strict=True))
    in_theirs = dict(zip(theirs, gradients(expected, [*theirs.values()]), strict=True))
    torch.testing.assert_close(in_torch_names(in_ours), in_theirs)


def assert_same_dropout(block: nn.Module, twin: nn.Module, *inputs: Tensor, **masks) -> None:
    """The same seed drops the same entries in both, and evaluation mode drops none.

    For one sequence: torch lays a batch out in another order, which changes what a seed drops.
    """
    torch.manual_seed(5)
    got = block(*inputs)[0]
    torch.manual_seed(5)
    torch.testing.assert_close(got, twin(*inputs, **masks))
    plain = block.eval()(*inputs)[0]
    assert not torch.allclose(plain, got)
    torch.testing.assert_close(plain, twin.eval()(*inputs, **masks))
