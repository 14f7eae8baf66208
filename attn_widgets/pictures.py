"""A picture that a model has cut into patches, as the head explorer shows it."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from attn_widgets import encoding

LARGEST = 224  # pixels from side to side that are shown


def as_pixels(image: Any) -> Tensor:
    """A picture as numbers from 0 to 1, (height, width, 3): of PIL, or an array or tensor.

    It may be grey, (height, width), or begin with its channels, and hold whole numbers up to 255.
    """
    if hasattr(image, "convert"):  # PIL's
        image = image.convert("RGB")
        flat = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
        return flat.view(image.height, image.width, 3).float() / 255
    pixels = torch.as_tensor(image, device="cpu").detach()
    whole = not pixels.is_floating_point()
    if pixels.dim() == 2:
        pixels = pixels[None]
    if pixels.dim() == 3 and pixels.shape[0] in (1, 3):
        pixels = pixels.permute(1, 2, 0)  # channels last
    if pixels.dim() != 3 or pixels.shape[-1] not in (1, 3):
        wanted = "a picture (height, width), (height, width, 3) or (3, height, width)"
        raise ValueError(f"image must be {wanted}, got shape {tuple(pixels.shape)}")
    pixels = pixels.float() / (255 if whole else 1)
    return encoding.check_weights("image", pixels.expand(*pixels.shape[:2], 3))


def as_seen(pixels: Tensor, processor: Any) -> Tensor:
    """What a model was given, (C, height, width), back on the scale from 0 to 1 of a picture."""
    mean, std = (getattr(processor, f"image_{name}", None) for name in ("mean", "std"))
    if mean is not None and std is not None and getattr(processor, "do_normalize", True):
        mean, std = (torch.tensor(x, device="cpu").view(-1, 1, 1) for x in (mean, std))
        return (pixels.float() * std + mean).clamp(0, 1)
    low, high = pixels.float().aminmax()
    return (pixels.float() - low) / (high - low).clamp(min=1e-6)


def encode_picture(image: Any) -> dict[str, Any]:
    """The pixels (height, width, 3) in 8 bits each, of a large picture fewer."""
    pixels = as_pixels(image)
    shrink = LARGEST / max(pixels.shape[:2])
    if shrink < 1:
        size = [max(1, round(shrink * n)) for n in pixels.shape[:2]]
        pixels = F.interpolate(pixels.permute(2, 0, 1)[None], size, mode="area")[0]
        pixels = pixels.permute(1, 2, 0)
    return encoding.encode(pixels, bits=8)


def patch_names(L: int, grid: Sequence[int]) -> tuple[list[str], int]:
    """What L tokens are called, "row,column" of a patch, and how many stand before the patches."""
    rows, columns = grid
    first = L - rows * columns
    if rows < 1 or columns < 1 or first < 0:
        raise ValueError(f"grid must have at most the {L} places that are read, got {tuple(grid)}")
    before = ["[CLS]", *(f"[{n}]" for n in range(1, first))][:first]
    return [
        *before,
        *(f"{row},{column}" for row in range(rows) for column in range(columns)),
    ], first
