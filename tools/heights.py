"""Measures how high each widget is on its page, for the room that it has before its script comes.

make book && python tools/heights.py   writes book/_ext/heights.json, which the next build reads
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from tools.browser import FLAGS, find  # noqa: E402, this file is run as a script

BOOK, FILE = ROOT / "_build/html/book", ROOT / "book/_ext/heights.json"
# As the style sheet of the widgets tells them apart: columns, one column, and that under a finger.
SCREENS: dict[str, dict[str, Any]] = {
    "wide": {"viewport": {"width": 1280, "height": 900}},
    "narrow": {"viewport": {"width": 390, "height": 844}},
    "touch": {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True},
}
HEIGHT = "(one) => document.fonts.ready.then(() => one.getBoundingClientRect().height)"
MARK = "<attn-widget"


def pages() -> list[str]:
    """The names of the built pages that hold a widget."""
    found = sorted(BOOK.glob("*.html"))
    return [page.stem for page in found if MARK in page.read_text(encoding="utf-8")]


def measure(browser: Browser, name: str, screen: str, *, mounted: bool = True) -> list[int]:
    """The height of each widget of a page: as its script draws it, or the room before that."""
    page = browser.new_page(reduced_motion="reduce", **SCREENS[screen])
    if not mounted:
        page.route("**/attn-widgets-*.js", lambda route: route.fulfill(body=""))
    page.goto((BOOK / f"{name}.html").as_uri())
    heights = []
    for widget in page.locator("attn-widget").all():
        if mounted:
            widget.scroll_into_view_if_needed()
            widget.locator(".attn-root").wait_for()
        heights.append(round(widget.evaluate(HEIGHT)))
    page.close()
    return heights


def measure_all(browser: Browser, name: str) -> list[dict[str, int]]:
    """Of each widget of a page, its height on every screen."""
    columns: Sequence[list[int]] = [measure(browser, name, screen) for screen in SCREENS]
    return [dict(zip(SCREENS, row, strict=True)) for row in zip(*columns, strict=True)]


def main() -> None:
    if not pages():
        sys.exit("run make book first: there is no built page with a widget")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find(), args=list(FLAGS))
        lines = [f'"{name}": {json.dumps(measure_all(browser, name))}' for name in pages()]
        browser.close()
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"{FILE.relative_to(ROOT)} has {len(lines)} pages: run make book again")


if __name__ == "__main__":
    main()
