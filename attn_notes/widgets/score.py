"""A query, keys and a score in the plane (chapter 2)."""

from collections.abc import Sequence
from typing import Any

import torch
import traitlets
from torch import Tensor, nn

from attn_notes.masks import masked_softmax
from attn_notes.scores import (
    AdditiveScore,
    BilinearScore,
    DotProductScore,
    GaussianScore,
    ScaledDotProductScore,
)
from attn_notes.widgets.base import BookWidget, Table
from attn_notes.widgets.encoding import finite, tokens_for

__all__ = ["ScoreExplorer"]

NAMES = ("dot", "scaled_dot", "gaussian", "bilinear", "additive")
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

    Raises:
        TypeError: vectors that are not numbers, scores of another class.
        ValueError: other shapes, NaN or infinity, arrows that end off the plane, an unknown or
            missing score, scores that do not take vectors of the plane.

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
        keys: Sequence[Sequence[float]] | Tensor | None = None,
        *,
        key_tokens: Sequence[str] | None = None,
        additive: AdditiveScore | None = None,
        bilinear: BilinearScore | None = None,
        score: str = "dot",
        temperature: float = 1.0,
    ) -> None:
        query, keys = finite("query", query, 1), finite("keys", KEYS if keys is None else keys, 2)
        if query.shape != (2,) or keys.shape[1] != 2:
            raise ValueError(
                "query and keys must be vectors of the plane, shapes (2,) and (S, 2), got "
                f"{tuple(query.shape)} and {tuple(keys.shape)}"
            )
        reach = max(float(query.abs().max()), float(keys.abs().max()))
        if reach > REACH:
            raise ValueError(f"query and keys must end within -{REACH} to {REACH}, got {reach:.4g}")
        offered = ["dot", "scaled_dot", "gaussian"]
        offered += ["bilinear"] * (bilinear is not None) + ["additive"] * (additive is not None)
        if score not in offered:
            raise ValueError(f"score must be one of {', '.join(offered)}, got {score!r}")
        tokens = tokens_for("key_tokens", key_tokens, len(keys))
        data = {
            "tokens": tokens or [f"key {n}" for n in range(len(keys))],
            "offered": offered,
            "parameters": _parameters(additive, bilinear),
        }
        super().__init__(
            data=data,
            query=_rounded(query),
            key_vectors=_rounded(keys),
            score=score,
            temperature=temperature,
        )

    @traitlets.validate("arrow")
    def _one_of_them(self, proposal: Any) -> int:
        last = len(self.key_vectors) - 1
        if not -1 <= proposal["value"] <= last:
            raise traitlets.TraitError(f"arrow must be from -1 to {last}, got {proposal['value']}")
        return int(proposal["value"])

    def shown(self) -> Tensor:
        """The weights that are shown now.

        Returns:
            (S,), float64.
        """
        query = torch.tensor([self.query], dtype=torch.float64, device="cpu")  # (1, 2)
        keys = torch.tensor(self.key_vectors, dtype=torch.float64, device="cpu")  # (S, 2)
        scores = _module(self.score, self.data["parameters"])(query, keys)  # (1, S)
        return masked_softmax(scores / self.temperature)[0].detach()

    def _summary(self) -> str:
        weights = " ".join(f"{w:.2f}" for w in self.shown())
        return f"{self.score}, temperature {self.temperature:.2f}: weights {weights}"

    def _table(self) -> Table:
        rows = [
            [token, f"{x:.2f}, {y:.2f}", f"{w:.2f}"]
            for token, (x, y), w in zip(
                self.data["tokens"], self.key_vectors, self.shown().tolist(), strict=True
            )
        ]
        x, y = self.query
        caption = f"Weights of the query ({x:.2f}, {y:.2f}), score {self.score}."
        return caption, ["vector", "weight"], rows


def _parameters(additive: AdditiveScore | None, bilinear: BilinearScore | None) -> dict[str, Any]:
    """The matrices of the learned scores, as the page needs them."""
    parameters: dict[str, Any] = {}
    offered = (("additive", additive, AdditiveScore), ("bilinear", bilinear, BilinearScore))
    for name, module, kind in offered:
        if module is None:
            continue
        if not isinstance(module, kind):
            raise TypeError(f"{name} must be {kind.__name__}, got {type(module).__name__}")
        if (module.query_dim, module.key_dim) != (2, 2):
            raise ValueError(
                f"{name} must take vectors of the plane, query_dim = key_dim = 2, got "
                f"{module.query_dim} and {module.key_dim}"
            )
    if bilinear is not None:
        parameters["bilinear"] = _rounded(finite("bilinear", bilinear.weight.weight, 2))
    if additive is not None:
        for name in ("q_proj", "k_proj"):
            parameters[name] = _rounded(finite(name, getattr(additive, name).weight, 2))
        parameters["v_proj"] = _rounded(finite("v_proj", additive.v_proj.weight[0], 1))
    return parameters


def _module(score: str, parameters: dict[str, Any]) -> nn.Module:
    """The package's own module for a score, in float64, with the parameters of the page."""
    plain = {"dot": DotProductScore, "scaled_dot": ScaledDotProductScore, "gaussian": GaussianScore}
    if score in plain:
        return plain[score]()
    if score == "bilinear":
        module: nn.Module = BilinearScore(2, 2)
        names = {"weight.weight": parameters["bilinear"]}
    else:
        module = AdditiveScore(2, 2, len(parameters["v_proj"]))
        names = {f"{name}.weight": parameters[name] for name in ("q_proj", "k_proj")}
        names["v_proj.weight"] = [parameters["v_proj"]]
    state = {name: torch.tensor(x, dtype=torch.float64, device="cpu") for name, x in names.items()}
    module.double().load_state_dict(state)
    return module


def _rounded(numbers: Tensor) -> Any:
    """Nested lists with four decimals: finer than a pixel, and the same on every machine."""
    if numbers.dim() == 1:
        return [round(x, 4) for x in numbers.tolist()]
    return [_rounded(row) for row in numbers]
