"""Prints the whole book to one PDF by Chromium, from the pages as they are built.

python tools/pdf.py   after `make book`; writes _build/attention-notes.pdf
"""

import sys
from pathlib import Path
from posixpath import dirname, join, normpath

import pypdf
from bs4 import BeautifulSoup, Tag
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from attn_notes import __version__  # noqa: E402, this file is run as a script
from tools.browser import FLAGS, find  # noqa: E402

BUILD, HOME = ROOT / "_build", "book/index"
PARTS = ROOT / "tools" / "print"  # the frame, the style sheet, and what must happen first
SCALE, WIDTH = 0.75, 1058  # 17 pixels become 9.6 points, and A4 is as wide as a window of 1058
PATIENCE = 600_000  # milliseconds
# What paper can do without: what only a screen answers to, and code that the pages fold. An
# exercise's code stays: it says what to write.
DROPPED = (
    "attn-widget, script, button, input, math, .headerlink, details.hide > summary, "
    "div.cell:not(.tag_stub) > details.above-input"
)
SIGNS = {"\\sqrt ": "√", "\\infty": "∞", "\\delta": "δ"}  # in headings
# Writes the numbers of pages into the contents, and says how many were not there already.
NUMBER = """(numbers) => [...document.querySelectorAll("#contents a")].filter((link) => {
  const number = String(numbers[decodeURIComponent(link.hash.slice(1))]);
  const before = link.nextSibling.textContent;
  link.nextSibling.textContent = number;
  return number !== before;
}).length"""

Named = tuple[str, int, str]  # a page, its level in the contents, the part that it begins or ""


def parsed(name: str) -> BeautifulSoup:
    path = BUILD / "html" / f"{name}.html"
    return BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")


def pages() -> list[Named]:
    """The pages in the order of the site's own table of contents."""
    part, found = "", [(HOME, 1, "")]
    for tag in parsed(HOME).select("nav.bd-links :is(p.caption, li > a:not([href='#']))"):
        if tag.name == "p":
            part = tag.get_text(strip=True)
        else:
            name = normpath(join(dirname(HOME), str(tag["href"]).removesuffix(".html")))
            found.append((name, 1 + len(tag.find_parents("li")), part))
            part = ""
    return found


def article(name: str) -> Tag:
    """A page's article as paper can show it."""
    (found,) = parsed(name).select("article.bd-article")
    for tag in found.select(DROPPED):
        tag.decompose()
    for cell in found.select("div.cell"):
        if not cell.get_text(strip=True) and not cell.find("img"):
            cell.decompose()
    for note in reversed(found.select("span.sidenote")):
        note.name = "p"
        for around in note.find_parents(["p", "ul"])[:1]:
            around.insert_after(note.extract())
    for fold in found.select("details"):
        fold["open"] = ""
    for fold in found.select("details.hide"):
        fold.unwrap()
    return found


def address(found: Tag, name: str) -> None:
    """Make an article's ids, links and pictures those of the whole book."""
    folder = dirname(name)
    found["id"] = "article"
    for tag in [found, *found.select("[id]")]:
        tag["id"] = f"{name}:{tag['id']}"
    for image in found.select("img"):
        image["src"] = "html/" + normpath(join(folder, str(image["src"])))
        del image["loading"]
    for link in found.select("[href]"):
        path, _, inside = str(link["href"]).partition("#")
        if "//" not in path:
            page = normpath(join(folder, path.removesuffix(".html"))) if path else name
            link["href"] = f"#{page}:{inside or 'article'}"


def set_levels(found: Tag, named: Named) -> None:
    """Give each heading its level in the whole book, a title in words, and its section's id.

    A heading may be moved to the next page while the box of its section begins on this one.
    """
    name, level, part = named
    for title in found.select("h1, h2, h3, h4, h5"):
        title["aria-level"] = str(level + int(title.name[1]) - 1)
        title["id"] = str(title.parent.attrs.pop("id")) if title.parent else ""
        for formula in title.select(".math"):
            words = formula.get_text()[2:-2]  # between \\( and \\)
            for command, sign in SIGNS.items():
                words = words.replace(command, sign)
            formula.insert_after(BeautifulSoup(f'<i class="said">{words}</i>', "html.parser"))
    if part:
        opening = f'<h1 class="part" aria-level="1" id="{name}:part">{part}</h1>'
        found.insert(0, BeautifulSoup(opening, "html.parser"))
    found["class"] = f"bd-article of-{level}"


def document(chosen: list[Named]) -> str:
    """These pages as one, with a table of contents."""
    book = BeautifulSoup("", "html.parser")
    for named in chosen:
        book.append(found := article(named[0]))
        address(found, named[0])
        set_levels(found, named)
    places = {f"#{tag['id']}" for tag in book.select("[id]")}
    for link in book.select("a[href^='#']"):
        if link["href"] not in places:  # the state of a widget, or a page that only the site has
            link.unwrap()
    rows = "".join(
        f'<p class="of-{title["aria-level"]}"><a href="#{title["id"]}">'
        f"{title.decode_contents()}</a><span>000</span></p>"
        for title in book.select("[aria-level]")
        if str(title["aria-level"]) <= "2" or title.select(".section-number")
    )
    links = parsed("book/notation").select("head link[rel=stylesheet]")
    sheets = (str(link["href"]).removeprefix("../") for link in links)
    styles = "".join(f'<link rel="stylesheet" href="html/{sheet}">' for sheet in sheets)
    own, frame = ((PARTS / name).read_text("utf-8") for name in ("book.css", "book.html"))
    return frame.format(styles=styles, own=own, version=__version__, rows=rows, book=book)


def printed(page: Page, target: Path) -> dict[str, int]:
    """Print to a file; return the number of the page on which each place now stands."""
    page.pdf(path=target, prefer_css_page_size=True, scale=SCALE, print_background=True,
             outline=True, tagged=True)  # fmt: skip
    reader = pypdf.PdfReader(target)
    numbers = {}
    for name, place in reader.named_destinations.items():
        numbers[name.removeprefix("/")] = 1 + (reader.get_destination_page_number(place) or 0)
    return numbers


def write(target: Path, chosen: list[Named]) -> int:
    """Print pages of the book to a file, until its contents say where each of them begins."""
    source = BUILD / f"{target.stem}.print.html"  # beside html/, from which it takes its styles
    source.write_text(document(chosen), encoding="utf-8")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find(), args=list(FLAGS))
        page = browser.new_page(viewport={"width": WIDTH, "height": 1000})
        page.set_default_timeout(PATIENCE)
        page.emulate_media(media="print")
        page.goto(source.as_uri())
        page.evaluate((PARTS / "ready.js").read_text(encoding="utf-8"))
        for _ in range(5):  # a number that is longer than before can move what follows
            if not page.evaluate(NUMBER, printed(page, target)):
                break
        else:
            raise RuntimeError("the numbers in the contents still change after five printings")
        browser.close()
    source.unlink()
    return len(pypdf.PdfReader(target).pages)


if __name__ == "__main__":
    target = BUILD / "attention-notes.pdf"
    print(f"{target}: {write(target, pages())} pages")
