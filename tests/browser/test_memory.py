"""The memory that is written, and what a cache costs: what they compute, and what hands do."""

import itertools
import math
import re

import pytest

from attn_widgets import WrittenMemory
from attn_widgets.budget import METHODS
from tests.browser import journeys
from tests.browser.journeys import assert_shown
from tests.browser.modules import assert_close, functions_of
from tests.browser.panel import Panel, settle
from tests.test_memory_widgets import SETTINGS, memory_of
from tests.widgets import of_budget, of_memory

MODULE = "memory"
HEAD, PITCH = 16, 26  # of the picture: where its list begins, and how high a row of few is
SHOWN = """(state) => {
  const model = { get: (name) => state[name] };
  const now = readMemory(model, fixedData(model));
  return { states: now.steps.map((step) => step.state), old: now.steps.map((step) => step.old),
    answer: now.answer, softmax: now.softmax, wanted: now.wanted,
    errors: now.errors.map((x) => (Number.isNaN(x) ? -1 : x)) };
}"""


@pytest.mark.parametrize("step", [0, 4, 6])
def test_what_is_shown_is_torch_s_in_every_setting(js, step):
    for features, forget, erase, rewrite in SETTINGS:
        settings = {"features": features, "forget": forget, "erase": erase, "rewrite": rewrite}
        for query in (0.0, 1.25, 3.5, 6.0):
            widget = memory_of(step=step, query=query, **settings)
            found, shown = js(SHOWN, widget.page_state()), widget.shown()
            for name, expected in shown._asdict().items():
                assert_close(found[name], expected.nan_to_num(-1.0))


def test_the_query_is_dragged_from_key_to_key_and_a_press_asks_for_a_pair(visit, bare):
    panel, widget = Panel(visit(bare("memory"))), of_memory()
    widget.step = 4
    panel.press("Step", "End")
    mouse, box = panel.page.mouse, panel.el.locator("canvas").first.bounding_box()

    def move_to(x: float, place: float) -> None:
        mouse.move(box["x"] + x, box["y"] + HEAD + (place + 0.5) * PITCH)

    move_to(9, widget.query)
    mouse.down()
    for to, place in ((3.3, 3.25), (1.9, 2.0), (9.0, 4.0), (-2.0, 0.0)):
        move_to(9, to)
        assert_shown(panel, widget, query=place)
    move_to(9, 2.0)
    mouse.up()
    move_to(9, 3.0)
    assert_shown(panel, widget, query=2.0)  # the button is up
    move_to(40, 1.2)
    mouse.down()
    mouse.up()
    assert_shown(panel, widget, query=1.0)
    mouse.click(box["x"] + box["width"] - 20, box["y"] + 60)  # among the answers
    assert_shown(panel, widget)


def test_a_finger_taps_a_pair(visit, bare):
    panel, widget = Panel(visit(bare("memory"), width=390, has_touch=True)), of_memory()
    widget.step = 4
    panel.press("Step", "End")
    canvas = panel.el.locator("canvas").first

    def tap(y: float) -> None:
        canvas.evaluate("scrollTo(0, 0)")
        box = canvas.bounding_box()
        panel.page.touchscreen.tap(box["x"] + 30, box["y"] + y)

    for pair in (3, 0, 4):
        tap(HEAD + (pair + 0.5) * PITCH)
        assert_shown(panel, widget, query=float(pair))
    tap(canvas.bounding_box()["height"] - 20)
    assert_shown(panel, widget)


def test_arrow_keys_move_the_query_on_the_picture(visit, bare):
    panel, widget = Panel(visit(bare("memory"))), of_memory()
    widget.step = 4
    panel.press("Step", "End")
    canvas = panel.el.locator("canvas[tabindex]")
    for key, place in (
        *(("End", 4.0), ("ArrowDown", 4.0), ("ArrowUp", 3.0), ("Home", 0.0), ("ArrowLeft", 0.0)),
        *(("ArrowRight", 1.0), ("Shift+ArrowDown", 1.25), ("Shift+ArrowUp", 1.0)),
    ):
        canvas.press(key)
        assert_shown(panel, widget, query=place)


def test_each_write_and_what_the_delta_rule_erases_is_said(visit, bare):
    panel, widget = Panel(visit(bare("memory"))), of_memory()
    widget.rewrite = widget.erase = True
    for label in ("Erase first (delta rule)", "Write the first key again"):
        panel.press(label, "Space")
    for step, old in enumerate(widget.shown().old.norm(dim=-1).tolist()):
        panel.press("Step", "Home", *["ArrowRight"] * step)
        assert_shown(panel, widget, step=step)
        found = re.search(r"reads, of length (\S+), is erased first", panel.said())
        assert bool(found) == (step > 0)
        if found:
            assert float(found[1]) == pytest.approx(old, abs=0.00501)
    assert panel.said().startswith("Key \u201c\u2068time\u2069\u201d once more, with a new value")


def test_a_link_sets_the_memory_and_unfolds_what_it_changed(visit, bare):
    page, widget = visit(bare("memory")), of_memory()
    panel = Panel(page)
    assert panel.el.locator("details.attn-more").get_attribute("open") is None
    for state in ("count=25", "query=-1", "forget=0.6", "features=cosine", "erase=1", "step=1.5"):
        page.evaluate("(state) => { location.hash = `memory?${state}`; }", state)
        settle(page)
        assert_shown(panel, widget)
    page.evaluate("location.hash = 'memory?count=9&step=8&query=2.5&erase=true&forget=0.1'")
    settle(page)
    assert_shown(panel, widget, count=9, step=8, query=2.5, erase=True, forget=0.1)
    assert panel.el.locator("details.attn-more").get_attribute("open") is not None


def test_the_plot_stands_still_whatever_the_length(visit, bare):
    panel = Panel(visit(bare("budget"), width=1000))
    panel.page.evaluate("location.hash = 'budget?method=window&window=16'")
    settle(panel.page)
    drawn = "(canvas) => canvas.toDataURL()"
    before = [canvas.evaluate(drawn) for canvas in panel.el.locator("canvas").all()]
    said = panel.said()
    panel.press("Length", "End")
    settle(panel.page)
    assert [canvas.evaluate(drawn) for canvas in panel.el.locator("canvas").all()] == before
    assert "50 % of what all heads keep" in said  # 16 of the 32 tokens that were measured
    assert panel.said().split(" A text of ")[0] == said.split(" A text of ")[0]


@pytest.mark.parametrize(("width", "tallest"), [(1280, 700), (390, 1180)])
def test_the_default_memory_fits_beside_its_controls(visit, tmp_path, width, tallest):
    WrittenMemory().save_html(tmp_path / "saved.html")
    page = visit((tmp_path / "saved.html").as_uri(), width=width, height=844)
    assert page.locator(".attn-root").bounding_box()["height"] <= tallest
    assert page.locator(".attn-picture").bounding_box()["height"] < 0.6 * 844
    heights = set()
    for query in range(16):
        page.evaluate("(query) => { location.hash = `memory?query=${query}&count=16`; }", query)
        settle(page)
        heights.add(page.locator(".attn-root").bounding_box()["height"])
    assert len(heights) == 1


# The budget of a cache

BUDGET = """(state) => {
  const now = readBudget({ get: (name) => state[name] });
  return METHODS.map((method) => ({ ...costOf(now, method), error: errorOf(now, method),
    setting: settingOf(now, method) }));
}"""


def test_bytes_and_errors_are_python_s_in_every_setting(chromium):
    with functions_of(chromium, "budget") as call:
        for method, window, bits, length, sizes in itertools.product(
            METHODS, (4, 32), (1, 8), (256, 2**20), ((5, 6, 4), (61, 24, 128))
        ):
            widget = of_budget()
            widget.method, widget.window, widget.bits, widget.length = method, window, bits, length
            widget.num_layers, widget.num_heads, widget.head_dim = sizes
            found, shown = call(BUDGET, widget.page_state()), widget.shown()
            for key, expected in zip(("perToken", "total"), shown, strict=False):
                assert [one[key] for one in found] == expected.tolist()
            assert [one["setting"] for one in found] == [widget.setting(name) for name in METHODS]
            errors = [None if math.isnan(x) else x for x in shown.error.tolist()]
            known = [one["error"] for one in found]
            assert [None if math.isnan(error) else error for error in known] == errors


def test_only_the_slider_of_the_method_on_show_is_there(visit, bare):
    panel, widget = Panel(visit(bare("budget"))), of_budget()
    labels = ("Key-value heads", "Numbers of the latent", "Tokens of the window", "Bits a number")
    for at, method in enumerate(METHODS):
        panel.control("Keep").select_option(index=at)
        assert_shown(panel, widget, method=method)
        own = dict(zip(("grouped", "latent", "window", "bits"), labels, strict=True)).get(method)
        assert set(panel.labels()) & set(labels) == ({own} if own else set())
        if own:
            panel.press(own, "End")
            journeys.same_move(widget, own, panel.value(own))
            assert_shown(panel, widget)
            assert panel.output(own) == str(widget.setting(method))


def test_a_press_on_a_bar_chooses_its_method_and_one_on_a_point_its_setting(visit, bare):
    panel, widget = Panel(visit(bare("budget"), width=1000)), of_budget()
    bars, plot = (canvas.bounding_box() for canvas in panel.el.locator("canvas").all())
    row = (bars["height"] - 18) / 6
    for at in (5, 0, 4, 2, 3, 1):
        panel.page.mouse.click(bars["x"] + 90, bars["y"] + 18 + (at + 0.5) * row)
        assert_shown(panel, widget, method=METHODS[at])
    # All heads, which lose nothing, and a corner of the plot in which nothing is.
    panel.page.mouse.click(plot["x"] + plot["width"] - 12, plot["y"] + plot["height"] - 40)
    assert_shown(panel, widget, method="grouped", kv_heads=6)
    panel.page.mouse.click(plot["x"] + 50, plot["y"] + plot["height"] - 50)
    assert_shown(panel, widget)


def test_a_larger_model_s_settings_are_said_by_their_sliders(visit, bare):
    panel, widget = Panel(visit(bare("budget"))), of_budget()
    panel.press("Heads", "End")
    assert_shown(panel, widget, num_heads=48)
    assert panel.output("Key-value heads") == "8"
    panel.control("Keep").select_option(index=2)
    assert_shown(panel, widget, method="single")
    page = panel.page
    for state in ("kv_heads=4", "length=1000", "num_layers=0", "method=none", "bits=3"):
        page.evaluate("(state) => { location.hash = `budget?${state}`; }", state)
        settle(page)
        assert_shown(panel, widget)
    page.evaluate("location.hash = 'budget?method=latent&latent=12&length=4096'")
    settle(page)
    assert_shown(panel, widget, method="latent", latent=12, length=4096)


@pytest.mark.parametrize(("width", "tallest"), [(1280, 520), (390, 960)])
def test_the_budget_fits_beside_its_controls_and_keeps_its_height(visit, tmp_path, width, tallest):
    of_budget().save_html(tmp_path / "saved.html")
    page = visit((tmp_path / "saved.html").as_uri(), width=width, height=844)
    assert page.locator(".attn-picture").bounding_box()["height"] < 0.6 * 844
    heights = set()
    for method in METHODS:
        for also in ("", "&length=1048576"):  # the second unfolds the length
            page.evaluate("(state) => { location.hash = state; }", f"budget?method={method}{also}")
            settle(page)
            heights.add(page.locator(".attn-picture").bounding_box()["height"])
            if not also:
                page.locator("details.attn-more").evaluate("(fold) => { fold.open = false; }")
                assert page.locator(".attn-root").bounding_box()["height"] <= tallest
    assert len(heights) == 1
