"""Torch's own blocks with the weights of ours."""

import torch
from torch import Tensor, nn

from attn_notes.transformer import DecoderBlock, EncoderBlock, TransformerConfig
from tests.oracles import stacked


def torch_twin(
    block: EncoderBlock | DecoderBlock, settings: TransformerConfig
) -> nn.TransformerEncoderLayer | nn.TransformerDecoderLayer:
    """Torch's layer of the same sizes and weights."""
    decodes = isinstance(block, DecoderBlock)
    twin = (nn.TransformerDecoderLayer if decodes else nn.TransformerEncoderLayer)(
        *(settings.embed_dim, settings.num_heads, settings.ffn_dim, settings.dropout),
        *(settings.activation, settings.layer_norm_eps),
        batch_first=True,
        norm_first=settings.norm == "pre",
        dtype=torch.float64,
    )
    twin.load_state_dict(in_torch_names(block.state_dict()))
    return twin


def in_torch_names(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a block under torch's names, an encoder's or a decoder's."""
    return {
        name.removeprefix("feed_forward.")
        .replace("cross_attn", "multihead_attn")
        .replace("qkv_proj.", "in_proj_"): tensor
        for name, tensor in stacked(state).items()
    }
