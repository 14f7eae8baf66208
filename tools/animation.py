"""Films the opening page's translator for the README: two translations, then a reader's own word.

python tools/animation.py    after `make book`; writes book/_static/translator.webp
"""

import sys
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, ViewportSize, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from tools.browser import FLAGS, find  # noqa: E402, this file is run as a script

PAGE, FILM = ROOT / "_build/html/book/index.html", ROOT / "book/_static/translator.webp"
STEP, PAUSE = 700, 2200  # milliseconds that a frame is shown
SHARPNESS = 1.5  # pixels for each pixel of the page
COLOURS = 64
# Without the table and the link below it; the text stays where it is when the words above it turn.
CROPPED = """attn-widget :is(details, .attn-link) { display: none !important }
attn-widget .attn-root { height: auto !important; padding-bottom: 24px !important }
attn-widget .attn-player { min-height: 340px; align-items: stretch !important }
attn-widget .attn-player > div { display: flex; flex-direction: column }
attn-widget .attn-said { margin-top: auto !important; min-height: 3.2em }"""


def steps(page: Page, text: str, language: str, count: int) -> Iterator[int]:
    """Show a translation word by word; give for each step how long it should be seen."""
    for step in range(count):
        state = f"translator?text={text}&language=<{language}>&step={step}"
        page.evaluate("(state) => { location.hash = state; }", state)
        yield PAUSE if step == count - 1 else STEP


def scenes(page: Page) -> Iterator[int]:
    """What a reader could do, one frame at a time."""
    yield from steps(page, "4729", "de", 7)
    yield from steps(page, "93", "fr", 3)
    yield from steps(page, "4729", "es", 1)
    page.locator("attn-widget .attn-option").nth(1).click()  # and the model continues from there
    page.mouse.move(0, 0)
    yield PAUSE


def main() -> int:
    frames, times = [], []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find(), args=list(FLAGS))
        page = browser.new_page(
            viewport=ViewportSize(width=900, height=700),
            device_scale_factor=SHARPNESS,
            reduced_motion="reduce",
            color_scheme="light",
        )
        page.goto(PAGE.as_uri())
        page.add_style_tag(content=CROPPED)
        widget = page.locator("attn-widget").first
        for time in scenes(page):
            page.wait_for_timeout(300)
            with Image.open(BytesIO(widget.screenshot())) as picture:
                frames.append(picture.convert("RGB").quantize(COLOURS).convert("RGB"))
            times.append(time)
        browser.close()
    if len({frame.size for frame in frames}) > 1:
        sys.exit(f"all frames must have one size, got {[frame.size for frame in frames]}")
    first, *others = frames
    first.save(
        FILM, save_all=True, append_images=others, duration=times, loop=0, lossless=True, quality=90
    )
    print(f"{FILM.relative_to(ROOT)}: {len(frames)} frames, {FILM.stat().st_size / 1000:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
