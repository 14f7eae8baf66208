r"""Positions: what tells a model the order that attention itself does not see (chapter 6).

The sinusoid reads a position $i$ off $E/2$ clocks. Hand $j$ turns by $\omega_j=10000^{-2j/E}$ a
step, and the encoding is where the hands point: $p_{i,2j}=\sin(i\omega_j)$,
$p_{i,2j+1}=\cos(i\omega_j)$. Rotary encoding turns queries and keys by the same angles, so that
their score depends only on the distance; ALiBi subtracts the distance from the score. These three
have no last position: each is computed from any `offset` on. Learned positions are a finite table.
"""

import math
import operator
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from attn_notes.arguments import Device, check_integers, check_positive, shapes_of
from attn_notes.device import device_or_default
from attn_notes.masks import relative_positions

RotaryLayout = Literal["pairs", "halves"]


def clock_angles(
    length: int,
    width: int,
    *,
    offset: int = 0,
    base: float = 10000.0,
    scale: float | Sequence[float] = 1.0,
    device: Device = None,
) -> Tensor:
    r"""Where the hands of all clocks point: $\frac is\,b^{-2j/E}$ for hand j at position i.

    The arguments are those of `rotary_angles`, `width` for its `head_dim`. In float64: in float32
    the angles would be off by thousandths at position 100,000. (L, E/2) in radians, not reduced; on
    the CPU where the device has no float64.

    Example:
        >>> clock_angles(3, 4, offset=5).float()
        tensor([[5.0000, 0.0500],
                [6.0000, 0.0600],
                [7.0000, 0.0700]])
    """
    check_integers(0, length=length)
    scales = scale if isinstance(scale, Sequence) else [scale]
    check_positive(base=base, scale=min(scales))
    if width < 2 or width % 2:
        raise ValueError(f"the width must be even, 2 or more: features turn in pairs, got {width}")
    if len(scales) not in (1, width // 2):
        wanted = f"one number, or one for each of the {width // 2} hands"
        raise ValueError(f"the scale must be {wanted}, got {len(scales)}")
    home = "cpu" if device_or_default(device).type == "mps" else device
    positions = torch.arange(length, dtype=torch.float64, device=home) + offset
    frequencies = base ** -(torch.arange(0, width, 2, dtype=torch.float64, device=home) / width)
    slower = torch.tensor(scales, dtype=torch.float64, device=home)  # (1,) or (E/2,)
    return positions[:, None] / slower * frequencies


def sinusoidal_encoding(
    length: int,
    embed_dim: int,
    *,
    offset: int = 0,
    base: float = 10000.0,
    dtype: torch.dtype = torch.float32,
    device: Device = None,
) -> Tensor:
    r"""$p_{i,2j}=\sin(i\omega_j)$ and $p_{i,2j+1}=\cos(i\omega_j)$, with $\omega_j=b^{-2j/E}$.

    Vaswani et al. (2017), section 3.5; chapter 6. Every encoding has length $\sqrt{E/2}$, and the
    dot product of two, $\sum_j\cos((i-k)\,\omega_j)$, depends only on their distance.

    Args:
        length: L, the number of positions.
        embed_dim: E, which must be even.
        offset: the first position, negative too. With a cache it is the cached length.
        base: b, above 0. The slowest hand turns once in $2\pi b^{1-2/E}$ positions.
        dtype: of the result, floating point.
        device: of the result; torch's default by default.

    Returns:
        (L, E), from -1 to 1.

    Example:
        >>> sinusoidal_encoding(2, 4)
        tensor([[0.0000, 1.0000, 0.0000, 1.0000],
                [0.8415, 0.5403, 0.0100, 0.9999]])
    """
    if not dtype.is_floating_point:
        raise TypeError(f"dtype must be floating point, got {dtype}")
    angles = clock_angles(length, embed_dim, offset=offset, base=base, device=device)  # (L, E/2)
    pairs = torch.stack((angles.sin(), angles.cos()), dim=-1)  # (L, E/2, 2)
    return pairs.flatten(-2).to(device_or_default(device), dtype)  # (L, E)


def rotation_between(
    offset: int,
    embed_dim: int,
    *,
    base: float = 10000.0,
    dtype: torch.dtype = torch.float32,
    device: Device = None,
) -> Tensor:
    r"""The one matrix that carries every encoding $\delta$ positions on: $R\,p_i=p_{i+\delta}$.

    Vaswani et al. (2017), section 3.5; chapter 6. By the addition theorems hand j turns by
    $\delta\omega_j$ wherever it stands, as a clock's does, from (0, 1) to (1, 0); `apply_rotary`
    turns the other way. $\delta$ is the `offset`, negative for back; the other arguments are those
    of `sinusoidal_encoding`. (E, E), blocks of 2 × 2 along the diagonal.

    Example:
        >>> p = sinusoidal_encoding(1000, 16)
        >>> turned = p @ rotation_between(7, 16).T  # row i is R p[i]
        >>> torch.allclose(turned[:-7], p[7:], atol=1e-6)
        True
    """
    (angles,) = clock_angles(1, embed_dim, offset=offset, base=base, device=device)  # (E/2,)
    cos, sin = angles.cos(), angles.sin()
    blocks = torch.stack((cos, sin, -sin, cos), dim=-1).view(-1, 2, 2)  # (E/2, 2, 2)
    return torch.block_diag(*blocks).to(device_or_default(device), dtype)  # (E, E)


class SinusoidalEncoding(nn.Module):
    """Adds `sinusoidal_encoding` to a sequence: no parameters, no last position. Chapter 6."""

    def __init__(self, embed_dim: int) -> None:
        super().__init__()
        self.embed_dim = embed_dim

    def forward(self, x: Tensor, *, offset: int = 0) -> Tensor:
        """Add to each vector of x (..., L, E) the encoding of its position, from `offset` on."""
        L, E, dtype, device = x.shape[-2], self.embed_dim, x.dtype, x.device
        return x + sinusoidal_encoding(L, E, offset=offset, dtype=dtype, device=device)  # (L, E)


class LearnedEncoding(nn.Module):
    """Adds a learned vector for each position, up to a last one. Chapter 6.

    Gehring et al. (2017), Devlin et al. (2019). `weight` (max_length, E) begins as N(0, 1), and has
    the name and shape of `torch.nn.Embedding`'s. A position that training never reached keeps its
    random vector: nothing here extrapolates.

    Example:
        >>> LearnedEncoding(16, 4)(torch.zeros(1, 8, 4), offset=10)
        Traceback (most recent call last):
        ValueError: positions must be from 0 to max_length - 1 = 15, got offset = 10 and length = 8
    """

    def __init__(self, max_length: int, embed_dim: int) -> None:
        super().__init__()
        self.max_length = max_length
        weight = torch.empty(max_length, embed_dim, device=torch.get_default_device())
        self.weight = nn.Parameter(nn.init.normal_(weight))

    def forward(self, x: Tensor, *, offset: int = 0) -> Tensor:
        """Add to each vector of x (..., L, E) that of its position, from `offset` on."""
        L, last = x.shape[-2], self.max_length - 1
        if offset < 0 or offset + L > self.max_length:
            got = f"got offset = {offset} and length = {L}"
            raise ValueError(f"positions must be from 0 to max_length - 1 = {last}, {got}")
        return x + self.weight[offset : offset + L].to(x.dtype)  # (L, E), for every sequence


def rotary_angles(
    length: int,
    head_dim: int,
    *,
    offset: int = 0,
    base: float = 10000.0,
    scale: float | Sequence[float] = 1.0,
    dtype: torch.dtype = torch.float32,
    device: Device = None,
) -> Tensor:
    r"""By which angle `apply_rotary` turns pair j at position i: $\frac is\,b^{-2j/D}$.

    Su et al. (2024), section 3.2; chapter 6. The clocks of the sinusoid, with D for E, which must
    be even. (L, D/2), from 0 to 2π: whole turns are taken off in float64, so that float32 keeps its
    7 digits however late the position. The arguments are those of `sinusoidal_encoding`, and two
    ways to reach longer texts than were trained on: a larger base b slows the slow hands most
    (Xiong et al., 2024); the scale s divides positions, so that with s = 2 a text of twice the
    trained length stays within the trained angles (Chen et al., 2023). A scale may have D/2
    numbers, one for each pair: see `scale_by_turns`.

    Example:
        >>> rotary_angles(3, 4, offset=5)  # at position 7 the first hand is 0.7168 into a new turn
        tensor([[5.0000, 0.0500],
                [6.0000, 0.0600],
                [0.7168, 0.0700]])
    """
    angles = clock_angles(length, head_dim, offset=offset, base=base, scale=scale, device=device)
    angles = angles.remainder(2 * math.pi)  # (L, D/2)
    return angles.to(device_or_default(device), dtype)


def scale_by_turns(
    head_dim: int,
    *,
    base: float,
    factor: float,
    trained_length: int,
    turns: tuple[float, float] = (1.0, 4.0),
    ramp: Literal["turns", "hands"] = "turns",
) -> list[float]:
    r"""A `scale` for each hand, D/2 numbers, that slows only the slow hands down. Chapter 12.

    In `trained_length` positions L hand j has made $n_j=L\omega_j/2\pi$ turns. With fewer than the
    first of `turns` it has not shown all its angles: it is slowed by the `factor`, as by the scale
    of `rotary_angles`. With more than the second it has shown each of them often, and tells near
    positions apart: it keeps its speed. Of the hands between, a share keeps it that grows from 0 to
    1, evenly in the turns (Peng et al., 2024, section 3.2; Llama 3.1), or from hand to hand, from a
    whole one to a whole one (YaRN as in the `transformers` library).

    Example:
        >>> scale = scale_by_turns(8, base=10000.0, factor=8.0, trained_length=100)
        >>> [round(hand, 2) for hand in scale]
        [1.0, 3.36, 8.0, 8.0]
    """
    (speeds,) = clock_angles(1, head_dim, offset=1, base=base, device="cpu")  # (D/2,)
    few, many = turns
    if not 0 < few < many:
        raise ValueError(f"turns must be two numbers above 0, the smaller first, got {turns}")
    kept = (trained_length * speeds / (2 * math.pi) - few) / (many - few)
    if ramp == "hands":
        hands = [math.log(trained_length / (2 * math.pi * n), base) for n in (many, few)]
        first, last = (head_dim / 2 * hand for hand in hands)  # that turn so often
        first, last = max(math.floor(first), 0), min(math.ceil(last), head_dim - 1)
        kept = 1 - (torch.arange(len(speeds), device="cpu") - first) / ((last - first) or 0.001)
    kept = kept.double().clamp(0, 1)
    return (1 / (kept + (1 - kept) / factor)).tolist()


def apply_rotary(
    x: Tensor, angles: Tensor, *, layout: RotaryLayout = "pairs"
) -> Tensor:  # fmt: skip
    r"""Turn each pair: $(a,b)\mapsto(a\cos\theta-b\sin\theta,\;a\sin\theta+b\cos\theta)$.

    Su et al. (2024), section 3.2; chapter 6. A turn keeps lengths, and its transpose turns back, so
    the score of a turned query and a turned key depends only on their distance:
    $(R_iq)^\top(R_jk)=q^\top R_i^\top R_j\,k=q^\top R_{j-i}\,k$. Values are not turned.
    `MultiHeadAttention` takes it as `rotary=partial(apply_rotary, angles=angles)`.

    Args:
        x: (..., L, D), queries or keys, split into heads.
        angles: (L, D/2), from `rotary_angles`.
        layout: which features are pair j. "pairs": 2j and 2j + 1, as in the paper and in the
            sinusoid. "halves": j and j + D/2, as the `transformers` library has Llama's weights.

    Example:
        >>> x = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
        >>> apply_rotary(x, rotary_angles(2, 2))
        tensor([[1.0000, 0.0000],
                [0.5403, 0.8415]])
    """
    check_rotary(x, angles, layout)
    n = angles.shape[1]  # pairs
    split, axis = ((n, 2), -1) if layout == "pairs" else ((2, n), -2)
    a, b = x.reshape(*x.shape[:-1], *split).unbind(axis)  # (..., L, D/2) each
    cos, sin = angles.cos(), angles.sin()  # (L, D/2), for every head
    turned = torch.stack((a * cos - b * sin, a * sin + b * cos), dim=axis)
    return turned.flatten(-2).to(x.dtype)  # (..., L, D)


def check_rotary(x: Tensor, angles: Tensor, layout: str) -> None:
    """Raise unless x (..., L, D), angles (L, D/2) and a known layout of pairs fit."""
    L, n = angles.shape if angles.ndim == 2 else (-1, -1)
    if x.shape[-2:] != (L, 2 * n):
        must = "x and angles must have shapes (..., L, D) and (L, D/2)"
        raise ValueError(f"{must}, got {shapes_of(x=x, angles=angles)}")
    if layout not in ("pairs", "halves"):
        raise ValueError(f"layout must be pairs or halves, got {layout!r}")


def alibi_slopes(
    num_heads: int, *, dtype: torch.dtype = torch.float32, device: Device = None
) -> Tensor:
    """How steeply each head's bias falls with the distance: $2^{-8(h+1)/H}$ for head h from 0 on.

    Press et al. (2022), section 3; chapter 6. For an H that is not a power of two: the slopes of
    the next lower power n, then those still missing from half-way between, $2^{-8(h+1/2)/n}$.

    Example:
        >>> alibi_slopes(4)
        tensor([0.2500, 0.0625, 0.0156, 0.0039])
    """
    check_integers(1, num_heads=num_heads)
    n = 1 << (operator.index(num_heads).bit_length() - 1)  # the power of two up to H
    steps = [*range(1, n + 1), *(h + 0.5 for h in range(num_heads - n))]
    return torch.tensor([2 ** (-8 * step / n) for step in steps], dtype=dtype, device=device)


def alibi_bias(
    num_heads: int,
    L: int,
    S: int | None = None,
    *,
    offset: int = 0,
    dtype: torch.dtype = torch.float32,
    device: Device = None,
) -> Tensor:
    r"""Attention with linear biases: minus the distance from query to key, times the head's slope.

    $b_{h,i,j}=-m_h\,\lvert i+\delta-j\rvert$: (H, L, S), 0 where a query meets its own position.
    Press et al. (2022), section 3; chapter 6. Added to the scores it multiplies a weight by
    $e^{-m_h}$ for each step away. Hand it to attention as `attn_bias`; it goes together with any
    mask. $\delta$ is the `offset`, the position of the first query, as in `causal_mask`.

    Example:
        >>> alibi_bias(8, L=1, S=4, offset=3)[0]  # head 0, one query after three cached keys
        tensor([[-1.5000, -1.0000, -0.5000,  0.0000]])
    """
    wide = torch.promote_types(dtype, torch.float32)  # float16 has no 2049
    slopes = alibi_slopes(num_heads, dtype=wide, device=device)  # (H,)
    distance = relative_positions(L, S, offset=offset, device=device).abs()
    return (slopes[:, None, None] * -distance).to(dtype)  # (H, L, S)
