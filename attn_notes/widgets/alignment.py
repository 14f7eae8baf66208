"""Stepping through a decoding, word by word (chapter 4)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import traitlets
from torch import Tensor

from attn_notes.widgets.answering import AnsweringWidget
from attn_notes.widgets.base import Table
from attn_notes.widgets.encoding import decode, encode, finite, tokens_for, whole
from attn_notes.widgets.heatmap import weights_table

__all__ = ["AlignmentSteps", "Example"]

LOOSE = 0.01  # how far from 1 a row's sum may be: half precision on a long source


@dataclass(frozen=True)
class Example:
    """One decoding, by a network in one or more states of its training.

    Args:
        source: S tokens, at least one.
        reference: what the output should be: tokens, or the whole text, compared without spaces.
        states: for each state, by name and in order, its output: T tokens, at least one, and the
            weights (T, S) that wrote them, whose rows sum to 1. T may differ from state to state.
        group: the heading under which the menu lists it, or "".

    Example:
        >>> import torch
        >>> states = {"trained": (["thir", "teen"], torch.eye(2, device="cpu"))}
        >>> Example(["drei", "zehn"], "thirteen", states, group="German").group
        'German'
    """

    source: Sequence[str]
    reference: Sequence[str] | str
    states: Mapping[str, tuple[Sequence[str], Tensor]]
    group: str = ""


class AlignmentSteps(AnsweringWidget):
    """Step through a decoding: which words of the source each word of the output reads.

    Two rows of words, joined by links as strong as the weights of the step; under them the
    weights of all steps so far, a row a step. With a live kernel `translate` answers what the
    reader types.

    Args:
        examples: the decodings to choose from, at least one.
        title: a line above the figure.
        translate: turns what the reader typed into an `Example`, whose states are among those of
            `examples`; what it raises is shown in the widget. A published page has no kernel, and
            says so in its place.

    Raises:
        TypeError: something that is not an `Example`, tokens that are not strings, weights that
            are not numbers, a `translate` that cannot be called.
        ValueError: no examples, no states or no tokens; weights of another shape than (T, S), not
            finite, outside 0 to 1, or with rows that do not sum to 1.
        traitlets.TraitError: `example`, `state` or `step` set to one that there is not.

    Example:
        >>> import torch
        >>> weights = torch.tensor([[0.1, 0.9], [0.8, 0.2]], device="cpu")
        >>> states = {"trained": (["forty", "two"], weights)}
        >>> AlignmentSteps([Example(["zwei", "und vierzig"], ["forty", "two"], states)])
        AlignmentSteps(1 example; trained, right: 2 words from 2, step 1)
    """

    _widget = "alignment"
    _asks, _answers = "translate", "example"

    data = traitlets.Dict().tag(sync=True)
    example = traitlets.Int(0).tag(sync=True)
    state = traitlets.Unicode("").tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)
    shared_scale = traitlets.Bool(False).tag(sync=True)

    def __init__(
        self,
        examples: Sequence[Example],
        *,
        title: str = "",
        translate: Callable[[str], Example] | None = None,
    ) -> None:
        if isinstance(examples, Example) or not examples:
            raise ValueError("examples must be a list of at least one Example")
        encoded = [_encode_example(example) for example in examples]
        names = [state["name"] for example in encoded for state in example["states"]]
        super().__init__(
            translate,
            data={"examples": encoded, "states": list(dict.fromkeys(names)), "title": whole(title)},
            state=encoded[0]["states"][-1]["name"],
        )

    def _all(self) -> list[dict[str, Any]]:
        """The examples that can be chosen: what the reader typed is the last."""
        typed = self.reply["example"]
        return self.data["examples"] + ([] if typed is None else [typed])

    def _now(self) -> tuple[dict[str, Any], dict[str, Any], int]:
        """Example, state and step on show: where there is no such state or step, the last."""
        example = self._all()[self.example]
        states = {state["name"]: state for state in example["states"]}
        state = states.get(self.state, example["states"][-1])
        return example, state, min(self.step, len(state["target"]) - 1)

    @traitlets.validate("example", "step")
    def _in_range(self, proposal: Any) -> int:
        name = proposal["trait"].name
        size = len(self._all()) if name == "example" else len(self._now()[1]["target"])
        if not 0 <= proposal["value"] < size:
            raise traitlets.TraitError(
                f"{name} must be from 0 to {size - 1}, got {proposal['value']}"
            )
        return int(proposal["value"])

    @traitlets.validate("state")
    def _among_states(self, proposal: Any) -> str:
        if proposal["value"] not in self.data["states"]:
            names = ", ".join(self.data["states"])
            raise traitlets.TraitError(f"state must be one of {names}, got {proposal['value']!r}")
        return str(proposal["value"])

    def _encode_answer(self, answer: Example) -> dict[str, Any]:
        example = _encode_example(answer)
        _check_states(example, self.data["states"])
        return example

    def _show_answer(self) -> None:
        self.example, self.step = len(self.data["examples"]), 0

    def shown(self) -> Tensor:
        """The weights of the steps so far: what the map shows now.

        Returns:
            (step + 1, S), float64.
        """
        _, state, step = self._now()
        return decode(state["weights"])[: step + 1]

    def _summary(self) -> str:
        example, state, step = self._now()
        count, right = len(self._all()), "right" if state["wrong"] is None else "wrong"
        return (
            f"{count} example{'s' if count > 1 else ''}; {state['name']}, {right}: "
            f"{len(state['target'])} words from {len(example['source'])}, step {step + 1}"
        )

    def _table(self) -> Table:
        """All steps of the state on show, not only those so far: nobody can go on."""
        example, state, _ = self._now()
        tokens = state["target"], example["source"]
        caption, columns, rows = weights_table(decode(state["weights"]), None, *tokens, most=900)
        verdict = "right" if state["wrong"] is None else "wrong"
        return f"{state['name']}, {verdict}. {caption}", columns, rows


def _encode_example(example: Example) -> dict[str, Any]:
    """An example as the front end reads it, checked."""
    if not isinstance(example, Example):
        raise TypeError(f"an example must be an Example, got {type(example).__name__}")
    source = _tokens("source", example.source)
    if not isinstance(example.states, Mapping) or not example.states:
        raise ValueError("states must hold at least one, such as {'trained': (target, weights)}")
    reference = example.reference
    reference = whole(reference) if isinstance(reference, str) else _listed("reference", reference)
    states = [
        _encode_state(str(name), state, len(source), reference)
        for name, state in example.states.items()
    ]
    group = whole(example.group)
    return {"group": group, "source": source, "reference": reference, "states": states}


def _encode_state(
    name: str, state: tuple[Sequence[str], Tensor], S: int, reference: Sequence[str] | str
) -> dict[str, Any]:
    """One state's output and its weights, checked against one another."""
    if not isinstance(state, tuple) or len(state) != 2:
        raise TypeError(f"a state must be (target, weights), got {type(state).__name__} {name!r}")
    target = _tokens(f"the target of {name!r}", state[0])
    weights = finite(f"the weights of {name!r}", state[1], 2)
    if weights.shape != (len(target), S):
        raise ValueError(
            f"the weights of {name!r} must be (target, source) = {(len(target), S)}, got "
            f"{tuple(weights.shape)}"
        )
    sums = weights.sum(-1)
    worst = int((sums - 1).abs().argmax())
    if weights.min() < 0 or abs(float(sums[worst]) - 1) > LOOSE:
        raise ValueError(
            f"the weights of {name!r} must be from 0 to 1 and each row sum to 1, got "
            f"{float(weights.min()):.4g} to {float(weights.max()):.4g} and a sum of "
            f"{float(sums[worst]):.4g} in row {worst}"
        )
    return {
        "name": whole(name),
        "target": target,
        "weights": encode(weights, low=0.0, high=1.0),
        "wrong": _first_wrong(target, reference),
    }


def _check_states(example: dict[str, Any], names: Sequence[str]) -> None:
    for state in example["states"]:
        if state["name"] not in names:
            raise ValueError(f"a state must be among {', '.join(names)}, got {state['name']!r}")


def _tokens(name: str, tokens: Sequence[str]) -> list[str]:
    checked = _listed(name, tokens)
    if not checked:
        raise ValueError(f"{name} must hold at least one token")
    return checked


def _listed(name: str, tokens: Sequence[str]) -> list[str]:
    return tokens_for(name, tokens, len(tokens)) or []


def _first_wrong(target: Sequence[str], reference: Sequence[str] | str) -> int | None:
    """The first token unlike the reference (one past the last where more should come), or None."""
    if isinstance(reference, str):
        wanted, so_far = "".join(reference.split()), ""
        for n, token in enumerate(target):
            so_far += "".join(token.split())
            if not wanted.startswith(so_far):
                return n
        return None if so_far == wanted else len(target)
    for n, token in enumerate(target):
        if n >= len(reference) or token != reference[n]:
            return n
    return None if len(target) == len(reference) else len(target)
