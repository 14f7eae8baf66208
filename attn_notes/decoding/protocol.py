"""The interface for decoding, one for every model of the book (chapter 4)."""

from typing import Any, NamedTuple, Protocol

from torch import Tensor


class Decodable(Protocol):
    """The interface for decoding. The model alone knows its START token.

    The state has a row for each sequence; row n of `state.select(index)` is its row `index[n]`. A
    model may carry `special_tokens`, a `SpecialTokens`, where its ids are not those of the book.
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
