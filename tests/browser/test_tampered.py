"""Data that somebody changed: refused at once, and nothing outside the widget is touched."""

import json
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.bare import write_files, write_page
from tests.browser.conftest import served
from tests.widgets import EVERY, of_scores

HUGE = 1_000_000_000
STATE = re.compile(r'(<script type="application/json">)(.*?)(</script>)', re.DOTALL)


def changed(name: str, change: Callable[[dict], None]) -> str:
    """The element of a widget, with something else in its state."""
    element = EVERY[name]().page_html()
    described = json.loads(STATE.search(element)[2])
    change(described["state"])
    text = json.dumps(described).replace("<", "\\u003c")
    return STATE.sub(lambda found: found[1] + text + found[3], element, count=1)


def at(*path: object, value: object) -> Callable[[dict], None]:
    def change(state: dict) -> None:
        for key in path[:-1]:
            state = state[key]
        state[path[-1]] = value

    return change


SIZES = {
    "more heads": ("scores", at("data", "values", "shape", value=[1, HUGE, 5, 5])),
    "no layers of many heads": ("scores", at("data", "values", "shape", value=[0, HUGE, 5, 5])),
    "half a head": ("scores", at("data", "values", "shape", value=[1, 2.5, 5, 5])),
    "a longer mask": ("mask", at("painted", "shape", value=[HUGE, HUGE])),
    "many layers of a mask": ("mask", at("layers", value=HUGE)),
    "many positions": ("positions", at("data", "length", value=HUGE)),
    "many dimensions": ("positions", at("embed_dim", value=HUGE)),
    "many blocks": ("family", at("num_layers", value=HUGE)),
    "a tile of many keys": ("online", at("tile", value=HUGE)),
    "more values than keys": ("online", at("data", "values", value=[[0.0, 0.0]] * 65)),
    "a memory of many keys": ("memory", at("data", "keys", value=[[0.0] * 5] * 25)),
    "wider values than keys": ("memory", at("data", "again", value=[0.0] * 17)),
    "a memory of more keys": ("memory", at("count", value=HUGE)),
    "a latent of many numbers": ("budget", at("data", "errors", "latent", value=[[HUGE, 0.1]])),
    "a model of many layers": ("budget", at("num_layers", value=HUGE)),
    "many frames": ("function", at("frames", "shape", value=[HUGE, 5, 5])),
    "many heads of a model": ("player", at("data", "model", "config", "num_heads", value=HUGE)),
    "a long translation": ("player", at("data", "most", value=HUGE)),
    "many means": ("switches", at("data", "means", "shape", value=[HUGE, 4])),
    "fewer means": ("switches", at("data", "means", "shape", value=[1, 4])),
    "a long translation switched": ("switches", at("data", "most", value=HUGE)),
    "many heads of a writer": ("writer", at("data", "model", "config", "num_heads", value=HUGE)),
    "a long text": ("writer", at("data", "most", value=HUGE)),
    "many heads of a sentence": (
        "heads",
        at("data", "sentences", 0, "views", 0, "size", value=[HUGE, 3, 7, 7]),
    ),
    "many weights of a sentence": (
        "heads",
        at("data", "sentences", 0, "views", 0, "weights", "shape", value=[HUGE, 3, 7, 7]),
    ),
}


UNREADABLE = (
    "{",
    '{"widget": "nosuch", "state": {}}',
    '{"widget": "heatmap", "state": {"data": {}}}',
)


def test_a_broken_widget_leaves_its_table_and_the_others_alone(visit, tampered):
    whole = of_scores().page_html()
    broken = [STATE.sub(lambda found, s=s: found[1] + s + found[3], whole) for s in UNREADABLE]
    widgets = visit(tampered(*broken, whole)).locator("attn-widget")
    expect(widgets.last.locator(".attn-root")).to_have_count(1)
    for nth in range(len(broken)):
        assert widgets.nth(nth).locator(".attn-fallback").is_visible()
        assert widgets.nth(nth).locator("> *").count() == 2  # the state and the table
    assert len(visit.problems) == len(broken)
    visit.problems.clear()


@pytest.fixture(scope="module")
def tampered(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """The address of a page with these elements."""
    folder: Path = tmp_path_factory.mktemp("tampered")
    write_files(folder)
    with served(folder) as server:

        def address(*elements: str) -> str:
            write_page(folder, "page", *elements)
            return f"{server}/page.html"

        yield address


def test_a_size_that_does_not_fit_is_refused_at_once_and_the_next_widget_lives(visit, tampered):
    begun = time.monotonic()
    elements = [changed(name, change) for name, change in SIZES.values()]
    page = visit(tampered(*elements, of_scores().page_html()))
    widgets = page.locator("attn-widget")
    expect(widgets.last.locator(".attn-root")).to_have_count(1)
    assert time.monotonic() - begun < 60  # on a busy machine; to fill such a size takes minutes
    for nth, what in enumerate(SIZES):
        assert widgets.nth(nth).locator(".attn-root").count() == 0, what
        assert widgets.nth(nth).locator("table").is_visible()
    assert len(visit.problems) == len(SIZES)
    for said in visit.problems:
        assert re.match(r"a size must be|\S+ numbers of|\d+ heads do not share", said)
    visit.problems.clear()


POLLUTING = ("__proto__.polluted", "encoder.__proto__.polluted", "constructor.prototype.polluted")


def test_the_name_of_a_tensor_changes_no_prototype(visit, tampered):
    def change(state: dict) -> None:
        model = state["data"]["model"]
        model["tied"] += [[tensor, model["tensors"][0][0]] for tensor in POLLUTING]

    page = visit(tampered(changed("player", change)))
    expect(page.locator(".attn-root")).to_have_count(1)
    assert page.evaluate("({}).polluted === undefined && Object.polluted === undefined")
    assert page.evaluate("(() => {}).polluted === undefined")
