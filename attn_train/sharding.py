"""What N processes hold in N shares: weights, gradients and AdamW's averages (book/beyond.md)."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from attn_train.processes import rank_and_world_size

# Imports inside functions: they take three seconds, and few trainings divide a model.


def shard(model: nn.Module, device: torch.device) -> None:
    """Divide each parameter over all processes, in place: torch's `fully_shard`.

    Zhao et al. (2023). While a block computes, each process holds all its parameters; those outside
    the blocks form one more group. The values are those of the first process.
    """
    from torch.distributed.device_mesh import init_device_mesh  # noqa: PLC0415
    from torch.distributed.fsdp import fully_shard  # noqa: PLC0415

    for parameter in model.parameters():
        parameter.data = parameter.data.contiguous()  # `fully_shard` takes no other layout
    for tensor in model.state_dict().values():
        dist.broadcast(tensor, src=0)
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    lists = [part for part in model.modules() if isinstance(part, nn.ModuleList)]
    for block in [block for blocks in lists for block in blocks]:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)


def is_divided(tensor: Any) -> bool:
    """Whether a tensor is a `DTensor`, of which each process holds a share."""
    return hasattr(tensor, "full_tensor")


def whole(tensor: Any) -> Any:
    """All shares of a divided tensor; all processes must call it together."""
    return tensor.full_tensor() if is_divided(tensor) else tensor


def gather(state: Any, *, keep: bool = True) -> Any:
    """The state with divided tensors whole and on the CPU, or None in a process that keeps none."""

    def gathered(x: Any) -> Any:
        full = whole(x)  # one at a time, so that the device has room
        return full if full is x else full.cpu() if keep else None

    return tree_map(gathered, state)


def share(tensor: Tensor, like: Any) -> Tensor:
    """This process's share of a whole tensor, divided as one of the same shape is, if it is."""
    if not is_divided(like) or tensor.shape != like.shape:
        return tensor
    from torch.distributed.tensor import distribute_tensor  # noqa: PLC0415

    return distribute_tensor(tensor, like.device_mesh, like.placements, src_data_rank=None)


def from_first(value: Any) -> Any:
    """The first process's value, in every process; all must call it together."""
    values = [value]
    if rank_and_world_size()[1] > 1:
        dist.broadcast_object_list(values, device=torch.device("cpu"))
    return values[0]
