r"""A state instead of a cache: attention whose past has a fixed size (chapter 13).

A state $\mathbf S$ (..., D, Dv) holds what was written; a query reads $\mathbf S^\top\mathbf q$.
The recurrences are the definitions. The forms in chunks give the same numbers by fewer, larger
products: a chunk of one token is the recurrence, one chunk for all tokens is a table of weights.
Each returns its output and the state after the last token, from which a later call goes on. All
compute in at least 32 bits. Queries and keys are (..., L, D) and values (..., L, Dv). A `beta` or
`gate` is (L,) or (..., L), from 0 to 1; this is not checked, as reading it would make a GPU wait.
"""

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

import torch
from torch import Tensor

from attn_notes.arguments import (
    check_attention,
    check_bool,
    check_broadcast,
    check_floating,
    check_integers,
    check_tensors,
    shapes_of,
)
from attn_notes.modes import full_precision

Memory = tuple[Tensor, Tensor]  # an output (..., L, Dv), and the state (..., D, Dv) after it


def elu_plus_one(x: Tensor) -> Tensor:
    """ELU(x) + 1: x + 1 above 0, the exponential below. Chapter 13.

    Katharopoulos et al. (2020), equation 7. In 32 bits ELU(x) is rounded to -1 from about x = -17;
    computed as here, the sum stays above 0 until about x = -104.

    Example:
        >>> elu_plus_one(torch.tensor([-1.0, 0.0, 2.0]))
        tensor([0.3679, 1.0000, 3.0000])
    """
    return x.relu() + x.clamp(max=0).exp()


def decay_mask(gate: Tensor) -> Tensor:
    r"""What is left at token i of what token j wrote, from gates (..., L): (..., L, L).

    $\prod_{m=j+1}^i g_m$ for j ≤ i, else 0: the causal mask if all gates are 1. Dao and Gu (2024).

    Example:
        >>> decay_mask(torch.tensor([0.5, 0.5, 0.1]))
        tensor([[1.0000, 0.0000, 0.0000],
                [0.5000, 1.0000, 0.0000],
                [0.0500, 0.1000, 1.0000]])
    """
    check_floating(gate=gate)
    L = gate.shape[-1]
    is_later = torch.ones(L, L, dtype=torch.bool, device=gate.device).tril(-1)  # i > j
    return torch.where(is_later, gate[..., :, None], 1.0).cumprod(-2).tril()  # (..., L, L)


def with_state(attend: Callable[..., Memory]) -> Callable[..., Memory]:
    """What stands before a form: checks, and 32 bits or more; the output has the query's dtype."""

    @wraps(attend)
    @full_precision
    def call(query: Tensor, key: Tensor, value: Tensor, *beta: Tensor, **options: Any) -> Memory:
        check_attention(query, key, value)
        if query.shape[-2] != key.shape[-2]:
            got = shapes_of(query=query, key=key)
            raise ValueError(f"query and key must have the same length L, got {got}")
        wide = torch.promote_types(query.dtype, torch.float32)
        tokens = (x.to(wide) for x in (query, key, value, *beta))
        output, state = attend(*tokens, **options)
        return output.to(query.dtype), state

    return call


@with_state
def linear_recurrence(
    query: Tensor, key: Tensor, value: Tensor, *, gate: Tensor | None = None,
    state: Tensor | None = None,
) -> Memory:  # fmt: skip
    r"""$\mathbf S_t=g_t\mathbf S_{t-1}+\mathbf k_t\mathbf v_t^\top$, read by $\mathbf q_t$.

    Queries and keys are features already, and nothing is divided. Chapter 13.
    """
    state = started(state, key, value)
    outputs = [value[..., :0, :]]
    for q, k, v, g in pieces(1, query, key, value, gate=gate):
        state = g * state + k.mT @ v  # (..., D, Dv)
        outputs.append(q @ state)  # (..., 1, Dv)
    return torch.cat(outputs, -2), state


@with_state
def linear_chunks(
    query: Tensor, key: Tensor, value: Tensor, *, gate: Tensor | None = None,
    state: Tensor | None = None, chunk: int = 64,
) -> Memory:  # fmt: skip
    """`linear_recurrence`, `chunk` tokens at a time. Chapter 13."""
    state = started(state, key, value)
    outputs = [value[..., :0, :]]
    for q, k, v, g in pieces(chunk, query, key, value, gate=gate):
        decay, left = decay_mask(g[..., 0]), g.cumprod(-2)  # (..., C, C), (..., C, 1)
        outputs.append(left * (q @ state) + (q @ k.mT * decay) @ v)  # (..., C, Dv)
        state = left[..., -1:, :] * state + (decay[..., -1:, :].mT * k).mT @ v
    return torch.cat(outputs, -2), state


@with_state
def delta_recurrence(
    query: Tensor, key: Tensor, value: Tensor, beta: Tensor, *,
    gate: Tensor | None = None, state: Tensor | None = None,
) -> Memory:  # fmt: skip
    r"""Write by the share $\beta_t$ what the value differs from what its key reads. Chapter 13.

    $\mathbf S_t=\mathbf S'+\beta_t\mathbf k_t(\mathbf v_t-\mathbf S'^\top\mathbf k_t)^\top$ with
    $\mathbf S'=g_t\mathbf S_{t-1}$: Schlag et al. (2021), with a gate Yang et al. (2025). Keys
    should be no longer than 1. A token with `beta` 0 and `gate` 1, as padding should have, leaves
    the state as it is.
    """
    state = started(state, key, value)
    outputs = [value[..., :0, :]]
    for q, k, v, g, b in pieces(1, query, key, value, gate=gate, beta=beta):
        state = g * state
        state = state + k.mT @ (b * (v - k @ state))  # (..., D, Dv)
        outputs.append(q @ state)  # (..., 1, Dv)
    return torch.cat(outputs, -2), state


@with_state
def delta_chunks(
    query: Tensor, key: Tensor, value: Tensor, beta: Tensor, *,
    gate: Tensor | None = None, state: Tensor | None = None, chunk: int = 64,
) -> Memory:  # fmt: skip
    """`delta_recurrence`, `chunk` tokens at a time: Yang et al. (2024). Chapter 13 in depth."""
    state = started(state, key, value)
    outputs = [value[..., :0, :]]
    for q, k, v, g, b in pieces(chunk, query, key, value, gate=gate, beta=beta):
        decay, left = decay_mask(g[..., 0]), g.cumprod(-2)  # (C, C) and (C, 1)
        earlier = (b * (k @ k.mT) * decay).tril(-1)  # read of earlier keys
        wanted = b * (v - left * (k @ state))  # (..., C, Dv)
        u = torch.linalg.solve_triangular(  # (I + earlier) u = wanted
            earlier, wanted, upper=False, unitriangular=True
        )
        outputs.append(left * (q @ state) + (q @ k.mT * decay) @ u)
        state = left[..., -1:, :] * state + (decay[..., -1:, :].mT * k).mT @ u
    return torch.cat(outputs, -2), state


@full_precision
def linear_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    feature_map: Callable[[Tensor], Tensor] = elu_plus_one,
    is_causal: bool = False,
    key_mask: Tensor | None = None,
    state: Tensor | None = None,
    chunk: int = 64,
) -> Memory:
    r"""Attention with the weights $\phi(\mathbf q)^\top\phi(\mathbf k)$, divided by their sum.

    Katharopoulos et al. (2020), equations 5 and 9; chapter 13. The sum is kept as one more value,
    which is always 1: so the state is (..., F, Dv + 1), with F features.

    Args:
        query: (..., L, D).
        key: (..., S, D), with S = L where it is causal.
        value: (..., S, Dv).
        feature_map: from queries and keys to features (..., F), which should not be negative.
        is_causal: query i reads no key after i.
        key_mask: bool, (S,) or (..., S), `True` = may be read; others leave the state as it is.
            A `padding_mask` (B, 1, S) fits keys with heads (B, H, S, D).
        state: what an earlier call returned.
        chunk: tokens at a time where it is causal; changes only time and rounding.

    Returns:
        The output (..., L, Dv), 0 where the sum of the weights is 0, and the state.

    Example:
        >>> ones, value = torch.ones(2, 4), torch.tensor([[1.0], [3.0]])
        >>> output, state = linear_attention(ones, ones, value, is_causal=True)
        >>> output.flatten(), state.shape
        (tensor([1., 2.]), torch.Size([4, 2]))
    """
    check_attention(query, key, value)
    wide = torch.promote_types(query.dtype, torch.float32)
    v = torch.cat((value, torch.ones_like(value[..., :1])), -1).to(wide)  # (..., S, Dv + 1)
    if key_mask is not None:
        check_bool(key_mask)
        hidden = ~column("key_mask", key_mask, key)  # (..., S, 1)
        key, v = key.masked_fill(hidden, 0.0), v.masked_fill(hidden, 0.0)
    q, k = feature_map(query.to(wide)), feature_map(key.to(wide))  # (..., L, F), (..., S, F)
    if is_causal:
        sums, state = linear_chunks(q, k, v, state=state, chunk=chunk)
    else:
        state = started(state, k, v) + k.mT @ v  # (..., F, Dv + 1)
        sums = q @ state  # (..., L, Dv + 1)
    sums, total = sums[..., :-1], sums[..., -1:]
    is_empty = total == 0
    output = (sums / total.masked_fill(is_empty, 1.0)).masked_fill(is_empty, 0.0)
    return output.to(query.dtype), state


def started(state: Tensor | None, key: Tensor, value: Tensor) -> Tensor:
    """The state (..., D, Dv) that was given, or zeros."""
    shape = (*key.shape[:-2], key.shape[-1], value.shape[-1])
    if state is None:
        return key.new_zeros(shape)
    check_tensors(state=state)
    if state.shape != shape:
        raise ValueError(f"state must have shape {shape}, got {tuple(state.shape)}")
    return state.to(key.dtype)


def pieces(chunk: int, *tokens: Tensor, **numbers: Tensor | None) -> Iterator[tuple[Tensor, ...]]:
    """Some tokens at a time, with their numbers as columns (..., C, 1): 1 where there are none."""
    check_integers(1, chunk=chunk)
    key = tokens[1]
    ones = key.new_ones(key.shape[-2], 1)
    columns = (
        ones if x is None else column(name, x, key).to(key.dtype) for name, x in numbers.items()
    )
    if len(ones):
        yield from zip(*(x.split(chunk, -2) for x in (*tokens, *columns)), strict=True)


def column(name: str, numbers: Tensor, key: Tensor) -> Tensor:
    """One number for each token, (L,) or (..., L), as a column (..., L, 1); axes of 1 broadcast."""
    check_tensors(**{name: numbers})
    lead = key.shape[:-1]
    if numbers.dim() not in (1, len(lead)):  # others could line a batch up with heads
        shapes = f"{tuple(lead[-1:])} or {tuple(lead)}" if len(lead) > 1 else f"{tuple(lead)}"
        raise ValueError(f"{name} must have shape {shapes}, got {tuple(numbers.shape)}")
    check_broadcast(name, numbers, lead, of="tokens")
    return numbers.expand(lead)[..., None]
