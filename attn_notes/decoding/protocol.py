"""What a model must be able to do to be decoded, and what comes of it (chapter 4)."""

from typing import Any, NamedTuple, Protocol

from torch import Tensor

__all__ = ["Decodable", "Decoded", "State"]


class State(Protocol):
    """What a model remembers between two steps, a row for each sequence."""

    def select(self, index: Tensor) -> "State":
        """The state whose row n is this one's row `index[n]`.

        Args:
            index: (B',), rows of this state, any of them more than once.

        Returns:
            A new state; this one is not changed.
        """


class Decodable(Protocol):
    """What a model must be able to do to be decoded.

    It may carry `special_tokens`, a `SpecialTokens`, where its ids are not those of the book.
    """

    def start(self, source: Tensor, lengths: Tensor) -> Any:
        """Read the source.

        Args:
            source: (B, S), token ids; of a model without an encoder, the prompt.
            lengths: (B,), how many of them are real.

        Returns:
            The state before the first step.
        """

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Say one token more.

        Args:
            tokens: (B,), the ids said last; START at first.
            state: from `start`, or from the step before.

        Returns:
            Logits of the next token (B, V), and the state after it.
        """


class Decoded(NamedTuple):
    """What was said, and how the model came to it."""

    tokens: Tensor
    """Ids up to END, then PAD, (B, T); no END where the longest length was reached."""
    log_probs: Tensor
    """The sum over the tokens of log p(token | those before it, source), (B,)."""
    state: Any
    """The state after the last step; of a recurrent model, `state.weights` is (B, T, S).

    Its tensors were made in `torch.inference_mode`, and no gradient flows from or through them."""
