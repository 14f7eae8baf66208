"""A query, keys and a score in the plane (chapter 2)."""

import copy
from collections.abc import Sequence
from typing import Any

import torch
import traitlets
from torch import Tensor

from attn_notes import scores
from attn_notes.masks import masked_softmax
from attn_widgets.base import DataWidget, Offered, Table
from attn_widgets.encoding import as_finite, check_tokens

PLAIN = {
    "dot": scores.DotProductScore(),
    "scaled_dot": scores.ScaledDotProductScore(),
    "gaussian": scores.GaussianScore(),
}
PROJECTIONS = ("q_proj", "k_proj", "v_proj")  # of the additive score
REACH = 3  # the plane is drawn from -3 to 3


class ScoreExplorer(DataWidget):
    """A query and keys as arrows in the plane, to drag; the score and the temperature to choose.

    Args:
        query: (2,), where its arrow ends, within -3 to 3.
        keys: (S, 2), where their arrows end.
        key_tokens: S names of the keys.
        additive: an `AdditiveScore(2, 2, hidden_dim)` to offer.
        bilinear: a `BilinearScore(2, 2)` to offer.
        score: the one to start with: `dot scaled_dot gaussian bilinear additive`.

    Example:
        >>> ScoreExplorer((1.0, 0.0), [[1.0, 0.0], [-1.0, 0.0]])
        ScoreExplorer(dot, temperature 1.00: weights 0.88 0.12)
    """

    _widget = "score"
    query: traitlets.List[Any] = traitlets.List().tag(sync=True)
    key_vectors: traitlets.List[Any] = traitlets.List().tag(sync=True)
    score = Offered(lambda self: self.data["offered"], "dot")
    temperature = traitlets.Float(1.0, min=0.05, max=20.0).tag(sync=True)
    arrow = traitlets.Int(-1, min=-1).tag(sync=True)  # -1 is the query

    def __init__(
        self,
        query: Sequence[float] | Tensor,
        keys: Sequence[Sequence[float]] | Tensor,
        *,
        key_tokens: Sequence[str] | None = None,
        additive: scores.AdditiveScore | None = None,
        bilinear: scores.BilinearScore | None = None,
        score: str = "dot",
    ) -> None:
        query, keys = as_finite("query", query, 1), as_finite("keys", keys, 2)
        if query.shape != (2,) or keys.shape[1] != 2:
            shapes = f"{tuple(query.shape)} and {tuple(keys.shape)}"
            raise ValueError(f"query and keys must be (2,) and (S, 2), got {shapes}")
        reach = float(torch.cat((query[None], keys)).abs().max())
        if reach > REACH:
            raise ValueError(f"query and keys must end within -{REACH} to {REACH}, got {reach:.4g}")
        self._scores, parameters = dict[str, Any](PLAIN), {}
        if bilinear is not None:
            self._scores["bilinear"] = turned = _in_plane(bilinear)
            parameters["bilinear"] = turned.weight.weight.tolist()
        if additive is not None:
            self._scores["additive"] = bent = _in_plane(additive)
            parameters |= {name: getattr(bent, name).weight.tolist() for name in PROJECTIONS}
            parameters["v_proj"] = parameters["v_proj"][0]
        names = [f"key {n}" for n in range(len(keys))] if key_tokens is None else key_tokens
        tokens = check_tokens("key_tokens", names, len(keys))
        data = {"tokens": tokens, "offered": [*self._scores], "parameters": parameters}
        # Four decimals: finer than a pixel, and the same on every machine.
        ends = {"query": query.round(decimals=4), "key_vectors": keys.round(decimals=4)}
        super().__init__(data=data, score=score, **{name: e.tolist() for name, e in ends.items()})

    def shown(self) -> Tensor:
        """The weights of the keys, (S,)."""
        query = torch.tensor([self.query], dtype=torch.float64, device="cpu")  # (1, 2)
        keys = torch.tensor(self.key_vectors, dtype=torch.float64, device="cpu")  # (S, 2)
        found = self._scores[self.score](query, keys)  # (1, S)
        return masked_softmax(found / self.temperature)[0]

    def _summary(self) -> str:
        weights = " ".join(f"{w:.2f}" for w in self.shown())
        return f"{self.score}, temperature {self.temperature:.2f}: weights {weights}"

    def _table(self) -> Table:
        columns = self.data["tokens"], self.key_vectors, self.shown().tolist()
        lines = zip(*columns, strict=True)
        rows = [[token, f"{x:.2f}, {y:.2f}", f"{w:.2f}"] for token, (x, y), w in lines]
        x, y = self.query
        caption = f"Weights of the query ({x:.2f}, {y:.2f}), score {self.score}."
        return caption, ["vector", "weight"], rows


def _in_plane(module: Any) -> Any:
    """A copy of a learned score, in float64 and with four decimals, as a page gets it."""
    module = copy.deepcopy(module).double().cpu().requires_grad_(False)
    for parameter in module.parameters():
        parameter.copy_(parameter.round(decimals=4))
    point = torch.zeros(1, 2, dtype=torch.float64, device="cpu")
    module(point, point)  # raises where it reads other widths, before a page draws nonsense
    return module
