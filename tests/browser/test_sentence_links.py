"""A link in a chapter sets all that its sentence is about, wherever the reader's hand has been."""

import json

import pytest

from tests.browser.bare import page_of
from tests.browser.conftest import ROOT
from tests.browser.panel import settle

PLAIN = {"query": 0, "features": "identity", "forget": 0, "erase": False, "rewrite": False}
GAP = {"query": 2.66, "kernel": "gaussian", "bandwidth": 0.25}
MEASURED = {"num_heads": 12, "head_dim": 32}
# By page: a link's words, and what its sentence speaks of.
ABOUT = {
    "01_kernel_regression": {
        "drag a query now": GAP,
        "small": {"kernel": "gaussian", "bandwidth": 0.02},
        "large": {"kernel": "gaussian", "bandwidth": 10},
        "another kernel, the boxcar": {"kernel": "boxcar", "bandwidth": 0.1, "query": 2.66},
    },
    "05_multi_head": {
        "rank the heads by that pattern": {"pattern": "previous", "layer": 0, "head": 2},
    },
    "12b_cache_is_the_cost": {
        "one shared head": {"method": "single", **MEASURED},
        "a latent of 64": {"method": "latent", "latent": 64, **MEASURED},
    },
    "13_state_instead_of_a_cache": {
        "eight pairs": {**PLAIN, "count": 16, "step": 7},
        "sixteen": {**PLAIN, "count": 16, "step": 15},
        "the first key again": {**PLAIN, "count": 8, "step": 8, "rewrite": True},
        "erase before you write": {**PLAIN, "count": 8, "step": 8, "rewrite": True, "erase": True},
    },
}
BY_HAND = """(root) => {
  for (const input of root.querySelectorAll("input, select")) {
    const { type, min, max } = input; // a slider goes to two thirds of its way
    if (type === "range") input.value = String(Number(min) + (2 / 3) * (max - min));
    else if (type === "checkbox") input.checked = true;
    else if (input.tagName === "SELECT") input.selectedIndex = input.options.length - 1;
    else continue;
    input.dispatchEvent(new Event("input", { bubbles: true }));
    input.dispatchEvent(new Event("change", { bubbles: true }));
  }
}"""


def parts_of(page: str) -> tuple[str, list[str]]:
    """The first widget of a page as it is stored, and the paragraphs with links to it."""
    cells = json.loads((ROOT / f"book/{page}.ipynb").read_text(encoding="utf-8"))["cells"]
    shown = (
        "".join(output.get("data", {}).get("text/html", ""))
        for cell in cells
        for output in cell.get("outputs", ())
    )
    lines = (line for cell in cells if cell["cell_type"] == "markdown" for line in cell["source"])
    widget = next(html for html in shown if "<attn-widget" in html)
    return widget, [f"<p>{line}</p>" for line in lines if '<a href="#' in line]


@pytest.mark.parametrize("name", ABOUT)
def test_a_link_sets_what_its_sentence_is_about_whatever_the_hand_moved(visit, tmp_path, name):
    widget, lines = parts_of(name)
    page, address = visit("about:blank", width=1280), page_of(tmp_path, widget, *lines)
    root = page.locator("attn-widget")
    for words, about in ABOUT[name].items():
        page.goto(address)  # each link comes first: what it sets, the next takes back
        page.reload()
        settle(page)
        root.evaluate(BY_HAND)
        settle(page)
        moved = page.evaluate("(root) => root.model.state", root.element_handle())
        assert {key: moved[key] for key in about} != about
        page.get_by_role("link", name=words, exact=True).click()
        settle(page)
        found = page.evaluate("(root) => root.model.state", root.element_handle())
        assert {key: found[key] for key in about} == about, words
