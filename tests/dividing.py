"""Trains in two processes that hold whole models, then shares of one, and counts what they hold.

`python -m tests.dividing FOLDER` writes what each process saw to 0.json and 1.json.
"""

import json
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook

from attn_notes.training import fit, language_model_loss, translation_loss
from attn_notes.training.processes import process_group
from attn_notes.training.sharding import shard
from attn_notes.transformer import DecoderOnly, TransformerConfig
from tests.oracles import rng
from tests.test_training_loop import a_translator, of_words
from tests.trainings import end, fork

V, L, STEPS = 29, 7, 6  # neither the ids nor the positions nor the widths are even
CPU = torch.device("cpu")


def a_model(seed: int = 0, **changes: Any) -> DecoderOnly:
    """With tied embeddings and biases of 5 numbers."""
    torch.manual_seed(seed)
    sizes = {"embed_dim": 5, "num_heads": 1, "ffn_dim": 11, "num_layers": 3, "max_length": L}
    shape = sizes | {"positions": "learned", "tie_embeddings": True} | changes
    return DecoderOnly(TransformerConfig(vocab_size=V, **shape))


def windows(n: int, *, part: int = 0, of: int = 1) -> torch.Tensor:
    """Every so many rows of a batch (8, L + 1); the later rows have more padding."""
    tokens = torch.randint(4, V, (8, L + 1), generator=rng(n))
    kept = torch.arange(L + 1) < L + 1 - torch.arange(8)[:, None] % 6
    return (tokens * kept)[part::of]


def local(tensors: Iterable[Any]) -> int:
    """The bytes of these tensors, or of the shares of them, that are in this process."""
    here = [t.to_local() if hasattr(t, "to_local") else t for t in tensors]
    return sum(t.numel() * t.element_size() for t in here)


def held(optimizer: torch.optim.Optimizer) -> dict[str, int]:
    """The bytes in this process of what lasts from step to step, and of the gradients."""
    weights = [p for group in optimizer.param_groups for p in group["params"]]
    averages = [optimizer.state[p][name] for p in weights for name in ("exp_avg", "exp_avg_sq")]
    gradients = [p.grad for p in weights]
    return {"weights": local(weights), "gradients": local(gradients), "averages": local(averages)}


def train(model: nn.Module, part: int = 0, of: int = 1, **how: Any) -> dict[str, Any]:
    """The losses, and the bytes held after the last step; the first two gradients are clipped."""
    parts = how.get("accumulate", 1)
    batches = lambda n: windows(n // parts, part=part + of * (n % parts), of=of * parts)  # noqa: E731
    return fitted(model, batches, language_model_loss, **how)


def fitted(model: nn.Module, batches: Any, loss: Any, **how: Any) -> dict[str, Any]:
    bytes_held: dict[str, int] = {}
    hook = register_optimizer_step_post_hook(lambda *given: bytes_held.update(held(given[0])))
    usual = {"steps": STEPS, "lr": 0.02, "max_norm": 0.4, "weight_decay": 0.1}
    losses = fit(model, batches, loss, **usual | how)
    hook.remove()
    return {"losses": losses, "bytes": bytes_held}


def translator(part: int = 0, of: int = 1, prepare: Callable[[Any], Any] = id) -> dict[str, Any]:
    """Recurrent, without a block."""
    model = a_translator()
    prepare(model)
    return fitted(model, lambda _: of_words(slice(part, None, of)), translation_loss)


def divided(model: nn.Module) -> nn.Module:
    shard(model, CPU)
    return model


def transposed(model: DecoderOnly) -> DecoderOnly:
    """With contiguous columns in one matrix, as `load_decoder` lays them out."""
    weight = model.body.blocks[1].feed_forward.linear1.weight
    weight.data = weight.data.T.contiguous().T
    return model


def in_parts(rank: int, place: Path) -> int:
    """One of two processes."""
    with process_group(CPU) as (*mine, _):
        found = {
            "whole": train(a_model(), *mine),
            "divided": train(divided(a_model(seed=rank)), *mine),  # the first one's values count
            "untied": train(divided(transposed(a_model(tie_embeddings=False))), *mine),
            "accumulated": train(divided(a_model()), *mine, accumulate=2),
            "bfloat16": train(divided(a_model()), *mine, precision="bfloat16"),
            "recurrent": translator(*mine, divided),
        }
    (place / f"{rank}.json").write_text(json.dumps(found))
    return 0


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    ended = end(fork(partial(in_parts, place=folder), folder / "process", count=2))
    sys.exit(max(ended) and (folder / "process-0.2").read_text())
