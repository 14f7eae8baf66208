"""A memory that is written: pairs of keys and values added into one matrix (chapter 13)."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import traitlets
from torch import Tensor
from torch.nn import functional as F

from attn_widgets.base import DataWidget, Table, plural
from attn_widgets.encoding import as_finite, check_tokens

__all__ = ["Memory", "WrittenMemory"]

MOST, WIDEST = 24, 16  # keys, and numbers of one: a page draws them all
FEATURES = ("identity", "elu")
SHORTEST = 1e-6  # a key that can be scaled to length 1
Vectors = Sequence[Sequence[float]] | Tensor


class Memory(NamedTuple):
    """The state after each of the T writes, and what the last one on show answers."""

    states: Tensor  # (T, D, Dv)
    old: Tensor  # (T, Dv): what the key read from the state before its own write
    answer: Tensor  # (Dv,): of the query, from the state on show
    softmax: Tensor  # (Dv,): of the query, from a softmax over the pairs written so far
    wanted: Tensor  # (Dv,): the value that belongs to the key nearest to the query
    errors: Tensor  # (count,): how far each key's answer is from its value; NaN if not written


def default_pairs(width: int = 8, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Keys (2 D, D), values (2 D, D), and one value more; every vector has length 1.

    The first D keys are orthonormal, and so are the others, each of which has the product
    1/sqrt(D) or -1/sqrt(D) with each of the first; D is a power of 2.
    """
    rng = torch.Generator("cpu").manual_seed(seed)
    numbers = torch.randn(3 * width + 1, width, generator=rng, dtype=torch.float64, device="cpu")
    basis, triangle = torch.linalg.qr(numbers[:width])
    basis = (basis * triangle.diagonal().sign()).mT  # (D, D)
    signs = torch.ones(1, 1, dtype=torch.float64, device="cpu")
    pair = torch.tensor([[1.0, 1.0], [1.0, -1.0]], dtype=torch.float64, device="cpu")
    while len(signs) < width:
        signs = torch.kron(signs, pair)  # Hadamard's matrix of twice the size
    keys = torch.cat([basis, signs @ basis / math.sqrt(width)])  # (2 D, D)
    values = F.normalize(numbers[width:], dim=-1)  # (2 D + 1, D)
    return keys, values[:-1], values[-1]


class WrittenMemory(DataWidget):
    r"""Keys and values written one by one into a matrix, and read from it beside the softmax.

    Each write adds $\phi(k)v^\top$ to the state, after a share of the state was forgotten. With
    `erase` what the key reads so far is taken out first: the delta rule. A query reads
    $\phi(q)^\top S$; with elu + 1 as features, and nothing erased, it is divided by the same sum of
    the features alone. For the features the keys have the length at which their products are
    the scores of the softmax, and under the delta rule features are scaled to length 1.

    Args:
        keys: (S, D), at most 24 keys of at most 16 numbers; they are scaled to length 1. By default
            16 keys of 8 numbers, of which the first 8 are orthonormal.
        values: (S, Dv), random and of length 1 by default.
        again: (Dv,), the value with which the first key may be written once more.
        tokens: S names of the keys.
        sharpness: what the products of keys of length 1 are multiplied by before the softmax.

    Example:
        >>> memory = WrittenMemory()
        >>> memory
        WrittenMemory(8 of 16 pairs in 64 numbers: key 1 is read with error 0.000, softmax 0.002)
    """

    _widget = "memory"
    count = traitlets.Int(8, min=1, max=MOST).tag(sync=True)
    step = traitlets.Int(0, min=0, max=MOST).tag(sync=True)
    query = traitlets.Float(0.0, min=0.0, max=MOST - 1.0).tag(sync=True)  # a place on the keys
    features = traitlets.Enum(FEATURES, "identity").tag(sync=True)
    forget = traitlets.Float(0.0, min=0.0, max=0.5).tag(sync=True)  # this share at each write
    erase = traitlets.Bool(False).tag(sync=True)
    rewrite = traitlets.Bool(False).tag(sync=True)

    def __init__(
        self,
        keys: Vectors | None = None,
        values: Vectors | None = None,
        *,
        again: Sequence[float] | Tensor | None = None,
        tokens: Sequence[str] | None = None,
        sharpness: float = 8.0,
    ) -> None:
        if (keys is None) != (values is None):
            raise ValueError("keys and values must be given together, got one of them alone")
        default = default_pairs()
        keys, values = (default[n] if x is None else x for n, x in enumerate((keys, values)))
        keys, values = as_finite("keys", keys, 2), as_finite("values", values, 2)
        (S, D), Dv = keys.shape, values.shape[-1]
        if len(values) != S or S > MOST or max(D, Dv) > WIDEST:
            most = f"(S, D) and (S, Dv) with at most {MOST} keys of at most {WIDEST} numbers"
            shapes = f"{tuple(keys.shape)} and {tuple(values.shape)}"
            raise ValueError(f"keys and values must be {most}, got {shapes}")
        lengths = keys.norm(dim=-1)
        if bool((lengths < SHORTEST).any()):
            raise ValueError(f"keys must not be 0, got key {int(lengths.argmin())} of length 0")
        if again is None:
            again = default[2] if Dv == len(default[2]) else values[-1].flip(0)
        again = as_finite("again", again, 1)
        if again.shape != (Dv,):
            raise ValueError(f"again must be one value of {Dv} numbers, got {tuple(again.shape)}")
        if not (math.isfinite(sharpness) and 0 < sharpness <= 100):
            raise ValueError(f"sharpness must be above 0 and at most 100, got {sharpness}")
        names = [str(n + 1) for n in range(S)] if tokens is None else tokens
        # Four decimals: finer than a pixel, and the same on every machine.
        vectors = {"keys": keys / lengths[:, None], "values": values, "again": again}
        data = {name: x.round(decimals=4).tolist() for name, x in vectors.items()}
        data |= {"tokens": check_tokens("tokens", names, S), "sharpness": float(sharpness)}
        super().__init__(data=data, count=min(16, S), step=min(7, S - 1))

    @traitlets.validate("count")
    def _check_count(self, proposal: Any) -> Any:
        if proposal["value"] > (most := len(self.data["keys"])):
            raise traitlets.TraitError(f"count must be from 1 to {most}, got {proposal['value']}")
        return proposal["value"]

    def shown(self) -> Memory:
        """The states after each write, and what the query reads after the one on show."""
        keys, values = self._pairs()  # (T, D), (T, Dv)
        states, sums, old = self._write(self._features(keys), values)
        at = self._at()
        queries = torch.stack([self._query(), *keys[: self.count]])  # (1 + count, D)
        read = self._features(queries) @ states[at]  # (1 + count, Dv)
        if self.features == "elu" and not self.erase:
            read = read / (self._features(queries) @ sums[at])[:, None]
        scores = self.data["sharpness"] * keys[: at + 1] @ queries[0]
        wanted = values[: self.count].clone()
        if at >= self.count:
            wanted[0] = values[-1]
        errors = (read[1:] - wanted).norm(dim=-1) / wanted.norm(dim=-1).clamp_min(SHORTEST)
        errors[at + 1 :] = math.nan
        softmax = scores.softmax(0) @ values[: at + 1]
        return Memory(states, old, read[0], softmax, wanted[self._nearest()], errors)

    def _at(self) -> int:
        """The last pair written."""
        return min(self.step, self.count - 1 + self.rewrite)

    def _place(self) -> float:
        return min(self.query, self.count - 1)

    def _nearest(self) -> int:
        """The key nearest to the query's place."""
        return math.floor(self._place() + 0.5)

    def _tensor(self, name: str) -> Tensor:
        return torch.tensor(self.data[name], dtype=torch.float64, device="cpu")

    def _pairs(self) -> tuple[Tensor, Tensor]:
        """Keys (T, D) and values (T, Dv) in the order in which they are written."""
        keys, values = (self._tensor(name)[: self.count] for name in ("keys", "values"))
        if self.rewrite:
            again = self._tensor("again")[None]  # (1, Dv)
            keys, values = torch.cat([keys, keys[:1]]), torch.cat([values, again])
        return keys, values

    def _query(self) -> Tensor:
        """(D,): on the way from one key to the next, scaled to length 1."""
        keys, place = self._tensor("keys"), self._place()
        low = math.floor(place)
        high = min(low + 1, len(keys) - 1)
        between = keys[low] + (place - low) * (keys[high] - keys[low])
        return between / between.norm().clamp_min(SHORTEST)

    def _features(self, keys: Tensor) -> Tensor:
        """Of keys (N, D) of length 1."""
        if self.features == "identity":
            return keys
        features = F.elu(math.sqrt(self.data["sharpness"]) * keys) + 1
        return F.normalize(features, dim=-1) if self.erase else features

    def _write(self, features: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """States (T, D, Dv), sums of features (T, D), and what each key read before its write."""
        state = features.new_zeros(features.shape[1], values.shape[1])
        total = features.new_zeros(features.shape[1])
        states, sums, old = [], [], []
        for feature, value in zip(features, values, strict=True):
            state, total = (1 - self.forget) * state, (1 - self.forget) * total + feature
            old.append(feature @ state)
            state = state + feature[:, None] * (value - old[-1] if self.erase else value)
            states.append(state)
            sums.append(total)
        return torch.stack(states), torch.stack(sums), torch.stack(old)

    def _settings(self) -> str:
        """What differs from plain sums, in words."""
        said = {
            "elu + 1 as features": self.features == "elu",
            f"{self.forget:g} forgotten at each write": self.forget > 0,
            "erased first": self.erase,
            "first key written again": self.rewrite,
        }
        return "".join(f", {words}" for words, holds in said.items() if holds)

    def _summary(self) -> str:
        shown, place = self.shown(), self._place()
        D, Dv = shown.states.shape[1:]
        length = shown.wanted.norm().clamp_min(SHORTEST)
        off = ((x - shown.wanted).norm() / length for x in (shown.answer, shown.softmax))
        error, exact = (f"{float(x):.3f}" for x in off)
        which = f"key {place + 1:g} is read with error {error}, softmax {exact}"
        pairs = f"{self._at() + 1} of {plural(len(shown.states), 'pair')}"
        return f"{pairs} in {D * Dv} numbers{self._settings()}: {which}"

    def _table(self) -> Table:
        shown = self.shown()
        state = shown.states[self._at()]
        rows = [[str(n + 1), *(f"{x:.3f}" for x in row)] for n, row in enumerate(state.tolist())]
        written = f"{plural(self._at() + 1, 'pair')} written{self._settings()}"
        columns = [str(n + 1) for n in range(state.shape[1])]
        return f"The state, a row for each number of a key: {written}.", columns, rows
