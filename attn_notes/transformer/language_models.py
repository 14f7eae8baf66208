"""Language models on the encoder's blocks: the next token, or a masked one (chapter 9).

Both models are an `Encoder` with an output projection to the vocabulary. Under a causal mask it
predicts the next token, as in GPT; without one, the token that was masked, as in BERT.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from attn_notes.arguments import check_source, check_step
from attn_notes.cache import GrowingCache, KVCache
from attn_notes.positions import LearnedEncoding
from attn_notes.special_tokens import SpecialTokens
from attn_notes.transformer.blocks import ACTIVATIONS, make_norm
from attn_notes.transformer.config import TransformerConfig
from attn_notes.transformer.encoder import Encoder

STD = 0.02  # of the first weights: Radford et al. (2018), and the code of Devlin et al. (2019)
RESIDUAL_WEIGHTS = ("self_attn.out_proj.weight", "linear2.weight", "down_proj.weight")


class LanguageModelOutput(NamedTuple):
    """The output of `DecoderOnly` and `MaskedLanguageModel`; two and three as in `Encoder`."""

    logits: Tensor  # (B, L, V), of the next token, or of the masked one
    hidden_states: tuple[Tensor, ...] | None
    weights: tuple[Tensor, ...] | None


@dataclass(frozen=True)
class DecoderOnlyState:
    """What a `DecoderOnly` keeps between two steps. A step leaves the old state unchanged."""

    caches: tuple[KVCache, ...]  # keys and values of each block

    def select(self, index: Tensor) -> "DecoderOnlyState":
        """A new state whose row n is this state's row `index[n]`; `index` has shape (B',)."""
        return DecoderOnlyState(tuple(cache.select(index) for cache in self.caches))


class DecoderOnly(nn.Module):
    r"""From the tokens so far, the next one, at every position at once. Chapter 9.

    Radford et al. (2018, 2019). The blocks are the encoder's under a causal mask; with nothing to
    read but the sequence itself, there is no cross-attention. With pre-norm, learned positions,
    `gelu_tanh` and tied embeddings it is GPT-2, and it is initialised like GPT-2: weights from N(0,
    0.02²), those that write to the residual stream divided by $\sqrt{2N}$ for N blocks, biases 0.

    Example:
        >>> model = DecoderOnly(TransformerConfig(vocab_size=100, embed_dim=8, norm="pre"))
        >>> logits, _, weights = model(torch.tensor([[5, 6, 7]]), need_weights=True)
        >>> logits.shape, bool(weights[0].triu(1).any())
        (torch.Size([1, 3, 100]), False)
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        check_no_token_types(config)
        self.config = config
        self.special_tokens = SpecialTokens()  # a published model has others
        self.body = Encoder(config)
        self.out_proj = nn.Linear(config.embed_dim, config.vocab_size, bias=False)
        if config.tie_embeddings:
            self.out_proj.weight = self.body.embeddings.tokens.weight
        _initialise(self)
        with torch.no_grad():
            for name, weight in self.named_parameters():
                if name.endswith(RESIDUAL_WEIGHTS):
                    weight.div_((2 * config.num_layers) ** 0.5)

    def forward(
        self,
        tokens: Tensor,
        *,
        caches: tuple[KVCache, ...] | None = None,
        need_weights: bool = False,
        need_hidden_states: bool = False,
    ) -> LanguageModelOutput:
        """Predict each next token of tokens (B, L): the logits at i are those of token i + 1.

        Padding on the right needs no mask: no real token reads it. The others are as in `Encoder`.
        """
        read = self.body(
            tokens,
            is_causal=True,  # in training, in evaluation and with a cache
            caches=caches,
            need_weights=need_weights,
            need_hidden_states=need_hidden_states,
        )
        logits = self.out_proj(read.output)  # (B, L, V)
        return LanguageModelOutput(logits, read.hidden_states, read.weights)

    def start(
        self, source: Tensor, lengths: Tensor | None = None
    ) -> tuple[Tensor, DecoderOnlyState]:
        """Read prompts (B, S) in one pass: logits (B, V) of the next token, and the state.

        The lengths, if given, are all S: padding would separate a prompt from its continuation.
        """
        all_lengths = check_source(source, lengths)
        padded = lengths is not None and bool((lengths != source.shape[1]).any())
        if padded or not source.shape[1]:
            got = f"source {tuple(source.shape)} and lengths {all_lengths.tolist()}"
            wanted = "the same length, 1 or more, and no padding"
            raise ValueError(f"prompts must have {wanted}, got {got}")
        caches = tuple(GrowingCache() for _ in self.body.blocks)
        read = self.body(source, is_causal=True, caches=caches)
        return self.out_proj(read.output[:, -1]), DecoderOnlyState(caches)

    def step(self, tokens: Tensor, state: DecoderOnlyState) -> tuple[Tensor, DecoderOnlyState]:
        """Append one token (B,): logits of the next (B, V), for the cost of one position."""
        held = state.caches[0].keys
        check_step(tokens, 0 if held is None else len(held))
        caches = tuple(cache.fork() for cache in state.caches)
        return self(tokens[:, None], caches=caches).logits[:, 0], DecoderOnlyState(caches)


class MaskedLanguageModel(nn.Module):
    """From the tokens on both sides, the one that was masked. Chapter 9.

    Devlin et al. (2019): the encoder, one layer of its own with the config's `activation`, and an
    output projection to the vocabulary. It is initialised like BERT: weights from N(0, 0.02²),
    biases 0.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.body = Encoder(config)
        self.transform = nn.Linear(config.embed_dim, config.embed_dim)
        self.activation = ACTIVATIONS[config.activation]
        self.norm = make_norm(config)
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
        """Predict each token of tokens (B, L), some of them masked, from all; as in `Encoder`."""
        read = self.body(
            tokens,
            token_types,
            attn_mask=attn_mask,
            need_weights=need_weights,
            need_hidden_states=need_hidden_states,
        )
        x = self.activation(self.transform(read.output))  # (B, L, E)
        logits = self.out_proj(self.norm(x))  # (B, L, V)
        return LanguageModelOutput(logits, read.hidden_states, read.weights)


def check_no_token_types(config: TransformerConfig) -> None:
    """Raise if the config of a model that generates text has token types."""
    if config.num_token_types:
        got = config.num_token_types
        raise ValueError(f"num_token_types must be 0 in a model that generates text, got {got}")


def _initialise(model: nn.Module) -> None:
    """Draw all parameters but those of the norms, which begin as 1 and 0."""
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding | LearnedEncoding):
            nn.init.normal_(module.weight, std=STD)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
