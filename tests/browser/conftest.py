"""One Chromium for all the tests here, pages that are watched, and the folders they come from."""

import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import BinaryIO

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    expect,
    sync_playwright,
)

from tests.browser.bare import write_bare_pages
from tests.browser.modules import functions_of
from tools.browser import FLAGS, find

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "_build" / "html"
HOME = "https://github.com/someone/notes"
BUILD = "from jupyter_book.cli.main import main; main()"  # it has no `python -m`
CONTENTS = "format: jb-book\nroot: book/notation\nchapters: [{file: book/glossary}]\n"
THEME_LOGS = "log: [PST]: "  # what the theme tells the console as it works; errors are none
# For an excerpt Sphinx reads the pages it found, which a browser forbids on the disk.
NO_EXCERPTS = (
    *("error: Access to fetch at 'file:", "error: Fetch API cannot load file:"),
    *("error: Failed to load resource: net::ERR_FAILED", "Failed to fetch"),
)
PRINTED = "dispatchEvent(new Event('beforeprint'))"  # brings all that waits until it is near
EXPECTED_WAIT = 20_000  # milliseconds: two busy cores are slow, and a failure is rare
expect.set_options(timeout=EXPECTED_WAIT)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    path = find()
    if path is None:
        pytest.fail("there is no Chromium: run python tools/browser.py first")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield browser
        browser.close()


def said_by(message: ConsoleMessage) -> str:
    """What a page logged; of a file that did not come, which one."""
    missing = f": {message.location['url']}" if " status of " in message.text else ""
    return f"{message.type}: {message.text}{missing}"


class Visitor:
    """Opens pages, and writes down whatever they log, throw, ask for or pop up."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self.contexts: list[BrowserContext] = []
        self.problems: list[str] = []
        self.expected: tuple[str, ...] = ()  # how messages begin that a test knows of
        self.requests: list[str] = []

    def __call__(
        self, url: str, *, width: int = 900, height: int = 1000, leads_on: bool = False, **options
    ) -> Page:
        """The page at `url`; one that `leads_on` to another at once is asked for nothing."""
        context = self.browser.new_context(
            viewport={"width": width, "height": height}, reduced_motion="reduce", **options
        )
        self.contexts.append(context)
        context.set_default_timeout(EXPECTED_WAIT)
        page = context.new_page()
        page.on("console", lambda message: self.problems.append(said_by(message)))
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("crash", lambda _: self.problems.append("the page crashed"))
        page.on("request", lambda request: self.requests.append(request.url))
        page.goto(url)
        if options.get("java_script_enabled", True) and not leads_on:
            page.evaluate(f"window.MathJax || {PRINTED}")  # widgets and no formulas: all at once
        return page

    def close(self) -> None:
        for context in self.contexts:
            context.close()


@pytest.fixture
def visit(chromium: Browser) -> Iterator[Visitor]:
    """Opens a page; when the test ends, none may have logged or thrown anything."""
    visitor = Visitor(chromium)
    yield visitor
    visitor.close()
    # Asked here and not in the test: a page may log while it is being left.
    assert [said for said in visitor.problems if not said.startswith(visitor.expected)] == []


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Tests say what went wrong, not the server."""


class SlowHandler(QuietHandler):
    """Answers over a line that all requests share: 150 ms of latency, 0.4 MB a second.

    Not by Chromium's own throttling, under which one page in forty never gets what it asked for.
    """

    line = threading.Lock()

    def copyfile(self, source: BinaryIO, outputfile: BinaryIO) -> None:
        time.sleep(0.15)
        while part := source.read(4000):
            with self.line:
                time.sleep(len(part) / 400_000)
                outputfile.write(part)


@contextmanager
def served(folder: Path, handler: type[QuietHandler] = QuietHandler) -> Iterator[str]:
    """The address of a server on a free port that gives out `folder`."""
    handler = partial(handler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    """The address of a bare page: `bare("scores")`, or `bare("scores", "file")` from the disk."""
    folder = tmp_path_factory.mktemp("bare")
    write_bare_pages(folder)
    with served(folder) as server:
        at = {"http": server, "file": folder.as_uri()}
        yield lambda name, scheme="http": f"{at[scheme]}/{name}.html"


@pytest.fixture(scope="session")
def book() -> Iterator[dict[str, str]]:
    """Where the built book lies: on a server, and on the disk."""
    if not (SITE / "book" / "index.html").is_file():
        pytest.fail("the book is not built: run make book first")
    with served(SITE) as server:
        yield {"http": server, "file": SITE.as_uri()}


@pytest.fixture
def turn(visit: Visitor, book: dict[str, str]) -> Callable[..., Page]:
    """Opens a page of the book by its name."""
    visit.expected = (THEME_LOGS,)

    def open_page(name: str, scheme: str = "http", query: str = "", **options) -> Page:
        return visit(f"{book[scheme]}/{name}.html{query}", **options)

    return open_page


@pytest.fixture(scope="module")
def js(chromium: Browser, request: pytest.FixtureRequest) -> Iterator[Callable]:
    """Calls a function on the module that a test file names: `js("(x) => ...", x)`."""
    with functions_of(chromium, request.module.MODULE) as call:
        yield call


@pytest.fixture(scope="session")
def public(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Where a book of two pages lies that has a public home, and so a page for lost readers."""
    folder = tmp_path_factory.mktemp("public")
    settings = (ROOT / "_config.yml").read_text(encoding="utf-8")
    settings = re.sub(r"(?<=^repository:\n  url: ).*", HOME, settings, flags=re.MULTILINE)
    (folder / "_config.yml").write_text(settings, encoding="utf-8")
    (folder / "_toc.yml").write_text(CONTENTS, encoding="utf-8")
    (folder / "book").symlink_to(ROOT / "book")
    command = [sys.executable, "-c", BUILD, "build", str(folder), "-q"]
    subprocess.run(command, check=True, capture_output=True)
    (folder / "notes").symlink_to(folder / "_build" / "html")
    with served(folder) as server:
        yield {"http": f"{server}/notes"}
