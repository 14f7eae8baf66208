"""How a reader moves every control of every widget, and what torch says is shown then."""

import math
import re
from collections.abc import Callable, Iterable

import pytest
import torch
from playwright.sync_api import expect
from torch import Tensor

from attn_notes.masks import causal_mask, masked_softmax, prefix_mask
from attn_notes.palette import visible
from attn_notes.patterns import PATTERNS, pattern_cells, pattern_score
from attn_widgets import FamilyDiagram
from attn_widgets.base import BookWidget
from attn_widgets.budget import METHODS, in_bytes
from attn_widgets.encoding import decode
from attn_widgets.family import FAMILIES
from attn_widgets.kernel import KERNELS
from attn_widgets.mask import PRESETS
from tests.browser.panel import Panel, assert_cells, number
from tests.parts import shown as numbers_shown
from tests.players import read_by_heads, surprise

# ---- What a control does, in Python. A move gets the widget and where the control stands now.

Move = Callable[[BookWidget, float], None]


def sets(trait: str, *choices: object) -> Move:
    """Set a trait to the choice at which the control stands, or to its number."""

    def move(widget: BookWidget, at: float) -> None:
        number_or_box = type(getattr(widget, trait))
        setattr(widget, trait, choices[int(at)] if choices else number_or_box(at))

    return move


def offered(trait: str, among: str) -> Move:
    """Set a trait to one of the choices that the widget's data list."""
    return lambda widget, at: setattr(widget, trait, widget.data[among][int(at)])


def measured(method: str, trait: str) -> Move:
    """Set a trait to one of the settings that were measured of a method."""
    return lambda widget, at: setattr(widget, trait, widget.data["errors"][method][int(at)][0])


def two_digits(low: float, high: float) -> list[float]:
    """A logarithmic slider stands at an index into all the numbers of two digits."""
    numbers = (float(f"{n}e{power}") for power in range(-3, 2) for n in range(10, 100))
    return [number for number in numbers if low <= number <= high]


def move_point(trait: str) -> Move:
    def move(widget: BookWidget, at: float) -> None:
        values = getattr(widget, trait)
        moved = [at if n == widget.point else x for n, x in enumerate(values)]
        setattr(widget, trait, moved)

    return move


def move_arrow(axis: int) -> Move:
    def move(widget: BookWidget, at: float) -> None:
        ends = [list(end) for end in (widget.query, *widget.key_vectors)]
        ends[widget.arrow + 1][axis] = round(at, 4)
        widget.query, *widget.key_vectors = ends

    return move


def choose_example(widget: BookWidget, at: float) -> None:
    widget.example, widget.step = int(at), 0


def move_score(widget: BookWidget, at: float) -> None:
    """A score that is moved is open again."""
    widget.scores = [round(at, 4) if n == widget.key else x for n, x in enumerate(widget.scores)]
    widget.masked = [n for n in widget.masked if n != widget.key]


def mask_key(widget: BookWidget, at: float) -> None:
    widget.masked = sorted({*widget.masked} - {widget.key} | ({widget.key} if at else set()))


def choose_family(widget: BookWidget, at: float) -> None:
    """The place where this family is asked for the same word is picked with it."""
    widget.family = FAMILIES[int(at)]
    words = widget.data["source"], widget.data["target"]
    widget.position = FamilyDiagram(*words, family=widget.family).position


def choose_language(widget: BookWidget, at: float) -> None:
    widget.language = widget.data["languages"][int(at)][0]
    if widget.has_trait("step"):
        widget.step = widget.data["most"]


def to_block(widget: BookWidget, at: float) -> None:
    """The same step of another block, or its first."""
    (number, name, block, _), steps = widget._here(), widget._steps()
    before = sum(one[:2] == (name, block) for one in steps[:number])
    there = [n for n, (_, one, _) in enumerate(steps) if one == int(at)]
    same = [n for n in there if steps[n][0] == name]
    widget.step = same[before] if len(same) > before else there[0]


def edit_head(widget: BookWidget, change: object) -> None:
    others = [one for one in widget.edits.split(",") if one and not one.startswith(widget.head)]
    widget.edits = ",".join([*others, f"{widget.head}:{change}"])


def choose_output(widget: BookWidget, at: float) -> None:
    edit_head(widget, (1, 0, 0.5, "mean", "other")[int(at)])


def explored(label: str) -> Move:
    def move(widget: BookWidget, at: float) -> None:
        (control,) = [one for one in widget.data["controls"] if one["name"] == label]
        widget.values = {**widget.values, label: control["choices"][int(at)]}

    return move


COLOUR = "Colour up to the largest weight"
OVERVIEW = "All heads at once"
HIDE, FIND = "Hide special tokens", "Heads that read"
COLOURS, COLUMNS = "Colours", "Tokens in columns"
COMBINE = "The map shows their"
MASKED, FORGET = "Masked (\u2212\u221e)", "Forget to rescale"
SIZE = "Size of the pattern"
MEMORY = ("Features", "Forget at each write", "Erase first (delta rule)")
MEMORY += ("Write the first key again",)
PAIR, DISTANCE, UNLIKE = "Pair", "Distance to the other", "Key unlike the query"

# The controls that do not set the trait of their own name to their own number.
OTHERS: dict[str, dict[str, Move]] = {
    "heatmap": {
        "Temperature": sets("temperature", *two_digits(0.05, 20)),
        "Mask": sets("mask_choice", "none", "causal", "given"),
        OVERVIEW: sets("overview"),
    },
    "kernel": {
        "Kernel": sets("kernel", *KERNELS),
        "Width": sets("bandwidth", *two_digits(0.02, 10)),
        "Point x": move_point("xs"),
        "Point y": move_point("ys"),
    },
    "score": {
        "Score": offered("score", "offered"),
        "Temperature": sets("temperature", *two_digits(0.05, 20)),
        "Move": lambda widget, at: setattr(widget, "arrow", int(at) - 1),
        "Arrow x": move_arrow(0),
        "Arrow y": move_arrow(1),
    },
    "mask": {
        SIZE: sets("size"),
        "Combine with": sets("second", *PRESETS),
        "its size": sets("second_size"),
        "by": sets("combine", "and", "or"),
    },
    "alignment": {"Example": choose_example, "Network": offered("state", "states")},
    "heads": {
        HIDE: sets("hide_special"),
        FIND: sets("pattern", "", *PATTERNS, "focused", "spread"),
        COLOURS: sets("scale", "linear", "root", "row"),
        COLUMNS: sets("columns"),
        COMBINE: sets("combine", "mean", "max"),
        "Attention": sets("kind"),
    },
    "position": {
        DISTANCE: sets("distance"),
        PAIR: sets("pair"),
        "Head": sets("pair"),  # of ALiBi
        "Scheme": offered("scheme", "schemes"),
        "Dimensions": offered("embed_dim", "dimensions"),
        "Base": offered("base", "bases"),
        UNLIKE: sets("unlike"),
    },
    "translator": {
        "into": choose_language,
        "Attention": sets("attention", "cross", "decoder", "encoder"),
    },
    "family": {"Family": choose_family, "Blocks": sets("num_layers")},
    "online": {"its score": move_score, MASKED: mask_key, FORGET: sets("forget")},
    "sampler": {"Character": sets("position")},
    "switches": {"into": choose_language, "Output": choose_output, "times": edit_head},
    "follow": {"Block": to_block},
    "budget": {
        "Keep": sets("method", *METHODS),
        "Key-value heads": measured("grouped", "kv_heads"),
        "Numbers of the latent": measured("latent", "latent"),
        "Tokens of the window": measured("window", "window"),
        "Bits a number": measured("bits", "bits"),
        "Length": offered("length", "lengths"),
        "Layers": sets("num_layers"),
        "Heads": offered("num_heads", "heads"),
        "Numbers of a head": offered("head_dim", "widths"),
    },
    "memory": {
        "Keys": sets("count"),
        "Features": sets("features", "identity", "elu"),
        "Forget at each write": sets("forget"),
        "Erase first (delta rule)": sets("erase"),
        "Write the first key again": sets("rewrite"),
    },
}


def same_move(widget: BookWidget, label: str, at: float) -> None:
    """Do in Python what the control with this label did on the page."""
    if label == COLOUR:
        move = sets("shared_scale")
    elif widget._widget == "explore":
        move = explored(label)
    else:
        own = sets(label.lower().replace(" ", "_"))
        move = OTHERS.get(widget._widget, {}).get(label, own)
    move(widget, at)


# ---- Journeys: every control, by keys that move it.

TYPED = {"Translate", "Other text", "Prompt", "Type a German number"}
# What shows nothing in the state that earlier controls have left.
QUIET = {
    "scores": {COLOUR},  # a weight is 1 already
    # Every key is reached; no pattern with a size is painted; the first row has a weight of 1.
    "mask": {"Layers", SIZE, COLOUR},
    "model": {COMBINE},  # one head is its own mean
    "follow": {"Head"},  # before the heads part
    "writer": {"Seed"},  # at temperature 0
    "budget": {"Key-value heads"},  # hidden once another way to keep is chosen
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
    if panel.control(label).is_disabled():
        return False
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
    "arrows": ["Temperature", "Score", "Arrow x", "Move", "Arrow y"],
    "mask": ["Combine with", COLOUR, "Layers", SIZE],
    "function": ["width", COLOUR, "causal", "falls"],
    "steps": ["Step", "Network", "Example", COLOUR],
    "heads": ["Head", "Layer", FIND, "Sentence", HIDE, COLOUR, COLOURS, COLUMNS],
    "model": ["Head", COMBINE, FIND, HIDE, "Attention", COLUMNS, COLOUR, COLOURS, "Layer"],
    "positions": ["Position", DISTANCE, PAIR, "Base", "Scheme", "Dimensions"],
    "family": ["Position", "Blocks", "Family"],
    "online": ["Step", "its score", "Tile", FORGET, "Key", MASKED],
    "switches": ["Translate", "into", "Output", "times"],
    "follow": ["Step", "Head", "Token", "Block", "Sentence"],
    "memory": ["Step", "Query", "Keys", *MEMORY],
    "budget": ["Key-value heads", "Length", "Layers", "Heads", "Numbers of a head", "Keep"],
    "writer": ["Character", "Temperature", "Top k", "Top p", COLOUR, "Prompt", "Seed"],
    "player": ["Step", "Head", "Layer", "Translate", "Attention", "into", "Temperature", "Seed"],
}

# ---- What is shown.


def assert_map(panel: Panel, widget: BookWidget) -> None:
    """The map alone: all that the plainer widgets show."""
    assert_cells(panel.table()[1:], widget.shown(), mask_of(widget))


def mask_of(widget: BookWidget) -> Tensor | None:
    """The mask in force, which hatches the cells of a heatmap."""
    if widget._widget == "heatmap":
        return widget._mask()
    return widget.attn_mask if widget._widget == "mask" else None


def assert_says(says: str, start: str, number: Tensor, digits: int) -> None:
    """A sentence begins so, and goes on with this number from 0 to 1."""
    assert says.startswith(start)
    found = float(says[len(start) :][: digits + 2])
    assert found == pytest.approx(float(number), abs=0.501 * 10**-digits)


def assert_points(panel: Panel, widget: BookWidget) -> None:
    prediction, weights = widget.predict()
    header, row = panel.table()
    order = sorted(range(len(widget.xs)), key=widget.xs.__getitem__)
    assert [number(x) for x in header[1:]] == pytest.approx(sorted(widget.xs), abs=0.00501)
    assert_cells([row], weights[order][None])
    note = panel.el.locator(".attn-prediction").inner_text()
    if weights.any():
        found = re.search(r"Prediction at (\S+): (\S+), an average of (\d+) points?", note)
        assert [number(text) for text in found.groups()] == [
            pytest.approx(widget.query, abs=0.00501),
            pytest.approx(prediction, abs=0.00501),
            int((weights > 0.005).sum()),
        ]
    else:
        assert note.startswith("No point lies within one width of"), note


def assert_arrows(panel: Panel, widget: BookWidget) -> None:
    query = torch.tensor([widget.query], dtype=torch.float64)
    keys = torch.tensor(widget.key_vectors, dtype=torch.float64)
    scores = widget._scores[widget.score](query, keys)
    weights = widget.shown()
    assert_cells(panel.table()[1:], torch.cat([keys, scores.T, weights[:, None]], dim=1))
    entropy = -float(torch.special.xlogy(weights, weights).sum())
    note = panel.el.locator(".attn-entropy").inner_text()
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
        length, shadow = map(number, re.findall(r": (\S+) \(length .* \u00d7 (\S+) \(", note)[0])
        found = length * shadow / (math.sqrt(2) if "\u221a2" in note else 1)
        assert found == pytest.approx(expected, abs=0.04)
        assert ("\u221a2" in note) == (score == "scaled_dot")


def assert_steps(panel: Panel, widget: BookWidget) -> None:
    """The steps so far, the sentence on the last of them, and the judgement of the whole."""
    example, state, step = widget._now()
    header, *rows = panel.table()
    assert header[1:] == example["source"]
    assert [row[0] for row in rows] == state["target"][: step + 1]
    assert_cells(rows, widget.shown())
    says = panel.said()
    strongest, most = widget.shown()[step].max(-1)
    token, read = state["target"][step], example["source"][most]
    steps = f"Step {step + 1} of {len(state['target'])}"
    start = f"{steps}, \u201c\u2068{token}\u2069\u201d: reads \u201c\u2068{read}\u2069\u201d "
    assert_says(says, start, strongest, digits=2)
    assert panel.output("Step") == steps.removeprefix("Step ")
    judgement = panel.el.locator(".attn-verdict").inner_text()
    assert judgement.startswith("Right: " if state["wrong"] is None else "Wrong at step ")


def assert_heads(panel: Panel, widget: BookWidget) -> None:
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


def score_in(widget: BookWidget, sentence: dict, pattern: str) -> Tensor:
    """(layers, heads): how well each fits the pattern in one sentence; NaN without such a pair."""
    view = sentence["views"][widget.kind]
    weights, special = decode(view["weights"]), widget.data["special"]
    if pattern in ("focused", "spread"):
        rows = [n for n, token in enumerate(view["queries"]) if token not in special]
        return torch.special.entr(weights[..., rows, :]).sum(-1).mean(-1) / math.log(2)
    return pattern_score(weights, pattern_cells(pattern, view["queries"], special=special))


def scores_of(widget: BookWidget) -> Tensor:
    """(sentences, layers, heads): their mean over the sentences that can be scored counts."""
    sentences = widget.data["sentences"]
    return torch.stack([score_in(widget, sentence, widget.pattern) for sentence in sentences])


def assert_judgement(says: str, widget: BookWidget) -> None:
    """The entropy of the chosen head, its score over all sentences, its rank, its score in this."""
    head, here = (widget.layer, widget.head), widget._all()[widget.sentence]
    start = f"Layer {widget.layer}, head {widget.head}, entropy "
    assert_says(says, start, score_in(widget, here, "spread")[head], digits=2)
    entropy, _, judgement = says.partition(" bits")
    assert len(entropy) == len(start) + 4
    if not widget.pattern:
        assert judgement == ""
        return
    every = scores_of(widget)
    scores, having = every.nanmean(0), sum(not bool(one.isnan().all()) for one in every)
    over = f"{having} of {len(every)}" if having < len(every) else str(having)
    found = re.fullmatch(
        rf": score (\S+) over {over} sentences?, rank (\d+) of {scores.numel()}; (.*)", judgement
    )
    better = 1 if widget.pattern == "focused" else -1
    ahead = (scores[head] - scores) * better  # to how they are stored
    assert int((ahead > 1e-3).sum()) + 1 <= int(found[2]) <= int((ahead > -1e-3).sum()) + 1
    assert float(found[1]) == pytest.approx(float(scores[head]), abs=0.00501)
    score = float(score_in(widget, here, widget.pattern)[head])
    if math.isnan(score):
        assert found[3] == "this one has no such pair."
    else:
        assert float(found[3].removesuffix(" in this one.")) == pytest.approx(score, abs=0.00501)


def assert_translated(panel: Panel, widget: BookWidget) -> None:
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
    says = panel.said()
    start = (
        f"Step {step + 1} of {len(said)} writes \u201c\u2068{said[step]}\u2069\u201d, probability "
    )
    assert_says(says, start, made.probabilities[step, made.tokens[step]], digits=3)
    assert f", {place.partition(' of ')[2]}" in says


def assert_written(panel: Panel, widget: BookWidget) -> None:
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


def assert_page(panel: Panel, widget: BookWidget) -> None:
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
    says = panel.said()
    if at < len(text):
        found = re.match(rf"Character {at + 1}, .+: (\S+) bits, probability (\S+), rank", says)
        assert float(found[1]) == pytest.approx(float(bits[at]), abs=0.00501)
        assert float(found[2]) == pytest.approx(2 ** -float(bits[at]), abs=0.000501)
    else:
        assert says.startswith("After ")


def assert_head(panel: Panel, widget: BookWidget) -> None:
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
    says = panel.said()
    found = re.search(r" reads \u201c\u2068(.+?)\u2069\u201d (\d\.\d\d)", says)
    assert found[1] == keys[most]
    assert float(found[2]) == pytest.approx(float(strongest), abs=0.00501)


def assert_switched(panel: Panel, widget: BookWidget) -> None:
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
            assert [number(cell) for cell in row[n : n + 2]] == pytest.approx(numbers, abs=5.01e-5)
    lines = panel.el.locator(".attn-tokens").all()
    for line, tokens in zip(lines, (first.tokens, then.tokens), strict=True):
        found = line.locator("bdi").all_inner_texts()
        assert found == [visible(names[token]) for token in tokens]
    shares = lines[1].locator(".attn-token > span").all_inner_texts()
    chosen = then.probabilities.gather(1, torch.tensor(then.tokens)[:, None])[:, 0]
    assert [float(share) for share in shares] == pytest.approx(chosen.tolist(), abs=0.00501)
    said = panel.said().replace("\u2212", "-")
    before, after = made.bits.sum(1).tolist()
    each = (after - before) / len(first.tokens)
    numbers = [before, after, after - before, each] if widget.edits else [before]
    found = re.findall(r"[-+]?\d+\.\d\d", said.rpartition("translation: ")[2])
    assert [float(number) for number in found] == pytest.approx(numbers, abs=0.00501)
    assert_ranked(panel, widget)


def assert_ranked(panel: Panel, widget: BookWidget) -> None:
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


def assert_wired(panel: Panel, widget: BookWidget) -> None:
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
    panel.unfold()
    assert panel.el.locator("details.attn-table:visible").count() == 1 + len(masks)
    for nth, mask in enumerate(masks, start=1):
        cells = [row[1:] for row in panel.table(nth)[1:]]
        assert cells == [["open" if one else "masked" for one in row] for row in mask.tolist()]
    said = panel.said()
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


def assert_online(panel: Panel, widget: BookWidget) -> None:
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
    maxima = [-math.inf if row[1] == "\u2212\u221e" else number(row[1]) for row in steps]
    assert maxima == pytest.approx(tiles.maximum.tolist(), abs=6e-4)
    assert panel.output("Step") == f"{at + 1} of {len(tiles.total)}"
    said = panel.said()
    right = torch.tensor(widget.data["values"]).double().mT @ masked_softmax(scores)
    is_right = bool((tiles.output[at] - right).norm() < 5e-4)
    assert said.endswith(f"The output is {'' if is_right else 'not '}the softmax\u2019s.") == (
        at == len(tiles.total) - 1
    )


def assert_positions(panel: Panel, widget: BookWidget) -> None:
    """The matrix, the curve, and the sentences on the pair and on where the two positions meet."""
    assert_cells(panel.table()[1:], widget.shown())
    assert_cells(panel.table(1)[1:], widget.similarity()[:, None])
    on_curve, on_pair = panel.el.locator(".attn-said").all_inner_texts()
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
    found = re.search(rf"{start}(\u2212?\d+\.\d+)", on_curve)
    assert number(found[1]) == pytest.approx(value, abs=0.0501 if abs(value) >= 10 else 0.000501)
    assert_turned(on_pair, widget)


def assert_turned(says: str, widget: BookWidget) -> None:
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


def assert_followed(panel: Panel, widget: BookWidget) -> None:
    """Every number of the step, and where on its way the token is."""
    numbers_of_step = numbers_shown(widget)
    _, *rows = panel.table()
    assert [row[0] for row in rows] == list(numbers_of_step)
    for row, numbers in zip(rows, numbers_of_step.values(), strict=True):
        found = [row[: 1 + len(numbers)]]
        assert_cells(found, numbers[None], ~numbers.isnan()[None])
        assert not any(row[1 + len(numbers) :])
    assert panel.output("Step") == f"{widget._here()[0] + 1} of {len(widget._steps())}"


def assert_memory(panel: Panel, widget: BookWidget) -> None:
    """The state, both answers, every key's error, and what is said of the query."""
    shown = widget.shown()
    at = min(widget.step, len(shown.states) - 1)
    assert_cells(panel.table()[1:], shown.states[at])
    answers = panel.table(1)[1:]
    nearest = math.floor(min(widget.query, widget.count - 1) + 0.5)
    is_written = nearest <= at
    columns = (shown.answer, shown.softmax, shown.wanted)[: 2 + is_written]
    assert_cells([row[: 1 + len(columns)] for row in answers], torch.stack(columns, dim=-1))
    assert all(row[-1] == "not written" for row in answers) or is_written
    found = [row[1] for row in panel.table(2)[1:]]
    assert [cell == "not written" for cell in found] == shown.errors.isnan().tolist()
    known = shown.errors[: min(at + 1, widget.count)]
    assert_cells([["", cell] for cell in found[: len(known)]], known[:, None])
    assert panel.output("Step") == f"{at + 1} of {len(shown.states)}"
    length = shown.wanted.norm()
    errors = [float((x - shown.wanted).norm() / length) for x in (shown.answer, shown.softmax)]
    said = re.search(r"error (\S+) from the state, (\S+) from the softmax", panel.said())
    assert bool(said) == is_written
    if said:
        assert [*map(float, said.groups())] == pytest.approx(errors, abs=0.00501)


def assert_budget(panel: Panel, widget: BookWidget) -> None:
    """Every method's bytes and error, those of every setting, and what is said of the chosen."""
    _, *rows = panel.table()
    assert [row[1] for row in rows] == [str(widget.setting(name)) for name in METHODS]
    shown = widget.shown()
    assert [float(row[2]) for row in rows] == pytest.approx(shown.per_token.tolist(), abs=6e-4)
    assert [row[3] for row in rows] == [in_bytes(x) for x in shown.total.tolist()]
    unknown = ["not measured" if error.isnan() else f"{error:.4f}" for error in shown.error]
    assert [row[4] for row in rows] == unknown
    _, *every = panel.table(1)
    errors = [f"{x:.4f}" for each in widget.data["errors"].values() for _, x in each]
    assert [row[3] for row in every] == errors
    windows = [row for row in every if row[0] == "window"]
    tokens, full = widget.data["tokens"], float(shown.per_token[0])
    for row in windows:  # the share of the tokens that were measured, whatever the length
        kept = full * min(1, int(row[1]) / tokens)
        assert float(row[2]) == pytest.approx(kept, abs=6e-4)
    at = METHODS.index(widget.method)
    said = panel.said()
    assert f": {round(float(shown.per_token[at]), 2):g} bytes a token and layer" in said
    assert f" tokens takes {in_bytes(float(shown.total[at]))} in " in said
    if widget.method == "full":
        assert "layer. Nothing is lost. A text of" in said
    elif shown.error[at].isnan():
        assert "Its error was not measured with so many heads." in said
    else:
        digits = 3 if shown.error[at] < 0.0995 else 2
        assert f" Error {shown.error[at]:.{digits}f}" in said


ASSERTED = {
    "budget": assert_budget,
    "alignment": assert_steps,
    "family": assert_wired,
    "follow": assert_followed,
    "heads": assert_heads,
    "kernel": assert_points,
    "memory": assert_memory,
    "online": assert_online,
    "position": assert_positions,
    "sampler": assert_written,
    "score": assert_arrows,
    "switches": assert_switched,
    "translator": assert_translated,
}


def assert_shown(panel: Panel, widget: BookWidget, **traits: object) -> None:
    """What the widget shows and says is what Python says, there with these traits."""
    for name, value in traits.items():
        setattr(widget, name, value)
    ASSERTED.get(widget._widget, assert_map)(panel, widget)
