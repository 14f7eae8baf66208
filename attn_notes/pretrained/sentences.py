"""Sentences as vectors: the mean of an encoder's outputs (chapter 9)."""

import copy
from collections.abc import Sequence

import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional as F

from attn_notes.arguments import check_integers, check_mask
from attn_notes.data.text import check_texts
from attn_notes.modes import evaluating
from attn_notes.transformer import Encoder


def mean_pooling(x: Tensor, mask: Tensor) -> Tensor:
    """The mean vector (B, E) of each sequence of x (B, L, E), over its real tokens. Chapter 9.

    The mask (B, L) is `True` at a real token; no other counts, even NaN. 0 for a sequence without
    one.

    Example:
        >>> x = torch.tensor([[[1.0, 2.0], [3.0, 6.0], [9.0, 9.0]]])
        >>> mean_pooling(x, torch.tensor([[True, True, False]]))
        tensor([[2., 4.]])
    """
    check_mask(mask, x.shape[:-1], of="tokens")
    wide = torch.promote_types(x.dtype, torch.float32)
    total = x.masked_fill(~mask[..., None], 0).sum(dim=-2, dtype=wide)  # (B, E)
    return (total / mask.sum(dim=-1, keepdim=True).clamp(min=1)).to(x.dtype)


class SentenceEncoder:
    """Texts as vectors of length 1: normalised means (Reimers and Gurevych, 2019). Chapter 9.

    Encoder and tokenizer are as `load_encoder` gives them, and are not changed. A text has at most
    `max_length` tokens, special ones included.

    Example:
        >>> from attn_notes.pretrained import load_encoder, minilm_folder
        >>> sentences = SentenceEncoder(*load_encoder(minilm_folder()))
        >>> a, b, c = sentences.encode(["A cat sleeps.", "The kitten naps.", "Stocks fell."])
        >>> bool(a @ b > a @ c)
        True
    """

    def __init__(self, encoder: Encoder, tokenizer: Tokenizer, *, max_length: int = 256) -> None:
        least = tokenizer.num_special_tokens_to_add(is_pair=False) + 1
        check_integers(least, max_length=max_length)
        self.encoder, self.max_length = encoder, max_length
        self.tokenizer = copy.deepcopy(tokenizer)
        self.tokenizer.enable_padding()
        self.tokenizer.enable_truncation(max_length)

    def encode(self, texts: Sequence[str], *, batch_size: int = 32) -> Tensor:
        """The vector of each text, (N, E), on the encoder's device; 0 for a text without tokens."""
        check_texts(texts)
        weight = self.encoder.embeddings.tokens.weight
        vectors = [weight.new_zeros(0, self.encoder.config.embed_dim)]
        with evaluating(self.encoder):
            for first in range(0, len(texts), batch_size):
                rows = self.tokenizer.encode_batch(list(texts[first : first + batch_size]))
                both = [[row.ids, row.attention_mask] for row in rows]
                tokens, real = torch.tensor(both, dtype=torch.long, device=weight.device).unbind(1)
                read = self.encoder(tokens, attn_mask=real[:, None] > 0)
                vectors.append(mean_pooling(read.output, real > 0))  # (B, E)
        mean = torch.cat(vectors)  # (N, E)
        wide = torch.promote_types(mean.dtype, torch.float32)  # in 16 bits 0 is divided by 0
        return F.normalize(mean.to(wide), dim=-1).to(mean.dtype)
