"""Takes pictures of a page's first screens, as a computer and a telephone show them.

python tools/screens.py                the opening page of the built book, into _build/screens
python tools/screens.py 05_multi_head  another page of the book
"""

import sys
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, ViewportSize, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from tools.browser import FLAGS, find  # noqa: E402, this file is run as a script

SCREENS = ((1280, 900), (390, 844))
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
SETTLED = 1500  # milliseconds, until widgets are mounted, formulas set and letters there


def take(browser: Browser, page_file: Path, folder: Path) -> list[Path]:
    """The pictures of the page's first screens, PNG, at twice the pixels."""
    folder.mkdir(parents=True, exist_ok=True)
    taken = []
    for width, height in SCREENS:
        size: ViewportSize = {"width": width, "height": height}
        for theme in THEMES:
            page = browser.new_page(viewport=size, color_scheme=theme, device_scale_factor=2)
            page.goto(page_file.as_uri())
            page.wait_for_timeout(SETTLED)
            taken.append(folder / f"{page_file.stem}-{width}-{theme}.png")
            page.screenshot(path=taken[-1])
            page.close()
    return taken


def main(names: list[str]) -> None:
    pages = [ROOT / f"_build/html/book/{name}.html" for name in names or ["index"]]
    if missing := [str(page) for page in pages if not page.is_file()]:
        sys.exit(f"run make book first, and name pages of the book: there is no {missing}")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find(), args=list(FLAGS))
        for page in pages:
            for path in take(browser, page, ROOT / "_build/screens"):
                print(path.relative_to(ROOT))
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
