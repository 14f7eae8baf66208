"""What a page with a widget weighs, beside the same page as myst-nb builds it by itself.

python -m benchmarks.pages --site DIR   another built book than _build/html
python -m benchmarks.pages --all        every page with a widget, executed anew: ten minutes
"""

import argparse
import gzip
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import nbclient
import nbformat
import yaml
from playwright.sync_api import Browser, sync_playwright

from benchmarks.report import print_table
from tools.browser import FLAGS, find

ROOT = Path(__file__).resolve().parents[1]
SAMPLE = ("book/index", "book/01_kernel_regression", "book/03_masking", "book/10_fast_attention")
INLINE_GOAL = 250_000  # bytes of widget data a page
KINDS = {
    ".html": "html", ".js": "scripts", ".css": "styles", ".png": "images", ".svg": "images",
    ".webp": "images", ".woff": "fonts", ".woff2": "fonts", ".ttf": "fonts",
}  # fmt: skip
DATA = re.compile(
    r'<script type="application/(?:json|vnd\.jupyter\.widget-(?:state|view)\+json)">(.*?)</script>',
    re.DOTALL,
)

# Jupyter Book as it comes, and of extensions only what the text itself is written with.
STOCK_CONFIG: dict[str, Any] = {
    "title": "Attention Notes",
    "only_build_toc_files": True,
    "execute": {"execute_notebooks": "off"},
    "bibtex_bibfiles": ["book/references.bib"],
    "sphinx": {"extra_extensions": ["sphinx_exercise"]},
}
BUILD = "from jupyter_book.cli.main import main; main()"  # it has no `python -m`


def pages(toc: Path) -> list[str]:
    """Every page that the table of contents names, in its order."""

    def walk(entry: Any) -> Iterator[str]:
        if isinstance(entry, dict):
            yield from (entry[key] for key in ("root", "file") if key in entry)
            for child in entry.values():
                yield from walk(child)
        elif isinstance(entry, list):
            for child in entry:
                yield from walk(child)

    return list(walk(yaml.safe_load(toc.read_text(encoding="utf-8"))))


def kind_of(path: Path) -> str:
    """What a file counts as; MathJax and the theme's half a megabyte of icons stand apart."""
    if "mathjax" in path.parts:
        return "MathJax"
    if path.name == "fontawesome.js":
        return "icons"
    return KINDS.get(path.suffix, "other")


def packed(path: Path) -> int:
    """The bytes that travel: compressed, where a server would compress."""
    data = path.read_bytes()
    if path.suffix in {".png", ".webp", ".woff", ".woff2"}:
        return len(data)
    return len(gzip.compress(data, 9))


def weigh(browser: Browser, page: Path) -> tuple[Counter[str], list[str]]:
    """Bytes by kind of all that a browser loads for the page, and what it asks other hosts for."""
    asked: list[str] = []
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    context.route(re.compile("^https?:"), lambda route: route.abort())
    tab = context.new_page()
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto(page.as_uri())
    tab.wait_for_timeout(2000)
    context.close()
    weights: Counter[str] = Counter()
    for url in dict.fromkeys(url.split("#")[0].split("?")[0] for url in asked):
        parts = urlsplit(url)
        if parts.scheme == "file" and (path := Path(unquote(parts.path))).is_file():
            weights[kind_of(path)] += packed(path)
    data = "".join(DATA.findall(page.read_text(encoding="utf-8"))).encode()
    weights["data"], weights["data.gz"] = len(data), len(gzip.compress(data, 9))
    return weights, sorted({url for url in asked if url.startswith("http")})


# ---------------------------------------------------------------- the stock way


def execute(path: Path) -> set[str]:
    """Runs a notebook so that it holds its widgets' state; the front ends that state asks for."""
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(path.parent)}}
    client = nbclient.NotebookClient(
        notebook,
        timeout=600,
        kernel_name="python3",
        store_widget_state=True,
        resources=resources,
        extra_arguments=["--log-level=ERROR"],
    )
    client.execute()
    nbformat.write(notebook, path)
    state = notebook.metadata.widgets["application/vnd.jupyter.widget-state+json"]["state"]
    return {f"{model['model_module']}@{model['model_module_version']}" for model in state.values()}


def build_stock(folder: Path, names: list[str]) -> tuple[Path, set[str]]:
    """The book with none of our extension, its chosen notebooks executed anew."""
    shutil.copytree(
        ROOT / "book", folder / "book", ignore=shutil.ignore_patterns("_ext", "_static", "_build")
    )
    shutil.copy(ROOT / "_toc.yml", folder)
    (folder / "_config.yml").write_text(yaml.safe_dump(STOCK_CONFIG), encoding="utf-8")
    modules: set[str] = set()
    for name in names:
        modules |= execute(folder / f"{name}.ipynb")
    log = folder / "build.log"
    with log.open("w", encoding="utf-8") as file:
        built = subprocess.run(
            [sys.executable, "-c", BUILD, "build", str(folder), "-q", "--keep-going"],
            stdout=file, stderr=file, check=False,
        )  # fmt: skip
    if built.returncode:
        raise RuntimeError(f"the stock book must build, got:\n{log.read_text()[-2000:]}")
    return folder / "_build" / "html", modules


def installed_bundles() -> Iterator[str]:
    """The nearest files at hand to what a stock page loads from elsewhere."""
    for name in ("jupyter-js-widgets/extension.js", "anywidget/index.js"):
        path = Path(sys.prefix) / "share" / "jupyter" / "nbextensions" / name
        if path.is_file():
            yield f"{name}: {kilo(path.stat().st_size)} kB, {kilo(packed(path))} kB compressed"


# ---------------------------------------------------------------- the table

OWN = ("html", "scripts", "styles")
BESIDE = ("data", "data.gz", "images", "fonts", "icons", "MathJax")


def kilo(count: int) -> str:
    return f"{count / 1000:.1f}"


def row(name: str, weights: Counter[str]) -> list[str]:
    own = sum(weights[kind] for kind in OWN)
    return [name, *(kilo(weights[kind]) for kind in OWN), kilo(own), *map(kilo, _beside(weights))]


def _beside(weights: Counter[str]) -> list[int]:
    return [weights[kind] for kind in BESIDE]


def ratio_row(ours: Counter[str], stock: Counter[str]) -> list[str]:
    pairs = [(ours[kind], stock[kind]) for kind in OWN]
    pairs.append((sum(a for a, _ in pairs), sum(b for _, b in pairs)))
    pairs += zip(_beside(ours), _beside(stock), strict=True)
    return ["  ours / stock", *(f"{a / b:.2f}" if b else "-" for a, b in pairs)]


def compare(browser: Browser, site: Path, names: list[str]) -> None:
    external: Counter[str] = Counter()
    rows: list[list[str]] = []
    with tempfile.TemporaryDirectory() as folder:
        stock_site, modules = build_stock(Path(folder), names)
        for name in names:
            ours, asked = weigh(browser, site / f"{name}.html")
            stock, stock_asked = weigh(browser, stock_site / f"{name}.html")
            external.update(stock_asked)
            rows += [row(name, ours), row("  stock", stock), ratio_row(ours, stock)]
            print(
                f"{name}: {len(asked)} requests to other hosts (stock {len(stock_asked)}), "
                f"inline data at {ours['data'] / INLINE_GOAL:.2f} of its goal of 250 kB"
            )
    print("\nkB; html, scripts and styles compressed (gzip 9), `own` their sum; the rest beside,")
    print("images as far as they load before a reader scrolls")
    print_table(["page", *OWN, "own", *BESIDE], rows)
    print("\nthe stock pages also ask other hosts for (not counted: they are not on this machine)")
    for url, count in sorted(external.items()):
        print(f"  {Path(urlsplit(url).path).name} ({count} pages)")
    print("and, once those run, for the front ends that the widgets' state names:")
    print("  " + ", ".join(sorted(modules)))
    print("comparable bundles that are installed here, not counted either:")
    for line in installed_bundles():
        print(f"  {line}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--site", type=Path, default=ROOT / "_build" / "html")
    parser.add_argument("--all", action="store_true", help="not only four pages")
    chosen = parser.parse_args()
    site = chosen.site.resolve()
    named = pages(ROOT / "_toc.yml") if chosen.all else SAMPLE
    listed = [name for name in named if (site / f"{name}.html").is_file()]
    if not listed:
        sys.exit(f"there is no book in {site}: run make book first")
    names = [name for name in listed if "<attn-widget" in (site / f"{name}.html").read_text()]
    os.environ.setdefault("ATTN_NOTES_DEVICE", "cpu")
    path = find()
    if path is None:
        sys.exit("there is no Chromium: run python tools/browser.py first")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        compare(browser, site, names)
        browser.close()


if __name__ == "__main__":
    main()
