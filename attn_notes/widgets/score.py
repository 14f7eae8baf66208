"""A query, keys and a score in the plane (chapter 2)."""

from collections.abc import Sequence
from typing import Any

import torch
import traitlets
from torch import Tensor, nn

from attn_notes import scores
from attn_notes.masks import masked_softmax
from attn_notes.widgets.base import BookWidget, Table, check_choice, check_range
from attn_notes.widgets.encoding import as_finite, check_tokens

__all__ = ["ScoreExplorer"]

PLAIN = {
    "dot": scores.DotProductScore,
    "scaled_dot": scores.ScaledDotProductScore,
    "gaussian": scores.GaussianScore,
}
NAMES = (*PLAIN, "bilinear", "additive")
REACH = 3  # the plane is drawn from -3 to 3
KEYS = ((1.6, 0.4), (0.5, 1.5), (-1.2, 0.9), (-0.6, -1.4), (2.4, 1.2))


class ScoreExplorer(BookWidget):
    """A query and keys as arrows in the plane, to drag; the score and the temperature to choose.

    Args:
        query: (2,), where the query's arrow ends, within -3 to 3.
        keys: (S, 2), the keys' ends, within -3 to 3; five of them by default.
        key_tokens: S names of the keys.
        additive: an `AdditiveScore(2, 2, hidden_dim)` to offer as a choice.
        bilinear: a `BilinearScore(2, 2)` to offer as a choice.
        score: the one to start with: `dot scaled_dot gaussian bilinear additive`.
        temperature: what the scores are divided by, from 0.05 to 20.

    Example:
        >>> ScoreExplorer((1.0, 0.0), [[1.0, 0.0], [-1.0, 0.0]])
        ScoreExplorer(dot, temperature 1.00: weights 0.88 0.12)
    """

    _widget = "score"

    data = traitlets.Dict().tag(sync=True)
    query: traitlets.List[Any] = traitlets.List().tag(sync=True)
    key_vectors: traitlets.List[Any] = traitlets.List().tag(sync=True)
    score = traitlets.Enum(NAMES, "dot").tag(sync=True)
    temperature = traitlets.Float(1.0, min=0.05, max=20.0).tag(sync=True)
    arrow = traitlets.Int(-1).tag(sync=True)  # -1 is the query
    shared_scale = traitlets.Bool(False).tag(sync=True)

    def __init__(
        self,
        query: Sequence[float] | Tensor = (1.0, 0.6),
        keys: Sequence[Sequence[float]] | Tensor = KEYS,
        *,
        key_tokens: Sequence[str] | None = None,
        additive: scores.AdditiveScore | None = None,
        bilinear: scores.BilinearScore | None = None,
        score: str = "dot",
        temperature: float = 1.0,
    ) -> None:
        query, keys = as_finite("query", query, 1), as_finite("keys", keys, 2)
        if query.shape != (2,) or keys.shape[1] != 2:
            shapes = f"{tuple(query.shape)} and {tuple(keys.shape)}"
            raise ValueError(f"query and keys must be (2,) and (S, 2), got {shapes}")
        reach = float(torch.cat((query[None], keys)).abs().max())
        if reach > REACH:
            raise ValueError(f"query and keys must end within -{REACH} to {REACH}, got {reach:.4g}")
        learned = {"bilinear": bilinear, "additive": additive}
        offered = [name for name in NAMES if learned.get(name, name) is not None]
        names = [f"key {n}" for n in range(len(keys))] if key_tokens is None else key_tokens
        data = {
            "tokens": check_tokens("key_tokens", names, len(keys)),
            "offered": offered,
            "parameters": _parameters(additive, bilinear),
        }
        vectors = {"query": _rounded(query), "key_vectors": _rounded(keys)}
        super().__init__(data=data, score=score, temperature=temperature, **vectors)

    @traitlets.validate("score")
    def _check_score(self, proposal: Any) -> str:
        return check_choice(proposal, self.data["offered"])

    @traitlets.validate("arrow")
    def _check_arrow(self, proposal: Any) -> int:
        return check_range(proposal, len(self.key_vectors) - 1, first=-1)

    def shown(self) -> Tensor:
        """The weights of the keys, (S,)."""
        query = torch.tensor([self.query], dtype=torch.float64, device="cpu")  # (1, 2)
        keys = torch.tensor(self.key_vectors, dtype=torch.float64, device="cpu")  # (S, 2)
        found = _module(self.score, self.data["parameters"])(query, keys)  # (1, S)
        return masked_softmax(found / self.temperature)[0].detach()

    def _summary(self) -> str:
        weights = " ".join(f"{w:.2f}" for w in self.shown())
        return f"{self.score}, temperature {self.temperature:.2f}: weights {weights}"

    def _table(self) -> Table:
        columns = self.data["tokens"], self.key_vectors, self.shown().tolist()
        rows = [
            [token, f"{x:.2f}, {y:.2f}", f"{w:.2f}"]
            for token, (x, y), w in zip(*columns, strict=True)
        ]
        x, y = self.query
        caption = f"Weights of the query ({x:.2f}, {y:.2f}), score {self.score}."
        return caption, ["vector", "weight"], rows


def _parameters(
    additive: scores.AdditiveScore | None, bilinear: scores.BilinearScore | None
) -> dict[str, Any]:
    """The matrices of the learned scores, as the page needs them."""
    parameters: dict[str, Tensor] = {}
    if bilinear is not None:
        _check_plane("bilinear", bilinear, scores.BilinearScore)
        parameters["bilinear"] = bilinear.weight.weight
    if additive is not None:
        _check_plane("additive", additive, scores.AdditiveScore)
        parameters |= {name: getattr(additive, name).weight for name in ("q_proj", "k_proj")}
        parameters["v_proj"] = additive.v_proj.weight[0]
    return {name: _rounded(as_finite(name, x, 1, 2)) for name, x in parameters.items()}


def _check_plane(name: str, module: Any, kind: Any) -> None:
    """Raise unless a score is of this class and takes vectors of the plane."""
    if not isinstance(module, kind):
        raise TypeError(f"{name} must be {kind.__name__}, got {type(module).__name__}")
    if (got := (module.query_dim, module.key_dim)) != (2, 2):
        raise ValueError(f"{name} must have query_dim = key_dim = 2, got {got[0]} and {got[1]}")


def _module(score: str, parameters: dict[str, Any]) -> nn.Module:
    """The package's own module for a score, in float64, with the parameters of the page."""
    module: nn.Module
    names = {}
    if score == "bilinear":
        module = scores.BilinearScore(2, 2)
        names = {"weight.weight": parameters["bilinear"]}
    elif score == "additive":
        module = scores.AdditiveScore(2, 2, len(parameters["v_proj"]))
        names = {f"{name}.weight": parameters[name] for name in ("q_proj", "k_proj")}
        names["v_proj.weight"] = [parameters["v_proj"]]
    else:
        module = PLAIN[score]()
    state = {name: torch.tensor(x, dtype=torch.float64, device="cpu") for name, x in names.items()}
    module.double().load_state_dict(state)
    return module


def _rounded(numbers: Tensor) -> Any:
    """Nested lists with four decimals: finer than a pixel, and the same on every machine."""
    return numbers.round(decimals=4).tolist()
