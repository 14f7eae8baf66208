"""How soon a page answers: blocking time, layout shift and weight on a telephone four times slower.

python -m benchmarks.settling                      every page with a widget; five loads each
python -m benchmarks.settling --site DIR --loads 3
python -m benchmarks.settling --before DIR         beside another build, loaded by turns
"""

import argparse
import itertools
import statistics
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

from benchmarks.pages import ROOT, kind_of, packed, pages
from benchmarks.report import print_table
from tests.browser.conftest import served
from tools.browser import FLAGS, find

SLOWER = 4  # as the mobile preset of Lighthouse has it
QUIET = 2500  # milliseconds without a long task after which a page has settled
LONGEST = 30_000
# As Lighthouse counts: what each task after the first paint takes beyond 50 ms; and how far what
# is seen jumps, at worst within five seconds.
WATCH = """
window.settling = { tasks: [], shifts: [], from: "" };
const watch = (type, note) => new PerformanceObserver((list) => list.getEntries().forEach(note))
  .observe({ type, buffered: true });
watch("longtask", (entry) => settling.tasks.push([entry.startTime, entry.duration]));
watch("layout-shift", (entry) => {
  if (entry.hadRecentInput) return;
  const moved = entry.sources.map(({ node }) => node?.nodeName + "." + (node?.className ?? ""));
  settling.shifts.push([entry.startTime, entry.value, moved.join(" ")]);
});
"""
SETTLED = """([quiet]) => {
  const last = Math.max(0, ...settling.tasks.map(([start, length]) => start + length));
  return document.readyState === "complete" && performance.now() - last > quiet;
}"""
FIRST_PAINT = """() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0"""


def blocking(tasks: list[list[float]], paint: float) -> float:
    """Milliseconds in which a press would have waited."""
    late = ((start, length) for start, length in tasks if start + length > paint)
    parts = (min(length, start + length - paint) - 50 for start, length in late)
    return sum(part for part in parts if part > 0)


def worst_shift(shifts: list[list[Any]]) -> float:
    """The largest sum of shifts less than a second apart, within five seconds."""
    worst = total = began = before = 0.0
    for at, value, _ in shifts:
        if at - before > 1000 or at - began > 5000:
            total, began = 0.0, at
        total, before = total + value, at
        worst = max(worst, total)
    return worst


def load(browser: Browser, url: str, site: Path) -> dict[str, Any]:
    """One visit, with an empty cache."""
    context = browser.new_context(
        viewport={"width": 390, "height": 844}, device_scale_factor=2, is_mobile=True
    )
    page = context.new_page()
    page.add_init_script(WATCH)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": SLOWER})
    page.goto(url)
    page.wait_for_function(SETTLED, arg=[QUIET], timeout=LONGEST, polling=250)
    found = page.evaluate("settling")
    paint = page.evaluate(FIRST_PAINT)
    context.close()
    origin = url.split("/book/", maxsplit=1)[0]
    files = {site / u.removeprefix(origin).split("?")[0].split("#")[0].lstrip("/") for u in asked}
    weight = sum(packed(file) for file in files if file.is_file() and kind_of(file))
    jumps = sorted(found["shifts"], key=lambda one: -one[1])
    return {
        "blocking": blocking(found["tasks"], paint),
        "shift": worst_shift(found["shifts"]),
        "paint": paint,
        "weight": weight,
        "moved": jumps[0][2] if jumps else "",
    }


def by_turns(
    browser: Browser, sites: dict[str, Path], name: str, loads: int
) -> dict[str, list[dict[str, Any]]]:
    """The visits to a page of each site, one after the other, so that all meet the same machine."""
    visits: dict[str, list[dict[str, Any]]] = {which: [] for which in sites}
    for _ in range(loads):
        for which, site in sites.items():
            with served(site) as server:
                visits[which].append(load(browser, f"{server}/{name}.html", site))
    return visits


def row(name: str, visits: list[dict[str, Any]]) -> list[str]:
    """The middle of each figure, and what moved most."""
    keys = ("blocking", "shift", "paint", "weight")
    middle = {key: statistics.median(visit[key] for visit in visits) for key in keys}
    worst = max(visits, key=lambda visit: visit["shift"])
    return [
        name,
        f"{middle['blocking']:.0f}",
        f"{middle['shift']:.3f}",
        f"{middle['paint']:.0f}",
        f"{middle['weight'] / 1000:.0f}",
        worst["moved"][:60] if worst["shift"] > 0.01 else "",
    ]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", nargs="*", help="such as book/07_transformer")
    parser.add_argument("--site", type=Path, default=ROOT / "_build" / "html")
    parser.add_argument("--before", type=Path)
    parser.add_argument("--loads", type=int, default=5)
    options = parser.parse_args(arguments)
    site = options.site.resolve()
    if not (site / "book" / "index.html").is_file():
        sys.exit(f"there is no book in {site}: run make book first")
    names = options.pages or [
        name
        for name in pages(ROOT / "_toc.yml")
        if "<attn-widget" in (site / f"{name}.html").read_text(encoding="utf-8")
    ]
    sites = {"": site} if options.before is None else {"before": options.before.resolve(), "": site}
    for name, folder in itertools.product(names, sites.values()):
        if not (folder / f"{name}.html").is_file():  # the page that says so settles at once
            sys.exit(f"there is no page {name} in {folder}")
    rows = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find(), args=list(FLAGS))
        for name in names:
            visits = by_turns(browser, sites, name, options.loads)
            rows += [row(f"{name.removeprefix('book/')} {which}", visits[which]) for which in sites]
            print(f"{name}: settled", file=sys.stderr, flush=True)
        browser.close()
    heads = ["page", "blocking, ms", "shift", "first paint, ms", "kB", "what moved most"]
    print_table(heads, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
