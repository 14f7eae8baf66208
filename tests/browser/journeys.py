"""How a reader moves every control of every widget, and what torch says is shown then."""

import math
import re
from collections.abc import Callable, Iterable
from functools import partial

import pytest
import torch
from playwright.sync_api import expect
from torch import Tensor

from attn_notes.data import Vocabulary
from attn_notes.masks import causal_mask, masked_softmax, prefix_mask
from attn_notes.patterns import PATTERNS, pattern_cells, pattern_score
from attn_notes.scores import AdditiveScore, BilinearScore
from attn_notes.transformer import Encoder, TransformerConfig
from attn_notes.widgets import (
    AlignmentSteps,
    AttentionHeatmap,
    Example,
    FamilyDiagram,
    FollowToken,
    HeadExplorer,
    HeadSwitches,
    KernelExplorer,
    LanguageModelPlayer,
    MaskPainter,
    OnlineSoftmax,
    PositionExplorer,
    ScoreExplorer,
    TransformerPlayer,
    explore,
)
from attn_notes.widgets.base import BookWidget
from attn_notes.widgets.encoding import decode, visible
from attn_notes.widgets.family import FAMILIES
from attn_notes.widgets.kernel import KERNELS
from attn_notes.widgets.mask import PRESETS
from attn_notes.widgets.packing import unpack_transformer
from attn_notes.widgets.views import Maps
from tests.browser.panel import Panel, assert_cells
from tests.parts import shown as numbers_shown
from tests.players import read_by_heads, surprise

# ---- What a control does, in Python. A move gets the widget and where the control stands now.

Same = Callable[[BookWidget, float], None]


def sets(trait: str, value: Callable[[float], object] = float) -> Same:
    return lambda widget, at: setattr(widget, trait, value(at))


def one_of(*choices: object) -> Callable[[float], object]:
    return lambda at: choices[int(at)]


def two_digits(low: float, high: float) -> Callable[[float], object]:
    """A logarithmic slider stands at an index into all the numbers of two digits."""
    numbers = (float(f"{n}e{power}") for power in range(-3, 2) for n in range(10, 100))
    return one_of(*(number for number in numbers if low <= number <= high))


def score_offered(widget: ScoreExplorer, at: float) -> None:
    widget.score = widget.data["offered"][int(at)]


def move_point(trait: str, widget: KernelExplorer, at: float) -> None:
    moved = list(getattr(widget, trait))
    moved[widget.point] = at
    setattr(widget, trait, moved)


def move_arrow(axis: int, widget: ScoreExplorer, at: float) -> None:
    ends = [list(end) for end in (widget.query, *widget.key_vectors)]
    ends[widget.arrow + 1][axis] = round(at, 4)
    widget.query, *widget.key_vectors = ends


def choose_example(widget: AlignmentSteps, at: float) -> None:
    widget.example, widget.step = int(at), 0


def choose_state(widget: AlignmentSteps, at: float) -> None:
    widget.state = widget.data["states"][int(at)]


def offered(trait: str, among: str, widget: PositionExplorer, at: float) -> None:
    setattr(widget, trait, widget.data[among][int(at)])


def move_score(widget: OnlineSoftmax, at: float) -> None:
    """A score that is moved is open again."""
    widget.scores = [round(at, 4) if n == widget.key else x for n, x in enumerate(widget.scores)]
    widget.masked = [n for n in widget.masked if n != widget.key]


def mask_key(widget: OnlineSoftmax, at: float) -> None:
    widget.masked = sorted({*widget.masked} - {widget.key} | ({widget.key} if at else set()))


def choose_family(widget: FamilyDiagram, at: float) -> None:
    """The place where this family is asked for the same word is picked with it."""
    widget.family = FAMILIES[int(at)]
    words = widget.data["source"], widget.data["target"]
    widget.position = FamilyDiagram(*words, family=widget.family).position


def choose_language(widget: TransformerPlayer, at: float) -> None:
    widget.language, widget.step = widget.data["languages"][int(at)][0], widget.data["most"]


def type_number(widget: TransformerPlayer, at: float) -> None:
    widget.text, widget.step = str(int(at)), widget.data["most"]


def begin_text(widget: LanguageModelPlayer, at: float) -> None:
    widget.prompt, widget.said, widget.position = str(int(at)), [], widget.data["most"]


def to_block(widget: FollowToken, at: float) -> None:
    """The same step of another block, or its first."""
    (number, name, block, _), steps = widget._here(), widget._steps()
    before = sum(one[:2] == (name, block) for one in steps[:number])
    there = [n for n, (_, one, _) in enumerate(steps) if one == int(at)]
    same = [n for n in there if steps[n][0] == name]
    widget.step = same[before] if len(same) > before else there[0]


WAYS = ("on", "off", "scaled", "mean", "other")  # what a head may pass on


def edit_head(widget: HeadSwitches, change: object) -> None:
    others = [one for one in widget.edits.split(",") if one and not one.startswith(widget.head)]
    widget.edits = ",".join([*others, f"{widget.head}:{change}"])


def choose_way(widget: HeadSwitches, at: float) -> None:
    way = WAYS[int(at)]
    edit_head(widget, {"on": 1, "off": 0, "scaled": 0.5}.get(way, way))


def explored(label: str, widget: BookWidget, at: float) -> None:
    for control in widget.data["controls"]:
        if control["name"].replace("_", " ") == label:
            chosen = control["choices"][int(at)]
            widget.values = {**widget.values, control["name"]: chosen}


COLOUR = "Colour up to the largest weight"
OVERVIEW = "All heads at once"
HIDE, FIND = "Hide special tokens", "Heads that read"
COLOURS, COLUMNS = "Colours", "Tokens in columns"
COMBINE = "The map shows their"
MASKED, FORGET = "Masked (\u2212\u221e)", "Forget to rescale"
SIZE = "Size of window, prefix, padding, block"
PAIR, DISTANCE, UNLIKE = "Pair, or head", "Distance to the other", "Key unlike the query"

SAME: dict[str, dict[str, Same]] = {
    "heatmap": {
        "Layer": sets("layer", int),
        "Head": sets("head", int),
        "Temperature": sets("temperature", two_digits(0.05, 20)),
        "Mask": sets("mask_choice", one_of("none", "causal", "given")),
        OVERVIEW: sets("overview", bool),
    },
    "kernel": {
        "Kernel": sets("kernel", one_of(*KERNELS)),
        "Width": sets("bandwidth", two_digits(0.02, 10)),
        "Query": sets("query"),
        "Point": sets("point", int),
        "Point x": partial(move_point, "xs"),
        "Point y": partial(move_point, "ys"),
    },
    "score": {
        "Score": score_offered,
        "Temperature": sets("temperature", two_digits(0.05, 20)),
        "Move": sets("arrow", lambda at: int(at) - 1),
        "Arrow x": partial(move_arrow, 0),
        "Arrow y": partial(move_arrow, 1),
    },
    "mask": {
        SIZE: sets("size", int),
        "Combine with": sets("second", one_of(*PRESETS)),
        "its size": sets("second_size", int),
        "by": sets("combine", one_of("and", "or")),
        "Layers": sets("layers", int),
    },
    "alignment": {
        "Example": choose_example,
        "Network": choose_state,
        "Step": sets("step", int),
    },
    "heads": {
        "Sentence": sets("sentence", int),
        "Layer": sets("layer", int),
        "Head": sets("head", int),
        HIDE: sets("hide_special", bool),
        FIND: sets("pattern", one_of("", *PATTERNS, "focused", "spread")),
        COLOURS: sets("scale", one_of("linear", "root", "row")),
        COLUMNS: sets("columns", bool),
        COMBINE: sets("combine", one_of("mean", "max")),
        "Attention": sets("kind", int),
    },
    "position": {
        "Position": sets("position", int),
        DISTANCE: sets("distance", int),
        PAIR: sets("pair", int),
        "Scheme": partial(offered, "scheme", "schemes"),
        "Dimensions": partial(offered, "embed_dim", "dimensions"),
        "Base": partial(offered, "base", "bases"),
        UNLIKE: sets("unlike", bool),
    },
    "translator": {
        "Translate": type_number,
        "into": choose_language,
        "Step": sets("step", int),
        "Attention": sets("attention", one_of("cross", "decoder", "encoder")),
        "Layer": sets("layer", int),
        "Head": sets("head", int),
        "Temperature": sets("temperature"),
        "Seed": sets("seed", int),
    },
    "family": {
        "Family": choose_family,
        "Blocks": sets("num_layers", int),
        "Position": sets("position", int),
    },
    "online": {
        "Step": sets("step", int),
        "Tile": sets("tile", int),
        "Key": sets("key", int),
        "its score": move_score,
        MASKED: mask_key,
        FORGET: sets("forget", bool),
    },
    "switches": {
        "Translate": sets("text", lambda at: str(int(at))),
        "into": lambda widget, at: setattr(
            widget, "language", widget.data["languages"][int(at)][0]
        ),
        "Output": choose_way,
        "times": edit_head,
    },
    "follow": {
        "Sentence": sets("sentence", int),
        "Token": sets("token", int),
        "Block": to_block,
        "Head": sets("head", int),
        "Step": sets("step", int),
    },
    "sampler": {
        "Prompt": begin_text,
        "Character": sets("position", int),
        "Temperature": sets("temperature"),
        "Top k": sets("top_k", int),
        "Top p": sets("top_p"),
        "Seed": sets("seed", int),
    },
    "explore": {},
}


def same_move(widget: BookWidget, label: str, at: float) -> None:
    """Do in Python what the control with this label did on the page."""
    if label == COLOUR:
        widget.shared_scale = bool(at)
    elif widget._widget == "explore":
        explored(label, widget, at)
    else:
        SAME[widget._widget][label](widget, at)


# ---- Journeys: every control, by keys that move it.

TYPED = {"Translate", "Other text", "Prompt", "Type a German number"}
# What shows nothing in the state that earlier controls have left: on a bare page, in a chapter.
QUIET = {
    "scores": {COLOUR},  # a weight is 1 already
    "mask": {"Layers", SIZE},  # every key is reached; no button has asked for the size yet
    "model": {COMBINE},  # one head is its own mean
    "positions": {"Base"},  # ALiBi has none
    "follow": {"Head"},  # before the heads part
    "writer": {"Seed"},  # at temperature 0
}
QUIET_IN_A_CHAPTER = {
    "heatmap": {COLOUR},
    "heads": {COLOUR},
    "mask": {COLOUR, SIZE, "Combine with", "by", "its size", "Layers"},
    "translator": {"Seed"},
    "sampler": {"Seed"},
}
ONWARD = ("ArrowRight", "ArrowLeft", "ArrowDown", "ArrowUp")
# All that is written but for where the controls stand.
WRITTEN = """(el) => {
  const copy = el.cloneNode(true);
  copy.querySelectorAll("output").forEach((output) => output.remove());
  return copy.textContent;
}"""


def nudge(panel: Panel, label: str, keys: Iterable[str] = ONWARD) -> bool:
    """Press the first of these keys that moves the control, or the space bar on a box."""
    at = panel.value(label)
    box = panel.control(label).get_attribute("type") == "checkbox"
    for key in ("Space",) if box else keys:
        panel.press(label, key)
        if panel.value(label) != at:
            return True
    return False


def assert_moves(panel: Panel, widget: BookWidget, keys: Iterable[str] = ONWARD) -> dict[str, bool]:
    """Each control moves what torch says; for those that moved, whether anything else changed."""
    moved = {}
    before = panel.picture(), panel.el.evaluate(WRITTEN)
    for label in panel.labels():
        if label in TYPED or label not in panel.labels():  # one may hide another
            continue
        if nudge(panel, label, keys):
            same_move(widget, label, panel.value(label))
            assert_shown(panel, widget)
            after = panel.picture(), panel.el.evaluate(WRITTEN)
            moved[label], before = after != before, after
    return moved


# The controls of each widget on a bare page; those that are typed into have tests of their own.
CONTROLS = {
    "scores": ["Temperature", "Head", "Mask", COLOUR, OVERVIEW],
    "layers": ["Layer", "Head", COLOUR, OVERVIEW],
    "points": ["Width", "Query", "Kernel", "Point", "Point x", "Point y", COLOUR],
    "arrows": ["Temperature", "Score", "Arrow x", "Move", "Arrow y", COLOUR],
    "mask": ["Combine with", "its size", "by", COLOUR, "Layers", SIZE],
    "function": ["width", COLOUR, "causal", "falls"],
    "steps": ["Step", "Network", "Example", COLOUR],
    "heads": ["Head", "Layer", FIND, "Sentence", HIDE, COLOUR, COLOURS, COLUMNS],
    "model": ["Head", COMBINE, FIND, HIDE, "Attention", COLUMNS, COLOUR, COLOURS, "Layer"],
    "positions": ["Position", DISTANCE, PAIR, "Base", UNLIKE, "Scheme", "Dimensions"],
    "family": ["Position", "Blocks", "Family"],
    "online": ["Step", "its score", "Tile", FORGET, "Key", MASKED],
    "switches": ["Translate", "into", "Output", "times"],
    "follow": ["Step", "Head", "Token", "Block", "Sentence"],
    "writer": ["Character", "Temperature", "Top k", "Top p", COLOUR, "Prompt", "Seed"],
    "player": ["Step", "Head", "Layer", "Translate", "Attention", "into", "Temperature", "Seed"],
}
BUTTONS = {
    "writer": [
        *("407", "19\u21b5", "Say one", "Play", "Say 100", "Take back", "Clear"),
        *("unknown\n0.241 \u2192 0.461", "8\n0.195 \u2192 0.353", "new line\n0.116 \u2192 0.185"),
        *("flies\n0.109 cut", "like\n0.104 cut", "end of text\n0.037 cut", "3\n0.030 cut"),
        *("9\n0.027 cut", "4\n0.021 cut", "2\n0.021 cut"),
    ],
    "follow": [
        *("Previous", "Play", "Next", "Embed", "Norm", "q \u00b7 k", "\u00f7 \u221aD", "Mask"),
        *("Softmax", "Values", "Heads", "Add", "Norm", "Network", "Add"),
    ],
    "mask": [*PRESETS, "invert"],
    "player": [
        *("407", "1999", "Previous", "Play", "Next"),
        *("like\n0.700", "an\n0.140", "<unk>\n0.077", "<end>\n0.058", "arrow\n0.023"),
        *("Draw again", "Undo"),
    ],
    "steps": ["Previous", "Play", "Next"],
    "online": ["Previous", "Play", "Next"],
    "switches": ["407", "1999", "All on again"],
    "heads": ["0.2: 0.23", "0.0: 0.20", "0.1: 0.18", "1.0: 0.10", "1.1: 0.10", "Pin head 1.0"],
    "model": ["Let go of head 1.0", "0.1 \u00d7"],
}


# ---- What is shown.


def assert_map(panel: Panel, widget: BookWidget) -> None:
    """The map alone: all that the plainer widgets show."""
    assert_cells(panel.table()[1:], widget.shown(), mask_of(widget))


def mask_of(widget: BookWidget) -> Tensor | None:
    """The mask in force, which hatches the cells of a heatmap."""
    if isinstance(widget, AttentionHeatmap):
        return widget._mask()
    return widget.attn_mask if isinstance(widget, MaskPainter) else None


def assert_says(says: str, start: str, number: Tensor, digits: int) -> None:
    """A sentence begins so, and goes on with this number from 0 to 1."""
    assert says.startswith(start)
    found = float(says[len(start) :][: digits + 2])
    assert found == pytest.approx(float(number), abs=0.501 * 10**-digits)


def assert_points(panel: Panel, widget: KernelExplorer) -> None:
    prediction, weights = widget.predict()
    header, row = panel.table()
    order = sorted(range(len(widget.xs)), key=widget.xs.__getitem__)
    assert [float(x) for x in header[1:]] == pytest.approx(sorted(widget.xs), abs=0.00501)
    assert_cells([row], weights[order][None])
    note = panel.el.locator(".attn-note").inner_text()
    if weights.any():
        found = re.search(r"Prediction at (\S+): (\S+), an average of (\d+) points?", note)
        assert [float(number) for number in found.groups()] == [
            pytest.approx(widget.query, abs=0.00501),
            pytest.approx(prediction, abs=0.00501),
            int((weights > 0.005).sum()),
        ]
    else:
        assert note.startswith("No point lies within one width of"), note


def assert_arrows(panel: Panel, widget: ScoreExplorer) -> None:
    query = torch.tensor([widget.query], dtype=torch.float64)
    keys = torch.tensor(widget.key_vectors, dtype=torch.float64)
    scores = widget._scores[widget.score](query, keys)
    weights = widget.shown()
    assert_cells(panel.table()[1:], torch.cat([keys, scores.T, weights[:, None]], dim=1))
    entropy = -float(torch.special.xlogy(weights, weights).sum())
    note = panel.el.locator(".attn-note").inner_text()
    found = re.match(r"Entropy (\S+) nats of at most (\S+)\. ", note)
    assert float(found[1]) == pytest.approx(entropy, abs=0.00501)
    assert float(found[2]) == pytest.approx(torch.tensor(len(weights)).log().item(), abs=0.00501)
    assert_seen(note, widget.score, float(scores[0, max(0, widget.arrow)]))


def assert_seen(note: str, score: str, expected: float) -> None:
    """The score as the picture shows it: a length times a shadow, or a distance."""
    if score == "additive":
        assert "Score of" not in note
    elif score == "gaussian":
        (distance,) = re.findall(r"\u2212\u00bd \u00d7 (\S+)\u00b2,", note)
        assert -(float(distance) ** 2) / 2 == pytest.approx(expected, abs=0.04)
    else:
        length, shadow = map(float, re.findall(r": (\S+) \(length .* \u00d7 (\S+) \(", note)[0])
        found = length * shadow / (math.sqrt(2) if "\u221a2" in note else 1)
        assert found == pytest.approx(expected, abs=0.04)
        assert ("\u221a2" in note) == (score == "scaled_dot")


def assert_steps(panel: Panel, widget: AlignmentSteps) -> None:
    """The steps so far, the sentence on the last of them, and the judgement of the whole."""
    example, state, step = widget._now()
    header, *rows = panel.table()
    assert header[1:] == example["source"]
    assert [row[0] for row in rows] == state["target"][: step + 1]
    assert_cells(rows, widget.shown())
    says = panel.el.locator(".attn-said").inner_text()
    strongest, most = widget.shown()[step].max(-1)
    token, read = state["target"][step], example["source"][most]
    steps = f"Step {step + 1} of {len(state['target'])}"
    start = f"{steps}, \u201c\u2068{token}\u2069\u201d: reads \u201c\u2068{read}\u2069\u201d "
    assert_says(says, start, strongest, digits=2)
    assert panel.output("Step") == steps.removeprefix("Step ")
    judgement = panel.el.locator(".attn-verdict").inner_text()
    assert judgement.startswith("Right: " if state["wrong"] is None else "Wrong at step ")


def assert_heads(panel: Panel, widget: HeadExplorer) -> None:
    """The map of the head, the sentence on a token, and what is said of the head's score."""
    picture = widget._picture()
    tokens, keys = picture["query_tokens"], picture["key_tokens"]
    header, *rows = panel.table()
    assert header[1:] == keys
    assert [row[0] for row in rows] == tokens
    assert_cells(rows, widget.shown(), picture["mask"])
    which, said = panel.el.locator(".attn-said").all_inner_texts()
    rows, _ = widget._kept()
    chosen = max([n for n, place in enumerate(rows) if place <= widget.token], default=0)
    strongest, most = widget.shown()[chosen].max(-1)
    start = f"\u201c\u2068{tokens[chosen]}\u2069\u201d reads \u201c\u2068{keys[most]}\u2069\u201d "
    assert_says(said, start, strongest, digits=2)
    assert_judgement(which, widget)


def score_in(widget: HeadExplorer, sentence: dict) -> Tensor:
    """(layers, heads): how well each fits the pattern in one sentence; NaN without such a pair."""
    view = sentence["views"][widget.kind]
    weights, special = decode(view["weights"]), widget.data["special"]
    if widget.pattern in ("focused", "spread"):
        rows = [n for n, token in enumerate(view["queries"]) if token not in special]
        return torch.special.entr(weights[..., rows, :]).sum(-1).mean(-1) / math.log(2)
    return pattern_score(weights, pattern_cells(widget.pattern, view["queries"], special=special))


def scores_of(widget: HeadExplorer) -> Tensor:
    """(layers, heads): a mean over the sentences that can be scored."""
    found = [score_in(widget, sentence) for sentence in widget.data["sentences"]]
    return torch.stack(found).nanmean(0)


def assert_judgement(says: str, widget: HeadExplorer) -> None:
    """The entropy of the chosen head, its score over all sentences, its rank, its score in this."""
    head, (sentence, pattern) = (
        (widget.layer, widget.head),
        (widget._all()[widget.sentence], widget.pattern),
    )
    widget.pattern = "spread"
    entropy = float(score_in(widget, sentence)[head])
    widget.pattern = pattern
    start = f"Layer {widget.layer}, head {widget.head}, entropy "
    assert_says(says, start, entropy, digits=2)
    start = says[: len(start) + 9]
    assert start.endswith(" bits")
    if not pattern:
        assert says == start
        return
    scores = scores_of(widget)
    sentences = widget.data["sentences"]
    having = sum(not bool(score_in(widget, one).isnan().all()) for one in sentences)
    over = f"{having} of {len(sentences)}" if having < len(sentences) else str(having)
    found = re.fullmatch(
        rf"{start}: score (\S+) over {over} sentences?, rank (\d+) of {scores.numel()}; (.*)", says
    )
    ahead = (scores[head] - scores) * (1 if pattern == "focused" else -1)  # to how they are stored
    assert int((ahead > 1e-3).sum()) + 1 <= int(found[2]) <= int((ahead > -1e-3).sum()) + 1
    assert float(found[1]) == pytest.approx(float(scores[head]), abs=0.00501)
    here = float(score_in(widget, sentence)[head])
    if math.isnan(here):
        assert found[3] == "this one has no such pair."
    else:
        assert float(found[3].removesuffix(" in this one.")) == pytest.approx(here, abs=0.00501)


def assert_translated(panel: Panel, widget: TransformerPlayer) -> None:
    """Chosen head, all heads of the step, what could be said, and the words so far."""
    made, step, _, place = widget._now()
    heads = () if widget.data["compact"] else ((1, made.weights.cross), (2, made.weights.decoder))
    if heads:
        assert_head(panel, widget)
    for nth, weights in heads:
        rows = torch.cat([of_layer[0, :, step] for of_layer in weights])  # (layers * heads, keys)
        read = torch.arange(rows.shape[1]) <= step if nth == 2 else torch.ones(rows.shape[1]) > 0
        assert_cells(panel.table(nth)[1:], rows, read.expand(len(rows), -1))
    names = ["<pad>", "<start>", "<end>", "<unk>", *widget.data["target"]]
    likely = {token: float(cell) for token, cell, _ in panel.table(3 if heads else 0)[1:]}
    assert list(likely.values()) == sorted(likely.values(), reverse=True)
    expected = made.probabilities[step, 2:].tolist()
    assert likely == pytest.approx(dict(zip(names[2:], expected, strict=True)), abs=0.0000501)
    options = panel.el.locator(".attn-option").all_inner_texts()
    for text, (token, probability) in zip(options, likely.items(), strict=False):
        found, share = text.split()
        assert found == token
        assert float(share) == pytest.approx(probability, abs=0.00056)
    said = [names[token] for token in made.tokens]
    count, ends = len(said), made.tokens[step] == 2
    is_over = made.tokens[-1] == 2
    compound = widget.language in widget.data["compound"]
    words = ("" if compound else " ").join(said[: step + 1 - ends]).replace(" -", "-")
    stopped = "" if is_over else f" \u2026 (stopped after {count} tokens)"
    headline = panel.el.locator(".attn-translation").inner_text()
    language = dict(widget.data["languages"])[widget.language]
    rest = " \u2026" if step < count - 1 - (is_over and count > 1) else stopped
    assert headline == f"\u201c\u2068{widget.text}\u2069\u201d in {language}: {words}{rest}"
    assert panel.output("Step") == f"{step + 1} of {len(said)}"
    says = panel.el.locator(".attn-said").inner_text()
    start = (
        f"Step {step + 1} of {len(said)} writes \u201c\u2068{said[step]}\u2069\u201d, probability "
    )
    assert_says(says, start, made.probabilities[step, made.tokens[step]], digits=3)
    assert f", {place.partition(' of ')[2]}" in says


def assert_written(panel: Panel, widget: LanguageModelPlayer) -> None:
    """What the heads read, both distributions, the text with its surprise, and the sentences."""
    at, (own, after), text = widget._at(), widget.distributions(), widget._tokens()
    assert_cells(panel.table()[1:], read_by_heads(widget))
    names = [widget._label(n) for n in widget._writable]
    rows = {label: cells for label, *cells in panel.table(1)[1:]}
    for n, label in zip(widget._writable, names, strict=True):
        assert float(rows[label][0]) == pytest.approx(float(own[n]), abs=0.0000501)
        if after[n] > 0:
            assert float(rows[label][1]) == pytest.approx(float(after[n]), abs=0.0000501)
        else:
            assert rows[label][1] == "cut"
    likely = own.sort(descending=True, stable=True).indices.tolist()
    for option, n in zip(panel.el.locator(".attn-option").all(), likely, strict=False):
        label, shares = option.inner_text().split("\n")
        drawn = f" \u2192 {after[n]:.3f}" if after[n] > 0 else " cut"
        assert (label, shares) == (widget._label(n), f"{own[n]:.3f}{drawn}")
        assert option.get_attribute("aria-pressed") == str(text[at : at + 1] == [n]).lower()
    kept, bits = int((after > 0).sum()), [entropy_of(own), entropy_of(after)]
    note = f"Entropy {bits[0]:.2f} \u2192 {bits[1]:.2f} bits. {kept} of {len(names)} characters "
    assert f"{note}remain." in panel.el.locator(".attn-note").all_inner_texts()
    assert panel.output("Character") == f"{at + 1} of {len(text) + (not widget._full())}"
    assert_page(panel, widget)


def entropy_of(probabilities: Tensor) -> float:
    return abs(float(torch.special.xlogy(probabilities, probabilities).sum())) / math.log(2)


def assert_page(panel: Panel, widget: LanguageModelPlayer) -> None:
    """The characters so far, the height of the bars under them, and the sentence on one."""
    at, text, bits = widget._at(), widget._tokens(), surprise(widget)
    spans = panel.el.locator(".attn-page span").evaluate_all(
        """(all) => all.map((el) => [el.textContent, el.classList.contains("attn-here"),
          Number(el.style.getPropertyValue("--attn-bits"))])"""
    )
    assert [here for _, here, _ in spans] == [n == at for n in range(len(spans))]
    for (token, _, height), n, many in zip(spans, text, bits.tolist(), strict=False):
        known = widget.data["tokens"][n - 4] if n > 3 else None
        assert token == {2: "\u220e", 3: "\ufffd"}.get(n, known)
        assert height == pytest.approx(min(1, many / 8), abs=1e-6)
    says = panel.el.locator(".attn-said").inner_text()
    if at < len(text):
        found = re.match(rf"Character {at + 1}, .+: (\S+) bits, probability (\S+), rank", says)
        assert float(found[1]) == pytest.approx(float(bits[at]), abs=0.00501)
        assert float(found[2]) == pytest.approx(2 ** -float(bits[at]), abs=0.000501)
    else:
        assert says.startswith("After ")


def assert_head(panel: Panel, widget: TransformerPlayer) -> None:
    """The map of the chosen head, and what is said of its present row."""
    step, (_, keys, named) = widget._now()[1], widget._table()
    queries = [row[0] for row in named]
    weights, mask = widget.shown(), None
    if widget.attention == "decoder":
        mask = torch.ones_like(weights, dtype=torch.bool).tril()
        keys = [key if n <= step else "\u00b7" for n, key in enumerate(keys)]
    header, *rows = panel.table()
    assert header[1:] == keys
    assert [row[0] for row in rows] == queries[: len(weights)]
    assert_cells(rows, weights, mask)
    strongest, most = weights[0 if widget.attention == "encoder" else step].max(-1)
    says = panel.el.locator(".attn-said").inner_text()
    found = re.search(r" reads \u201c\u2068(.+?)\u2069\u201d (\d\.\d\d)", says)
    assert found[1] == keys[most]
    assert float(found[2]) == pytest.approx(float(strongest), abs=0.00501)


def assert_switched(panel: Panel, widget: HeadSwitches) -> None:
    """The map of the chosen head, both translations with their numbers, and every head's effect."""
    made, names = widget.shown(), widget._names
    kind, layer, head = widget.head.split(".")
    weights = getattr(made.switched.weights, kind)[int(layer)][0, int(head)]
    mask = torch.ones_like(weights).tril().bool() if kind == "decoder" else None
    assert_cells(panel.table()[1:], weights, mask)
    first, then = made.untouched, made.switched
    _, *rows = panel.table(1)
    assert [row[0] for row in rows] == [visible(names[token]) for token in first.tokens]
    for n, start in ((1, 0), (3, 1)):
        for row, *expected in zip(rows, *made.bits.tolist(), strict=True):
            numbers = [2**bits for bits in expected] if start == 0 else expected
            assert [float(cell) for cell in row[n : n + 2]] == pytest.approx(numbers, abs=0.0000501)
    lines = panel.el.locator(".attn-tokens").all()
    for line, tokens in zip(lines, (first.tokens, then.tokens), strict=True):
        found = line.locator("bdi").all_inner_texts()
        assert found == [visible(names[token]) for token in tokens]
    shares = lines[1].locator(".attn-token > span").all_inner_texts()
    chosen = then.probabilities.gather(1, torch.tensor(then.tokens)[:, None])[:, 0]
    assert [float(share) for share in shares] == pytest.approx(chosen.tolist(), abs=0.00501)
    said = panel.el.locator(".attn-said").first.inner_text().replace("\u2212", "-")
    before, after = made.bits.sum(1).tolist()
    each = (after - before) / len(first.tokens)
    numbers = [before, after, after - before, each] if widget.edits else [before]
    found = re.findall(r"[-+]?\d+\.\d\d", said.rpartition("translation: ")[2])
    assert [float(number) for number in found] == pytest.approx(numbers, abs=0.00501)
    assert_ranked(panel, widget)


def assert_ranked(panel: Panel, widget: HeadSwitches) -> None:
    """The list of heads, once it is there: the worst to lose first, the chosen one marked."""
    expect(panel.el.locator(".attn-stale")).to_have_count(0)
    effects = dict(zip(widget._heads, widget.effects().values(), strict=True))
    found = {}
    for row in panel.el.locator(".attn-ranked").all():
        name, number = (
            part.inner_text() for part in row.locator(":scope > span:not(.attn-bar)").all()
        )
        found[name.replace(" ", ".")] = float(number.replace("\u2212", "-"))
        assert (row.get_attribute("aria-selected") == "true") == (
            name.replace(" ", ".") == widget.head
        )
    assert list(found.values()) == sorted(found.values())
    assert found == pytest.approx(effects, abs=0.00501)


def assert_wired(panel: Panel, widget: FamilyDiagram) -> None:
    """The table, the masks by the package's own functions, and what is said of the position."""
    inputs, says, _, encoder = widget.wiring()
    picked, knows = widget._picked(), widget.knows()
    _, columns, rows = widget._table()
    assert panel.table() == [["position", *columns], *map(list, rows)]
    S, T = len(widget.data["source"]), len(widget.data["target"]) + 1
    masks = {
        "encoder-only": [torch.ones(S, S).bool()],
        "decoder-only": [causal_mask(S + 1)],
        "encoder-decoder": [torch.ones(S, S).bool(), causal_mask(T), torch.ones(T, S).bool()],
        "prefix": [prefix_mask(S + T, prefix=S)],
    }[widget.family]
    assert panel.el.locator("details:visible").count() == 1 + len(masks)
    for nth, mask in enumerate(masks, start=1):
        cells = [row[1:] for row in panel.table(nth)[1:]]
        assert cells == [["open" if one else "masked" for one in row] for row in mask.tolist()]
    said = panel.el.locator(".attn-said").inner_text()
    assert said.startswith(
        f"Position {picked}, \u201c\u2068{visible(inputs[picked])}\u2069\u201d, reads "
    )
    assert f"can know {int(knows.sum())} of {len(inputs)} tokens. " in said
    assert ("by cross-attention" in said) == (picked >= encoder > 0)
    if says[picked] is None:
        assert re.search(r"(Nothing is asked here|It says nothing): ", said)
    else:
        assert re.search(
            rf"trained to say.* \u201c\u2068{re.escape(visible(says[picked]))}\u2069", said
        )


def assert_online(panel: Panel, widget: OnlineSoftmax) -> None:
    """Both tables, and what is said of the output once all keys were seen."""
    tiles, S = widget.shown(), len(widget.scores)
    at = min(widget.step, len(tiles.total) - 1)
    scores = torch.tensor(widget.scores, dtype=torch.float64)
    scores[widget.masked] = -math.inf
    open_keys, seen = scores > -math.inf, torch.arange(S) < (at + 1) * widget.tile
    _, *rows = panel.table()
    assert [row[1] == "\u2212\u221e" for row in rows] == (~open_keys).tolist()
    assert [row[2] == "" for row in rows] == (~seen).tolist()
    assert_cells([["", *(row[2] or "0" for row in rows)]], tiles.exps[at][None])
    expected = torch.stack((tiles.exps[at] / tiles.total[at], masked_softmax(scores)))
    found = [["", *(row[n] for row in rows)] for n in (3, 4)]
    assert_cells(found, expected, torch.stack((open_keys & seen, open_keys)))
    factors = (tiles.maximum.roll(1) - tiles.maximum).exp().nan_to_num(0)  # 0 before any open key
    factors[0] = 0
    columns = (factors, tiles.total, *tiles.output.unbind(-1))
    steps = panel.table(1)[1:]
    assert_cells([[at, *rest] for at, _, *rest in steps], torch.stack(columns, dim=-1))
    maxima = [-math.inf if row[1] == "\u2212\u221e" else float(row[1]) for row in steps]
    assert maxima == pytest.approx(tiles.maximum.tolist(), abs=6e-4)
    assert panel.output("Step") == f"{at + 1} of {len(tiles.total)}"
    said = panel.el.locator(".attn-said").inner_text()
    right = torch.tensor(widget.data["values"]).double().mT @ masked_softmax(scores)
    is_right = bool((tiles.output[at] - right).norm() < 5e-4)
    assert said.endswith(f"The output is {'' if is_right else 'not '}the softmax\u2019s.") == (
        at == len(tiles.total) - 1
    )


def assert_positions(panel: Panel, widget: PositionExplorer) -> None:
    """The matrix, the curve, and the sentences on the pair and on where the two positions meet."""
    assert_cells(panel.table()[1:], widget.shown())
    assert_cells(panel.table(1)[1:], widget.similarity()[:, None])
    on_pair, on_curve = panel.el.locator(".attn-said").all_inner_texts()
    i, j = widget.position, widget.position - widget.distance
    value = widget.meeting()
    if value is None:
        assert on_curve == on_pair
        assert on_curve.startswith(f"There is no position {j}: ")
        return
    start = {
        "alibi": f"head {widget._chosen()} gives position {j} the weight ",
        "sinusoidal": f"Position {i} with position {j}: ",
    }.get(widget.scheme, f"Query at {i} with key at {j}: ")
    found = re.search(rf"{start}(-?\d+\.\d+)", on_curve)
    assert float(found[1]) == pytest.approx(value, abs=0.0501 if abs(value) >= 10 else 0.000501)
    assert_turned(on_pair, widget)


def assert_turned(says: str, widget: PositionExplorer) -> None:
    """What is said of the chosen pair, by the angles that torch finds between its two ends."""
    away, n = abs(widget.distance), widget._chosen()
    if widget.scheme == "alibi":
        slope = f"{away} \u00d7 1/{2 ** (n + 1)} = {away / 2 ** (n + 1):.3f} in head {n}"
        assert says.startswith(f"A key {away} away loses {slope}")
    elif widget.scheme in ("sinusoidal", "rotary"):
        found = re.search(rf" by {away} \u00d7 (\S+) = (\S+) rad, wherever", says)
        a_step = widget.base ** (-2 * n / widget.embed_dim)
        assert float(found[1]) == pytest.approx(a_step, rel=1e-3)
        assert float(found[2]) == pytest.approx(away * a_step, rel=1e-3)
    else:
        assert says.startswith("Nothing is turned")


def assert_followed(panel: Panel, widget: FollowToken) -> None:
    """Every number of the step, and where on its way the token is."""
    numbers_of_step = numbers_shown(widget)
    _, *rows = panel.table()
    assert [row[0] for row in rows] == list(numbers_of_step)
    for row, numbers in zip(rows, numbers_of_step.values(), strict=True):
        found = [row[: 1 + len(numbers)]]
        assert_cells(found, numbers[None], ~numbers.isnan()[None])
        assert not any(row[1 + len(numbers) :])
    assert panel.output("Step") == f"{widget._here()[0] + 1} of {len(widget._steps())}"


ASSERTED = {
    AlignmentSteps: assert_steps,
    FamilyDiagram: assert_wired,
    FollowToken: assert_followed,
    HeadExplorer: assert_heads,
    HeadSwitches: assert_switched,
    KernelExplorer: assert_points,
    LanguageModelPlayer: assert_written,
    OnlineSoftmax: assert_online,
    PositionExplorer: assert_positions,
    ScoreExplorer: assert_arrows,
    TransformerPlayer: assert_translated,
}


def assert_shown(panel: Panel, widget: BookWidget) -> None:
    """The table, and whatever else the widget writes, is what Python says is shown."""
    # Not by the type itself: anywidget derives one for each widget.
    check = next((one for kind, one in ASSERTED.items() if isinstance(widget, kind)), assert_map)
    check(panel, widget)


# ---- The widget that a page holds, live again.


def from_page(widget: str, state: dict) -> BookWidget:
    """A widget in Python with the state that stands on a page."""
    if widget == "explore":
        return explorer_from_page(state)
    one = torch.eye(1)
    made = {
        "heatmap": lambda: AttentionHeatmap(one),
        "kernel": lambda: KernelExplorer([0.0], [0.0]),
        "score": lambda: ScoreExplorer(
            (0.0, 0.0), one.expand(1, 2), **scores_from_page(state["data"]["parameters"])
        ),
        "mask": lambda: MaskPainter(one),
        "position": PositionExplorer,
        "family": FamilyDiagram,
        "online": lambda: OnlineSoftmax([0.0], [[0.0, 0.0]]),
        "translator": lambda: player_from_page(state["data"]),
        "switches": lambda: switches_from_page(state["data"]),
        "sampler": lambda: writer_from_page(state["data"]),
        "follow": lambda: FollowToken(Encoder(TransformerConfig(vocab_size=9, embed_dim=8)), ["a"]),
        "heads": lambda: heads_from_page(state["data"]),
        "alignment": lambda: AlignmentSteps([Example(["a"], "a", {"a": (["a"], one)})]),
    }[widget]()
    with made.hold_trait_notifications():
        for name, value in state.items():
            setattr(made, name, value)
    return made


def heads_from_page(data: dict) -> HeadExplorer:
    """An explorer of the maps that a page holds whole."""
    sentences = []
    for sentence in data["sentences"]:
        maps = {}
        for view in sentence["views"]:
            mask = None if view["mask"] is None else decode(view["mask"])
            layers = list(decode(view["weights"]))
            maps[view["name"]] = Maps(layers, view["queries"], view["keys"], mask)
        sentences.append(maps)
    return HeadExplorer(sentences, special=data["special"])


def scores_from_page(parameters: dict) -> dict[str, torch.nn.Module]:
    """The learned scores that a page offers."""
    known = {name: torch.tensor(numbers) for name, numbers in parameters.items()}
    modules = {}
    if "bilinear" in known:
        modules["bilinear"] = BilinearScore(2, 2)
        modules["bilinear"].weight.weight.data = known["bilinear"]
    if "v_proj" in known:
        modules["additive"] = AdditiveScore(2, 2, len(known["q_proj"]))
        for name in ("q_proj", "k_proj"):
            getattr(modules["additive"], name).weight.data = known[name]
        modules["additive"].v_proj.weight.data = known["v_proj"][None]
    return modules


def player_from_page(data: dict) -> TransformerPlayer:
    """A player of the rounded model, which rounds to itself."""
    return translating_from_page(TransformerPlayer, data, "compact")


def switches_from_page(data: dict) -> HeadSwitches:
    """The same model with its heads; their means come with the data."""
    return translating_from_page(HeadSwitches, data)


def translating_from_page(kind: type, data: dict, *more: str) -> BookWidget:
    vocabularies = Vocabulary(data["source"]), Vocabulary(data["target"])
    model = unpack_transformer(data["model"])
    given = {name: data[name] for name in ("examples", "domain", *more)}
    return kind(model, *vocabularies, languages=dict(data["languages"]), **given)


def writer_from_page(data: dict) -> LanguageModelPlayer:
    """A player of the rounded language model, which rounds to itself."""
    model = unpack_transformer(data["model"])
    given = {"most": data["most"], "examples": data["examples"]}
    return LanguageModelPlayer(model, Vocabulary(data["tokens"]), prompt="", **given)


def explorer_from_page(state: dict) -> BookWidget:
    """An explorer whose function looks its weights up in the page's frames."""
    grid = {control["name"]: control["choices"] for control in state["data"]["controls"]}
    frames = decode(state["frames"])

    def frame(**values: object) -> Tensor:
        at = 0
        for name, choices in grid.items():
            at = at * len(choices) + choices.index(values[name])
        return frames[at]

    shown = {"query_tokens": state["data"]["queries"], "key_tokens": state["data"]["keys"]}
    made = explore(
        frame, page=True, **shown, **{name: list(choices) for name, choices in grid.items()}
    )
    made.values = state["values"]
    return made
