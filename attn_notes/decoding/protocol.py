"""The interface for decoding, one for every model of the book (chapter 4)."""

from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from attn_notes.arguments import check_shapes, check_tensors


class State(Protocol):
    """What a model keeps between two steps, a row for each sequence."""

    def select(self, index: Tensor) -> "State":
        """A new state whose row n is this state's row `index[n]`; `index` has shape (B',)."""


class Decodable(Protocol):
    """The interface for decoding. The model alone knows its START token.

    A model may carry `special_tokens`, a `SpecialTokens`, where its ids are not those of the book.
    """

    def start(self, source: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Any]:
        """Read the source (B, S), or a prompt; lengths (B,) of them are real, by default S.

        Gives the logits of the first token (B, V), and the state.
        """

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Append one token (B,): logits of the next (B, V), and a new state; the old one stays."""


class Decoded(NamedTuple):
    """Decoded sequences and their log-probabilities."""

    tokens: Tensor  # (B, T), ids up to END, then PAD; no END where the length ran out
    log_probs: Tensor  # (B,), the sum over the tokens of log p(token | those before it, source)
    state: Any  # before the last token, from `torch.inference_mode`: without gradients


def check_source(source: Tensor, lengths: Tensor | None) -> Tensor:
    """Raise unless there is one length per source (B, S); return the lengths, S by default."""
    if lengths is None:
        check_shapes(source=(source, "B S"))
        return torch.full(source.shape[:1], source.shape[1], device=source.device)
    check_shapes(source=(source, "B S"), lengths=(lengths, "B"))
    return lengths


def check_step(tokens: Tensor, rows: int) -> None:
    """Raise unless there is one token for each row of the state."""
    check_tensors(tokens=tokens)
    if tokens.shape != (rows,):
        wanted = f"tokens must have shape (B,), one for each row of the state, {rows}"
        raise ValueError(f"{wanted}, got {tuple(tokens.shape)}")
