"""What is asked of the encoder's blocks: the next token, or a hidden one (chapter 8).

Both models are an `Encoder` with a map to the vocabulary on top. Under a causal mask it says
what comes next, as GPT does; without one, what stands where a token was hidden, as BERT does.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from attn_notes.cache import KVCache
from attn_notes.data import SpecialTokens
from attn_notes.positions import LearnedEncoding
from attn_notes.transformer.blocks import ACTIVATIONS
from attn_notes.transformer.checks import check_no_segments, check_source, check_step
from attn_notes.transformer.config import TransformerConfig
from attn_notes.transformer.decoder import join_weights
from attn_notes.transformer.encoder import Encoder

__all__ = ["DecoderOnly", "DecoderOnlyState", "LanguageModelOutput", "MaskedLanguageModel"]

STD = 0.02  # of the first weights: Radford et al. (2018), and the code of Devlin et al. (2019)
WRITERS = ("self_attn.out_proj.weight", "feed_forward.linear2.weight")  # to the residual stream


class LanguageModelOutput(NamedTuple):
    """What `DecoderOnly` and `MaskedLanguageModel` give."""

    logits: Tensor
    """(B, L, V): of the token that follows, or of the one that stands there."""
    hidden_states: tuple[Tensor, ...] | None
    """The residual stream (B, L, E) before the first block and after each, if asked for."""
    weights: tuple[Tensor, ...] | None
    """The attention weights of each block, (B, H, L, all keys), if asked for."""


@dataclass(frozen=True)
class DecoderOnlyState:
    """What a `DecoderOnly` remembers between two steps. A step leaves the old state as it was."""

    logits: Tensor
    """Of the token that follows what has been read, (B, V)."""
    caches: tuple[KVCache, ...]
    """The keys and values of each block."""
    begun: bool = False
    """Whether a step has been made: the first one says what follows the prompt."""
    weights: tuple[Tensor, ...] | None = None
    """Of each block, over all that has been read (B, H, L, L), if `start` was asked for them."""

    def select(self, index: Tensor) -> "DecoderOnlyState":
        """The state whose row n is this one's row `index[n]`: how a beam reorders hypotheses.

        Args:
            index: (B',), rows of this state, any of them more than once.

        Returns:
            A new state.
        """
        return DecoderOnlyState(
            self.logits[index],
            tuple(cache.select(index) for cache in self.caches),
            self.begun,
            None if self.weights is None else tuple(each[index] for each in self.weights),
        )


class DecoderOnly(nn.Module):
    r"""From the tokens so far, the next one, at every position at once. Chapter 8.

    Radford et al. (2018, 2019). The blocks are the encoder's, and all that keeps a position from
    what it is to predict is one causal mask: there is nothing to read but the sequence itself, so
    the decoder's attention to a memory has gone. With pre-norm, learned positions, `gelu_tanh` and
    tied embeddings it is GPT-2, and it begins as GPT-2 does: weights from N(0, 0.02²), those that
    write to the residual stream divided by $\sqrt{2N}$ for N blocks, biases 0.

    Args:
        config: of the embeddings and of every block.

    Raises:
        ValueError: a config with token types.

    Example:
        >>> model = DecoderOnly(TransformerConfig(vocab_size=100, embed_dim=8, norm="pre"))
        >>> logits, _, weights = model(torch.tensor([[5, 6, 7]]), need_weights=True)
        >>> logits.shape, bool(weights[0].triu(1).any())
        (torch.Size([1, 3, 100]), False)
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        check_no_segments(config)
        self.config = config
        self.special_tokens = SpecialTokens()  # a published model has others
        self.body = Encoder(config)
        self.out_proj = nn.Linear(config.embed_dim, config.vocab_size, bias=False)
        if config.tie_embeddings:
            self.out_proj.weight = self.body.embeddings.tokens.weight
        _initialise(self)
        with torch.no_grad():
            for name, weight in self.named_parameters():
                if name.endswith(WRITERS):
                    weight.div_((2 * config.num_layers) ** 0.5)

    def forward(
        self,
        tokens: Tensor,
        *,
        caches: tuple[KVCache, ...] | None = None,
        need_weights: bool = False,
        need_hidden_states: bool = False,
    ) -> LanguageModelOutput:
        """Predict each next token. Padding on the right needs no mask: nothing real reads it.

        Args:
            tokens: (B, L), ids from 0 to V - 1.
            caches: one for each block; the tokens stand after what is held, and are appended to
                it.
            need_weights: whether to return the weights of every block too.
            need_hidden_states: whether to return what every block received and gave too.

        Returns:
            Logits (B, L, V), those at i predicting token i + 1, and what was asked for.

        Raises:
            ValueError: shapes or caches that do not fit, more tokens than learned positions
                reach, or weights asked of the fused backend.
        """
        read = self.body(
            tokens,
            is_causal=True,  # in training, in evaluation and with a cache: one rule
            caches=caches,
            need_weights=need_weights,
            need_hidden_states=need_hidden_states,
        )
        return LanguageModelOutput(self.out_proj(read.output), read.hidden_states, read.weights)

    def start(
        self, source: Tensor, lengths: Tensor, *, need_weights: bool = False
    ) -> DecoderOnlyState:
        """Read a prompt, all of it at once. What is decoded from here on continues it.

        Args:
            source: (B, S), token ids, S at least 1.
            lengths: (B,), S for each: padding would stand between a prompt and what follows it.
            need_weights: whether this state and those that follow keep the weights.

        Returns:
            The state before the first step.

        Raises:
            ValueError: shapes that do not fit, an empty prompt, prompts of several lengths, or
                weights asked of the fused backend.
        """
        _check_prompts(source, lengths)
        caches = tuple(KVCache() for _ in self.body.blocks)
        read = self.body(source, is_causal=True, caches=caches, need_weights=need_weights)
        # Logits of the last position alone: what follows the others is in the prompt.
        return DecoderOnlyState(self.out_proj(read.output[:, -1]), caches, weights=read.weights)

    def step(self, tokens: Tensor, state: DecoderOnlyState) -> tuple[Tensor, DecoderOnlyState]:
        """One token more: what `forward` says at this position, at the cost of one position.

        Args:
            tokens: (B,), the ids said last. At the first step nothing has been said: what follows
                the prompt is known already, and START, or whatever stands here, is not read.
            state: before the step.

        Returns:
            Logits of the next token (B, V), and the state after the step.

        Raises:
            ValueError: another number of tokens than of rows, or a step beyond the last of learned
                positions.
        """
        check_step(tokens, len(state.logits))
        if not state.begun:
            return state.logits, DecoderOnlyState(state.logits, state.caches, True, state.weights)
        caches = tuple(cache.fork() for cache in state.caches)
        read = self(tokens[:, None], caches=caches, need_weights=state.weights is not None)
        logits, weights = read.logits[:, 0], None
        if state.weights is not None and read.weights is not None:
            weights = join_weights(state.weights, read.weights)
        return logits, DecoderOnlyState(logits, caches, True, weights)


class MaskedLanguageModel(nn.Module):
    """From the tokens on both sides, the one that stands where it was hidden. Chapter 8.

    Devlin et al. (2019): the encoder, one layer of its own, and a map to the vocabulary. It begins
    as BERT does: weights from N(0, 0.02²), biases 0.

    Args:
        config: of the embeddings and of every block; its `activation` is that of the extra layer
            too.

    Example:
        >>> model = MaskedLanguageModel(TransformerConfig(vocab_size=100, embed_dim=8))
        >>> model(torch.tensor([[5, 3, 7]])).logits.shape
        torch.Size([1, 3, 100])
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.body = Encoder(config)
        self.transform = nn.Linear(config.embed_dim, config.embed_dim)
        self.activation = ACTIVATIONS[config.activation]
        self.norm = nn.LayerNorm(config.embed_dim, config.layer_norm_eps)
        self.out_proj = nn.Linear(config.embed_dim, config.vocab_size)
        if config.tie_embeddings:
            self.out_proj.weight = self.body.embeddings.tokens.weight
        _initialise(self)

    def forward(
        self,
        tokens: Tensor,
        token_types: Tensor | None = None,
        *,
        attn_mask: Tensor | None = None,
        need_weights: bool = False,
        need_hidden_states: bool = False,
    ) -> LanguageModelOutput:
        """Predict the token at each position, from all of them.

        Args:
            tokens: (B, L), ids from 0 to V - 1, some of them hidden behind another id.
            token_types: (B, L), ids of segments; all 0 by default.
            attn_mask: bool, `True` = may attend, such as `padding_mask(lengths, L)`.
            need_weights: whether to return the weights of every block too.
            need_hidden_states: whether to return what every block received and gave too.

        Returns:
            Logits (B, L, V), those at i predicting token i, and what was asked for.

        Raises:
            TypeError: a mask that is not bool.
            ValueError: shapes that do not fit, or weights asked of the fused backend.
        """
        read = self.body(
            tokens,
            token_types,
            attn_mask=attn_mask,
            need_weights=need_weights,
            need_hidden_states=need_hidden_states,
        )
        x = self.norm(self.activation(self.transform(read.output)))  # (B, L, E)
        return LanguageModelOutput(self.out_proj(x), read.hidden_states, read.weights)


def _initialise(model: nn.Module) -> None:
    """Draw the parameters, but for the norms, which begin as 1 and 0."""
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding | LearnedEncoding):
            nn.init.normal_(module.weight, std=STD)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)


def _check_prompts(source: Tensor, lengths: Tensor) -> None:
    """Raise unless every row is a prompt, and all of them equally long."""
    check_source(source, lengths)
    if not source.shape[1] or bool((lengths != source.shape[1]).any()):
        raise ValueError(
            "prompts must have one length, 1 or more, and no padding, got "
            f"source {tuple(source.shape)} and lengths {lengths.tolist()}"
        )
