"""Draws the card that a link to a chapter is previewed with: its title above its first widget.

python tools/cards.py    after `make book`; writes book/_static/cards/NN_name.png
"""

import sys
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import ViewportSize, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from tools.browser import FLAGS, find  # noqa: E402, this file is run as a script

SITE, CARDS = ROOT / "_build" / "html" / "book", ROOT / "book" / "_static" / "cards"
COLOURS = 96
ALONE = """() => {
  const title = document.querySelector("article h1");
  const widget = document.querySelector("attn-widget");
  if (!widget) return false;
  title.querySelector(".headerlink")?.remove();
  const card = document.createElement("main");
  card.className = "bd-article";
  Object.assign(card.style, { position: "fixed", inset: 0, zIndex: 9999, padding: "36px 56px",
    background: "var(--attn-paper)", overflow: "hidden", zoom: 1.15 });
  const name = document.createElement("p");
  name.textContent = "Attention Notes";
  name.style.color = "var(--attn-muted)";
  card.append(name, title, widget);
  title.style.margin = "0 0 20px";
  document.body.append(card);
  return true;
}"""


def main() -> int:
    CARDS.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find(), args=list(FLAGS))
        for path in sorted((ROOT / "book").glob("*.ipynb")):
            size = ViewportSize(width=1200, height=630)  # what previews are cut to
            page = browser.new_page(viewport=size, reduced_motion="reduce", color_scheme="light")
            page.goto((SITE / f"{path.stem}.html").as_uri())
            page.wait_for_timeout(1500)
            if page.evaluate(ALONE):
                page.wait_for_timeout(1500)
                with Image.open(BytesIO(page.screenshot())) as picture:
                    few = picture.convert("RGB").quantize(COLOURS)
                    few.save(CARDS / f"{path.stem}.png", optimize=True)
            page.close()
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
