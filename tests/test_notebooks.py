"""Every notebook keeps every rule, and every rule can be broken."""

import ast
import base64
from pathlib import Path

import pytest

from attn_notes import show_source
from tests import notebook_rules as rules

BOOK = Path(__file__).parents[1] / "book"
NOTEBOOKS = sorted(BOOK.glob("*.ipynb"))
CHAPTERS = [path for path in NOTEBOOKS if path.stem[:2].isdigit()]


def by_name(rule):
    return rule.__name__


@pytest.mark.parametrize("rule", rules.RULES, ids=by_name)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_keeps_the_rules(path, rule):
    assert rule(rules.read(path)) == []


@pytest.mark.parametrize("rule", rules.CHAPTER_RULES, ids=by_name)
@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_a_chapter_keeps_the_rules_of_chapters(path, rule):
    assert rule(rules.read(path)) == []


def test_there_is_an_opening_page_and_the_chapters_count_from_one():
    assert BOOK / "index.ipynb" in NOTEBOOKS
    assert [int(path.stem[:2]) for path in CHAPTERS] == list(range(1, len(CHAPTERS) + 1))
    assert CHAPTERS


MOST_COLUMNS = 78  # what a page shows without a scroll bar


def shown_sources(cells):
    """(the argument, the source) of every call of `show_source`."""
    nodes = [node for cell in rules.code(cells) for node in ast.walk(rules.parse(cell))]
    for node in nodes:
        if not isinstance(node, ast.Call) or getattr(node.func, "id", "") != "show_source":
            continue
        shown, names = ast.unparse(node.args[0]), {}
        for line in nodes:
            if isinstance(line, ast.ImportFrom) and shown.split(".")[0] in {
                alias.asname or alias.name for alias in line.names
            }:
                exec(ast.unparse(line), names)
        yield shown, repr(show_source(eval(shown, names)))


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_no_shown_source_is_wider_than_the_page(path):
    wide = [
        (shown, line)
        for shown, source in shown_sources(rules.read(path))
        for line in source.splitlines()
        if len(line) > MOST_COLUMNS
    ]
    assert wide == []


def test_shown_sources_are_found():
    cells = [cell("from attn_notes import masks as m"), cell("show_source(m.causal_mask)")]
    assert [shown for shown, _ in shown_sources(cells)] == ["m.causal_mask"]
    assert sum(len(list(shown_sources(rules.read(path)))) for path in CHAPTERS) > 15


# Rules that are broken on purpose


def cell(source="", *, count=1, tags=(), outputs=()):
    return {
        "cell_type": "code",
        "id": "a-cell",
        "source": source,
        "execution_count": count,
        "metadata": {"tags": list(tags)},
        "outputs": list(outputs),
    }


def markdown(source, tags=()):
    return {"cell_type": "markdown", "id": "text", "source": source, "metadata": {"tags": tags}}


def shows(**data):
    mimes = {name.replace("_", "/"): value for name, value in data.items()}
    return {"output_type": "display_data", "metadata": {}, "data": mimes}


def still(width):
    begins = b"\x89PNG\r\n\x1a\n" + (13).to_bytes(4) + b"IHDR" + width.to_bytes(4)
    return shows(image_png=base64.b64encode(begins).decode())


WIDGET = cell(outputs=[shows(text_html="<attn-widget></attn-widget>")])
STILL = cell(outputs=[shows(image_png="iVBOR")])
DIALLED = '{"widget": "dial", "state": {"turn": 1.5, "name": "a", "on": false}}'
DIALLED = f'<attn-widget><script type="application/json">{DIALLED}</script></attn-widget>'
DIAL = cell(outputs=[shows(text_html=DIALLED)])
ADDRESS = "<object at 0x7f00deadbeef>"
ERROR = {"output_type": "error", "ename": "ValueError", "evalue": "", "traceback": []}
VIEW = {
    "output_type": "display_data",
    "data": {"application/vnd.jupyter.widget-view+json": {"model_id": "1"}},
}


def sets(link):
    return markdown(f'turn <a href="#{link}">the dial</a>')


def exercise(label, kind="exercise", body="★ 5 minutes."):
    head = f":label: {label}\n" if kind == "exercise" else ":class: dropdown\n"
    title = "A title" if kind == "exercise" else label
    return markdown(f"````{{{kind}}} {title}\n{head}\n{body}\n````")


def solved(*names):
    return [exercise(name, kind) for name in names for kind in ("exercise", "solution")]


FOUR = solved("a", "b", "c", "d")
PLAIN = "```python\nx = torch.zeros(2)\n```"


def uncompared(times, others=0, source="# a time"):
    return [cell(source, tags=["nbval-ignore-output"])] * times + [cell()] * others


def prints(words, name="stdout"):
    return cell(outputs=[{"output_type": "stream", "name": name, "text": [words]}])


FOLDED = ["hide-input"]
OURS = "from attn_notes.masks import causal_mask\na = [causal_mask for causal_mask in x]"
MOVED = "x = (2 * torch.randn(2, generator=rng)).sort().values.to(device)"
ON_A_DEVICE = "%matplotlib inline\nx = torch.zeros(2, device=device)"
LONG = shows(text_html=["<attn-widget>", "é" * 65_000])
LAST = [markdown("## Exercises\n\nx"), markdown("## Summary\n\n1.\n\n## Further reading\n\nx")]

FIGURE = {**STILL, "metadata": {"mystnb": {"image": {"alt": "A curve that rises, then falls."}}}}
CAPTION = markdown("*What to see in $x$.*\n\nMore.")
DRAWN = "![Two boxes, and an arrow between them.](drawings/a.svg)"
OPENS = [markdown("# A\n\nWhy?"), cell(tags=FOLDED), {**WIDGET, "metadata": {"tags": FOLDED}}]

# rule: (cells that keep it, cells that break it, words of the complaint), one or more
BROKEN = {
    rules.executed_in_order: [
        ([cell(count=1), cell(count=2)], [cell(count=2), cell(count=1)], "[2, 1]"),
    ],
    rules.known_tags_only: [
        ([cell(tags=["stub"])], [cell(tags=["nbval-skip"])], "nbval-skip"),
    ],
    rules.short_cells: [
        ([cell("x = 1\n\n# why\n" * 14)], [cell("x = 1\n" * 15)], "15 lines"),
        ([cell("x = 1\n" * 20, tags=FOLDED)], [cell("x = 1\n" * 21, tags=FOLDED)], "21 lines"),
    ],
    rules.tensors_on_a_device: [
        ([cell(MOVED)], [cell("y = 1\nx = torch.randn(2, generator=rng)")], "line 2"),
        ([cell(ON_A_DEVICE)], [cell("x = torch.zeros(2)")], "line 1"),
        ([], [exercise("a", "solution", PLAIN)], "solution a: line 1"),
    ],
    rules.no_name_of_the_package_redefined: [
        ([cell(OURS)], [cell("def causal_mask(L):\n    pass")], "redefines causal_mask"),
        ([], [cell("if True:\n    a, (get_device, *b) = c")], "redefines get_device"),
        ([], [cell("from attn_notes.masks import causal_mask as prefix_mask")], "prefix_mask"),
    ],
    rules.ignored_outputs_are_rare_and_explained: [
        (uncompared(2), uncompared(1, source="x = 1"), "no comment says why"),
        (uncompared(3, 27), uncompared(3, 26), "3 cells are not compared, at most 2"),
        ([], [cell("# NBVAL_IGNORE_OUTPUT\nx = 1")], "NBVAL_"),
    ],
    rules.no_error_but_where_it_is_meant: [
        ([cell(tags=["raises-exception"], outputs=[ERROR])], [cell(outputs=[ERROR])], "ValueError"),
    ],
    rules.nothing_that_changes_between_runs: [
        ([cell("x;y")], [cell("x;\n")], "semicolon"),
        ([prints("colour 0x7f00")], [cell(outputs=[shows(text_plain=ADDRESS)])], "address"),
        ([], [prints("careful", "stderr")], "stderr"),
    ],
    rules.no_view_of_a_dead_widget: [([WIDGET], [cell(outputs=[VIEW])], "widget view")],
    rules.widgets_fit_on_a_page: [
        ([cell(outputs=[LONG])], [cell(outputs=[LONG])] * 2, "260026 bytes"),
    ],
    rules.a_still_follows_every_widget: [
        ([WIDGET, markdown(""), STILL], [STILL, WIDGET, *[markdown("")] * 2, STILL], "no still"),
    ],
    rules.links_set_what_a_widget_has: [
        ([DIAL, sets("dial?turn=3")], [DIAL, sets("dial?turned=3")], "turned is None"),
        ([DIAL, sets("dial?name=3&amp;on=true")], [DIAL, sets("dial?on=1")], "on is False"),
        ([DIAL, DIAL, sets("dial-2?turn=0.5")], [DIAL, sets("dial-2?turn=0.5")], "turn is None"),
    ],
    rules.stills_can_be_read_on_a_telephone: [
        ([cell(outputs=[still(650)])], [cell(outputs=[still(650), still(651)])], "651 pixels"),
    ],
    rules.every_figure_has_a_caption_and_says_what_it_shows: [
        ([FIGURE, CAPTION], [FIGURE, markdown("A caption.\n\n*Too late.*")], "no paragraph in it"),
        ([], [STILL, CAPTION], "no alt"),
    ],
    rules.every_drawing_has_a_caption_and_says_what_it_shows: [
        ([markdown(f"{DRAWN}\n\n*What to see.*")], [markdown(f"{DRAWN}\n\nWords.")], "a.svg"),
        ([], [markdown("![](drawings/a.svg)\n\n*What to see.*")], "a.svg: no alt"),
    ],
    rules.numbers_and_not_booleans: [
        ([prints("0.9 ± 0.1")], [prints("0.9 or better: True")], "better: True"),
        ([prints("tensor([True, False])")], [cell(outputs=[shows(text_plain="False")])], "False"),
    ],
    rules.a_widget_stands_on_the_first_screen: [
        (OPENS, [*OPENS[:1], cell(), *OPENS[2:]], "not imports and a widget"),
        ([], [*OPENS[:2], cell(outputs=WIDGET["outputs"])], "both folded"),
        ([], [markdown("a " * 120), *OPENS[1:]], "120 words before"),
    ],
    rules.main_text_is_short: [
        ([markdown("a " * 5000 + "$b$ `c`\n\n$$d e f$$ (eq-g)")], [markdown("a " * 5001)], "5001"),
    ],
    rules.enough_exercises_and_all_solved: [
        (FOUR, FOUR[:-1], "d: has no solution"),
        ([], FOUR[:-2], "3 exercises"),
        ([], [*FOUR, exercise("a")], "a: twice"),
    ],
    rules.exercises_say_how_hard_and_how_long: [
        ([exercise("a", body="★★ 15 minutes.")], [exercise("a", body="★★ Try.")], "a: no stars"),
        ([exercise("a", "solution", "")], [exercise("a", body="15 minutes.")], "a: no stars"),
    ],
    rules.ends_with_summary_and_further_reading: [
        (LAST, [markdown("## Summary"), LAST[0], markdown("## Further reading")], "Exercises"),
    ],
}


@pytest.mark.parametrize("rule", [*rules.RULES, *rules.CHAPTER_RULES], ids=by_name)
def test_a_rule_passes_what_keeps_it_and_names_what_breaks_it(rule):
    for kept, broken, words in BROKEN[rule]:
        assert rule(kept) == [] or not kept
        assert words in " ".join(rule(broken))


def test_solutions_are_found_by_the_label_of_their_exercise():
    cells = [*FOUR, exercise("e", "solution", "Words.\n\n```python\nx = 1\n```\n\nMore.")]
    assert rules.solutions(cells) == {"e": "x = 1\n"}
    assert rules.labels(cells, "exercise") == ["a", "b", "c", "d"]
