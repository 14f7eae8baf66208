"""The parameters of our layers under the names that torch's own have."""

import torch
from torch import Tensor


def in_torch_names(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Those of an attention or a block, whose three projections torch stacks into one."""
    named = {
        name.removeprefix("feed_forward.").replace("cross_attn", "multihead_attn"): tensor
        for name, tensor in state.items()
    }
    for name in [name for name in named if "q_proj." in name]:
        parts = [named.pop(name.replace("q_proj.", f"{part}_proj.")) for part in "qkv"]
        named[name.replace("q_proj.", "in_proj_")] = torch.cat(parts)
    return named
