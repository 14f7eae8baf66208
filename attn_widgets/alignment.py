"""Stepping through a decoding, word by word (chapter 4)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import traitlets
from torch import Tensor

from attn_notes.data import Vocabulary
from attn_notes.seq2seq import Seq2Seq
from attn_widgets import encoding
from attn_widgets.answering import AnsweringWidget
from attn_widgets.base import Offered, Table, plural
from attn_widgets.heatmap import weights_table
from attn_widgets.packing import pack_seq2seq

MOST = 60  # tokens that a page translates a text into


@dataclass(frozen=True)
class Example:
    """One decoding, by a network in one or more states of its training.

    Args:
        source: S tokens, at least one.
        reference: what the output should be, compared without spaces: tokens, or the whole text.
        states: by name and in order: T tokens of output, and the weights (T, S) that wrote them,
            whose rows sum to 1. T may differ from state to state.
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

    Args:
        examples: the decodings to choose from, at least one.
        translate: with a live kernel, turns what the reader typed into an `Example`, whose states
            are among those of `examples`; its errors are shown in the widget.
        model: an encoder-decoder of chapter 4 with its source and target vocabulary, the last of
            the states: on a page a rounded copy translates greedily what the reader types.
        asks: what the reader is to type there, as in "a number in German words".
        example: the decoding to open on.
        step: and the step of it: the word of the output whose row is shown.

    Example:
        >>> import torch
        >>> weights = torch.tensor([[0.1, 0.9], [0.8, 0.2]], device="cpu")
        >>> states = {"trained": (["forty", "two"], weights)}
        >>> AlignmentSteps([Example(["zwei", "und vierzig"], ["forty", "two"], states)])
        AlignmentSteps(1 example; trained, right: 2 words from 2, step 1)
    """

    _widget = "alignment"
    _answers, _starts = "example", "step"
    example = Offered(lambda self: range(len(self._all())))
    state = Offered(lambda self: self.data["states"], "")
    step = traitlets.Int(0, min=0).tag(sync=True)
    shared_scale = traitlets.Bool(False).tag(sync=True)

    def __init__(
        self,
        examples: Sequence[Example],
        *,
        translate: Callable[[str], Example] | None = None,
        model: tuple[Seq2Seq, Vocabulary, Vocabulary] | None = None,
        asks: str = "a text",
        example: int = 0,
        step: int = 0,
    ) -> None:
        encoded = [_encode_example(one) for one in examples]
        names = dict.fromkeys(state["name"] for one in encoded for state in one["states"])
        data: dict[str, Any] = {"examples": encoded, "states": [*names]}
        if model is not None:
            vocabs = zip(("source", "target"), model[1:], strict=True)
            words = {name: encoding.check_tokens(name, vocab.tokens) for name, vocab in vocabs}
            data["model"] = {"weights": pack_seq2seq(model[0]), "most": MOST, "asks": asks, **words}
        if not 0 <= example < len(encoded):
            raise ValueError(f"example must be from 0 to {len(encoded) - 1}, got {example}")
        state = encoded[example]["states"][-1]
        if not 0 <= step < len(state["target"]):
            raise ValueError(f"step must be from 0 to {len(state['target']) - 1}, got {step}")
        opening = {"example": example, "state": state["name"], "step": step}
        super().__init__(translate, _encode_example, data=data, **opening)

    def page_state(self) -> dict[str, Any]:
        """As that of the base class; a page with the model needs no kernel to answer a text."""
        return super().page_state() | ({"typing": "page"} if "model" in self.data else {})

    def _now(self) -> tuple[dict[str, Any], dict[str, Any], int]:
        """Example, state and step on show; the last state or step if the chosen one is missing."""
        example = self._all()[self.example]
        states = {state["name"]: state for state in example["states"]}
        state = states.get(self.state, example["states"][-1])
        return example, state, min(self.step, len(state["target"]) - 1)

    def shown(self) -> Tensor:
        """The weights of the steps so far, (step + 1, S)."""
        _, state, step = self._now()
        return encoding.decode(state["weights"])[: step + 1]

    def _summary(self) -> str:
        example, state, step = self._now()
        words = f"{len(state['target'])} words from {len(example['source'])}, step {step + 1}"
        return f"{plural(len(self._all()), 'example')}; {_verdict(state)}: {words}"

    def _table(self) -> Table:
        """All steps of the state on show: a table has no control for the step."""
        example, state, _ = self._now()
        weights, tokens = encoding.decode(state["weights"]), (state["target"], example["source"])
        caption, columns, rows = weights_table(weights, None, *tokens)
        return f"{_verdict(state)}. {caption}", columns, rows


def _verdict(state: dict[str, Any]) -> str:
    return f"{state['name']}, {'right' if state['wrong'] is None else 'wrong'}"


def _encode_example(example: Example) -> dict[str, Any]:
    """An example as the front end reads it, checked."""
    source, reference = encoding.check_tokens("source", example.source), example.reference
    if isinstance(reference, str):
        reference = encoding.replace_surrogates(reference)
    else:
        reference = encoding.check_tokens("reference", reference)
    states = []
    for name, (output, given) in example.states.items():
        target = encoding.check_tokens(f"the target of {name!r}", output)
        what, shape = f"the weights of {name!r}", (len(target), len(source))
        weights = encoding.as_weights(what, given, 2, normalised=True)
        if (got := tuple(weights.shape)) != shape:
            raise ValueError(f"{what} must be (target, source) = {shape}, got {got}")
        packed, wrong = encoding.encode_weights(weights), _first_wrong(target, reference)
        state = {"name": encoding.replace_surrogates(name), "weights": packed}
        states.append({**state, "target": target, "wrong": wrong})
    group = encoding.replace_surrogates(example.group)
    return {"group": group, "source": source, "reference": reference, "states": states}


def _first_wrong(target: Sequence[str], reference: Sequence[str] | str) -> int | None:
    """The first token unlike the reference (one past the last where more should come), or None.

    They are compared as text without spaces.
    """
    wanted = "".join("".join(reference).split())
    for n in range(len(target)):
        if not wanted.startswith("".join("".join(target[: n + 1]).split())):
            return n
    return None if "".join("".join(target).split()) == wanted else len(target)
