"""Sentences as vectors: what an encoder gives, averaged (chapter 8)."""

import copy
import re
from collections.abc import Sequence

import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional as F

from attn_notes.arguments import check_integers
from attn_notes.data.text import check_texts
from attn_notes.decoding.generate import evaluating
from attn_notes.masks import padding_mask
from attn_notes.pretrained.folders import check_ids
from attn_notes.transformer import Encoder

__all__ = ["SentenceEncoder", "mean_pooling"]


def mean_pooling(x: Tensor, mask: Tensor) -> Tensor:
    """The mean vector of each sequence, over its real tokens. Chapter 8.

    Reimers and Gurevych (2019), section 3.

    Args:
        x: (B, L, E), one vector a token. What stands where `mask` is False does not count, not
            even if it is NaN.
        mask: bool (B, L), `True` = a real token.

    Returns:
        (B, E); 0 for a sequence without a real token.

    Raises:
        TypeError: a mask that is not bool.
        ValueError: shapes that do not fit.

    Example:
        >>> x = torch.tensor([[[1.0, 2.0], [3.0, 6.0], [9.0, 9.0]]])
        >>> mean_pooling(x, torch.tensor([[True, True, False]]))
        tensor([[2., 4.]])
    """
    if mask.dtype != torch.bool:
        raise TypeError(f"mask must be bool, True = a real token, got {mask.dtype}")
    if x.dim() != 3 or mask.shape != x.shape[:2]:
        raise ValueError(
            "x and mask must have shapes (B, L, E) and (B, L), got "
            f"{tuple(x.shape)} and {tuple(mask.shape)}"
        )
    wide = torch.promote_types(x.dtype, torch.float32)
    total = x.masked_fill(~mask[..., None], 0).sum(dim=1, dtype=wide)  # (B, E)
    return (total / mask.sum(dim=1, keepdim=True).clamp(min=1)).to(x.dtype)


class SentenceEncoder:
    """Texts to vectors of length 1, whose dot product is the cosine of two texts. Chapter 8.

    Reimers and Gurevych (2019): the mean of what the encoder gives for the tokens of a text,
    divided by its length.

    Args:
        encoder: such as `load_encoder` gives, on any device.
        tokenizer: its own. It stays as it is.
        max_length: how many tokens of a text are read, the tokenizer's own marks included; what
            comes after them is cut off.

    Raises:
        TypeError: a `max_length` that is not an integer.
        ValueError: a `max_length` that is beyond the encoder's positions, or leaves no room beside
            the marks; a tokenizer with ids that have no embedding.

    Example:
        >>> from attn_notes.pretrained import load_encoder, minilm_folder
        >>> sentences = SentenceEncoder(*load_encoder(minilm_folder()))
        >>> a, b, c = sentences.encode(["A cat sleeps.", "The kitten naps.", "Stocks fell."])
        >>> bool(a @ b > a @ c)
        True
    """

    def __init__(self, encoder: Encoder, tokenizer: Tokenizer, *, max_length: int = 256) -> None:
        check_integers(max_length=max_length)
        marks = tokenizer.num_special_tokens_to_add(is_pair=False)
        if max_length <= marks:
            raise ValueError(
                f"max_length must be above {marks}, the tokenizer's own marks, got {max_length}"
            )
        config = encoder.config
        if config.positions == "learned" and max_length > config.max_length:
            raise ValueError(
                f"max_length must be at most the encoder's, {config.max_length}, got {max_length}"
            )
        check_ids(tokenizer, config.vocab_size, "tokenizer")
        self.encoder, self.max_length = encoder, max_length
        self.tokenizer = copy.deepcopy(tokenizer)
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(max_length)

    def encode(self, texts: Sequence[str], *, batch_size: int = 32) -> Tensor:
        """The vector of each text. The encoder reads in evaluation mode, and keeps its own.

        Args:
            texts: N of them, each as long as it likes.
            batch_size: how many the encoder reads at once: those of like length together.

        Returns:
            (N, E), in the order of the texts, on the device of the encoder. A text without a token
            is the vector 0.

        Raises:
            TypeError: one string in place of a list, something else than strings in it, or a batch
                size that is not an integer.
            ValueError: a batch size below 1, or half a character, a lone surrogate, in a text.
        """
        ids = self._token_ids(texts)
        check_integers(1, batch_size=batch_size)
        by_length = sorted(range(len(ids)), key=lambda n: len(ids[n]))
        weight = self.encoder.embeddings.tokens.weight
        vectors = weight.new_zeros(len(ids), self.encoder.config.embed_dim)
        with evaluating(self.encoder):
            for first in range(0, len(ids), batch_size):
                rows = by_length[first : first + batch_size]
                vectors[rows] = self._vectors([ids[n] for n in rows], weight.device)
        return vectors

    def _token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, once all of them are known to be texts."""
        texts = texts if isinstance(texts, str) else list(texts)
        check_texts(texts)
        for n, text in enumerate(texts):
            if half := re.search("[\ud800-\udfff]", text):  # UTF-8, and so the tokenizer, has none
                code = f"U+{ord(half[0]):X}"
                raise ValueError(f"texts must hold whole characters, got {code} in place {n}")
        return [self.tokenizer.encode(text).ids for text in texts]

    def _vectors(self, ids: list[list[int]], device: torch.device) -> Tensor:
        """One batch, (B, E)."""
        lengths = [len(row) for row in ids]
        longest = max(1, *lengths)
        padded = [row + [0] * (longest - len(row)) for row in ids]  # which id is no matter
        mask = padding_mask(lengths, longest, device=device)  # (B, 1, L)
        read = self.encoder(torch.tensor(padded, device=device), attn_mask=mask)
        mean = mean_pooling(read.output, mask[:, 0])  # (B, E)
        wide = torch.promote_types(mean.dtype, torch.float32)  # in 16 bits 0 is divided by 0
        return F.normalize(mean.to(wide), dim=-1).to(mean.dtype)
