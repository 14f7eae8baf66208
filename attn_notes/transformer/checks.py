"""What must hold before a model reads: said once, for all that are built from the blocks."""

from collections.abc import Sized

from torch import Tensor

from attn_notes.transformer.config import TransformerConfig

__all__ = ["check_caches", "check_no_segments", "check_source", "check_step"]


def check_caches(caches: Sized | None, blocks: int, each: str) -> None:
    """Raise unless there is a cache for each block, or none at all.

    Args:
        caches: one or a pair for each block.
        blocks: how many there are.
        each: what a block has: "one" or "a pair".

    Raises:
        ValueError: another number of caches than of blocks.

    Example:
        >>> check_caches([None], 2, "one")
        Traceback (most recent call last):
        ValueError: caches must be one for each of the 2 blocks, got 1
    """
    if caches is not None and len(caches) != blocks:
        raise ValueError(
            f"caches must be {each} for each of the {blocks} blocks, got {len(caches)}"
        )


def check_no_segments(config: TransformerConfig) -> None:
    """Raise unless a model that is never told of segments has no vectors for them.

    Args:
        config: of the model.

    Raises:
        ValueError: a config with token types.

    Example:
        >>> check_no_segments(TransformerConfig(vocab_size=9, num_token_types=2))
        Traceback (most recent call last):
        ValueError: num_token_types must be 0 in a model that is told of no segments, got 2
    """
    if config.num_token_types:
        raise ValueError(
            "num_token_types must be 0 in a model that is told of no segments, got "
            f"{config.num_token_types}"
        )


def check_source(source: Tensor, lengths: Tensor) -> None:
    """Raise unless there is one length for each source.

    Args:
        source: (B, S), token ids.
        lengths: (B,).

    Raises:
        ValueError: other shapes.

    Example:
        >>> import torch
        >>> check_source(torch.tensor([[4, 5]]), torch.tensor([2, 2]))
        Traceback (most recent call last):
        ValueError: source and lengths must have shapes (B, S) and (B,), got (1, 2) and (2,)
    """
    if source.dim() != 2 or lengths.shape != source.shape[:1]:
        raise ValueError(
            "source and lengths must have shapes (B, S) and (B,), got "
            f"{tuple(source.shape)} and {tuple(lengths.shape)}"
        )


def check_step(tokens: Tensor, rows: int) -> None:
    """Raise unless there is one token for each row of the state.

    Args:
        tokens: (B,), the ids said last.
        rows: B, of the state.

    Raises:
        ValueError: another shape.

    Example:
        >>> import torch
        >>> check_step(torch.tensor([4, 5]), 3)
        Traceback (most recent call last):
        ValueError: tokens must have shape (B,), one for each row of the state, 3, got (2,)
    """
    if tokens.shape != (rows,):
        raise ValueError(
            f"tokens must have shape (B,), one for each row of the state, {rows}, "
            f"got {tuple(tokens.shape)}"
        )
