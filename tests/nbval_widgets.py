"""A pytest plugin: nbval compares numbers with a stated tolerance within it, widgets to two quanta.

    python -m pytest --nbval book/*.ipynb -p tests.nbval_widgets

The tolerance stands in a cell's metadata, absolute or in per cent: `"tolerance": 0.01`, `"10%"`.
It holds for every number that the cell prints or tabulates, and for those that its widget holds
one by one. All else in such a text must be the same, but for the spaces around a number: its width
moves them.

The cells that a page shows run first, in order, and the folded ones after them: so a page whose
shown cells need a folded one fails. A cell that is done within `QUICK` seconds runs a second time
and must print the same; with `ATTN_NOTES_EVERY_CELL_TWICE` set, every cell does.

The same seed gives numbers 1e-6 apart on different processors, and a number at the border of two
quanta then lands in the other. Everything else of a widget is compared exactly: keys, strings,
tokens, shapes, whole numbers, masks. The decimals of its table and of its one-line description
may differ by one unit in their last place.

A figure is compared by its description alone (`<Figure size 616x330 with 1 Axes>`): its pixels and
paths are matplotlib's.

A cell tagged `needs-triton` runs everywhere, but its output is compared only where triton is
installed and can run; elsewhere the last lines of the report count such cells.

Where the system has sockets that are files, kernels are spoken to through those. A port is chosen
in one process and bound a second later in another; whoever takes it in between leaves a kernel that
lives and never answers.
"""

import functools
import itertools
import json
import math
import os
import re
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import nbval.kernel
import pytest
from jupyter_client.manager import KernelManager
from nbval.plugin import IPyNbCell

from attn_widgets.encoding import decode
from tools.notebook_rules import is_folded
from tools.notebooks import not_to_be_made_here

QUICK = 2  # seconds
EVERY_CELL_TWICE = "ATTN_NOTES_EVERY_CELL_TWICE"
MOST_QUANTA = 2
ABSOLUTE, RELATIVE = 2e-6, 1e-4  # of a float outside an array, the ends of a scale among them

WIDGET = re.compile(
    r'(<attn-widget[^>]*><script type="application/json">)(.*?)(</script>)', re.DOTALL
)
DECIMAL = re.compile(r"-?\d+\.\d+")
TABLE_CELL = re.compile(r"(?<=<td>)-?\d+\.\d+(?=</td>)")
NOT_COMPARED = "not compared"
ARRAY_KEYS = {"b64", "shape", "bits"}
NUMBER = r"[-−]?\d+(?:\.\d+)?(?:e[-+]\d+)?"
ANY_NUMBER = re.compile(rf"[ ]*(?<![\w.])({NUMBER})(?![\w.]*\d)[ ]*")
TEXTS = "text/plain", "text/html"
DRAWING = "image/svg+xml"  # nbval itself leaves out what is made of pixels


def difference(reference: str, test: str, tolerance: float | str = 0.0) -> str | None:
    """The first difference of two widgets' HTML that counts, in words; None where none does."""
    blocks = [WIDGET.findall(html) for html in (reference, test)]
    if not blocks[0] or len(blocks[0]) != len(blocks[1]):
        return None if reference == test else "one is a widget, the other is not"
    pairs = zip(*blocks, strict=True)
    found = _first(
        _of_values(json.loads(a), json.loads(b), "", tolerance) for (_, a, _), (_, b, _) in pairs
    )
    rest = [WIDGET.sub(r"\1\3", html) for html in (reference, test)]
    return found or _of_decimals(*rest, TABLE_CELL, "the table")


def difference_of_text(reference: str, test: str) -> str | None:
    """The first difference of two widgets' descriptions that counts."""
    return _of_decimals(reference, test, DECIMAL, "the description")


def _of_values(ours: Any, theirs: Any, at: str, tolerance: float | str) -> str | None:
    """Compare two pieces of a widget's state; `at` is the way to them."""
    if type(ours) is not type(theirs):
        return f"{at or 'the state'}: {ours!r} became {theirs!r}"
    if isinstance(ours, dict):
        return _of_dicts(ours, theirs, at, tolerance)
    if isinstance(ours, list):
        if len(ours) != len(theirs):
            return f"{at}: {len(ours)} entries became {len(theirs)}"
        pairs = enumerate(zip(ours, theirs, strict=True))
        return _first(_of_values(a, b, f"{at}[{n}]", tolerance) for n, (a, b) in pairs)
    if isinstance(ours, float):
        most = max(ABSOLUTE, allowed(tolerance, ours) * (1 + 1e-9))
        same = math.isclose(ours, theirs, rel_tol=RELATIVE, abs_tol=most)
    else:
        same = ours == theirs
    return None if same else f"{at}: {ours!r} became {theirs!r}"


def _of_dicts(
    ours: dict[str, Any], theirs: dict[str, Any], at: str, tolerance: float | str
) -> str | None:
    """Compare two pieces of state by their keys; an encoded array is one piece."""
    if ours.keys() != theirs.keys():
        return f"{at or 'the state'}: keys {sorted(ours)} became {sorted(theirs)}"
    if ours.keys() >= ARRAY_KEYS:
        return _of_arrays(ours, theirs, at)
    return _first(_of_values(ours[key], theirs[key], f"{at}.{key}", tolerance) for key in ours)


def _of_arrays(ours: dict[str, Any], theirs: dict[str, Any], at: str) -> str | None:
    """Compare two encoded arrays: what they say of themselves, then quantum by quantum."""
    for key, value in ours.items():
        if key != "b64" and (found := _of_values(value, theirs[key], f"{at}.{key}", 0.0)):
            return found
    sizes = [len(array["b64"]) for array in (ours, theirs)]
    if sizes[0] != sizes[1]:
        return f"{at}: {sizes[0]} characters became {sizes[1]}"
    if ours["bits"] == 1:
        return None if ours["b64"] == theirs["b64"] else f"{at}: the mask differs"
    whole = {"lo": 0.0, "hi": 2.0 ** ours["bits"] - 1, "power": 1}  # a step is 1
    quanta = (decode(array | whole).flatten().tolist() for array in (ours, theirs))
    for n, (a, b) in enumerate(zip(*quanta, strict=True)):
        if abs(a - b) > MOST_QUANTA + 0.5:
            return f"{at}: entry {n} is {abs(a - b):.0f} quanta off (2 may be)"
    return None


def _of_decimals(ours: str, theirs: str, number: re.Pattern[str], what: str) -> str | None:
    """Compare two texts exactly, but for one unit in the last place of their decimals."""
    if number.sub("#", ours) != number.sub("#", theirs):
        return f"{what} differs in more than its decimals"
    for a, b in zip(number.findall(ours), number.findall(theirs), strict=True):
        places = len(a.partition(".")[2])
        if places != len(b.partition(".")[2]):
            return f"{what}: {a} became {b}"
        if abs(Decimal(a) - Decimal(b)) > Decimal(1).scaleb(-places):
            return f"{what}: {a} became {b}, more than one unit in the last place"
    return None


def _first(found: Iterator[str | None]) -> str | None:
    return next(filter(None, found), None)


def pair_widgets(
    test: list[Any], reference: list[Any], tolerance: float | str = 0.0
) -> tuple[list[Any], list[str]]:
    """The test outputs, each equivalent widget replaced by the stored one; and what differs."""
    tests = [n for n, out in enumerate(test) if "text/html" in out.get("data", {})]
    references = [out for out in reference if "text/html" in out.get("data", {})]
    replaced, complaints = list(test), []
    for n, stored in zip(tests, references, strict=False):
        html, old = test[n]["data"]["text/html"], stored["data"]["text/html"]
        if not WIDGET.search(old):
            continue
        text, old_text = test[n]["data"].get("text/plain", ""), stored["data"].get("text/plain", "")
        found = difference(old, html, tolerance) or difference_of_text(old_text, text)
        if found:
            complaints.append(found)
        else:
            replaced[n] = type(test[n])({**test[n], "data": {**test[n]["data"], **stored["data"]}})
    return replaced, complaints


def difference_beyond(tolerance: float | str, reference: str, test: str) -> str | None:
    """The first difference of two texts beyond a cell's tolerance, in words; None for none."""
    skeletons = [re.sub(r" +", " ", ANY_NUMBER.sub(" # ", text)) for text in (reference, test)]
    if skeletons[0] != skeletons[1]:
        return "the texts differ in more than their numbers"
    pairs = zip(ANY_NUMBER.findall(reference), ANY_NUMBER.findall(test), strict=True)
    for ours, theirs in pairs:
        most = allowed(tolerance, _value(ours))
        if abs(_value(ours) - _value(theirs)) > most * (1 + 1e-9):
            return f"{ours} became {theirs}, more than {tolerance} away"
    return None


def allowed(tolerance: float | str, number: float) -> float:
    """How far from `number` another may be: the tolerance itself, or its per cent of the number."""
    if isinstance(tolerance, str):
        return abs(number) * float(tolerance.removesuffix("%")) / 100
    return tolerance


def pair_texts(
    test: list[dict[str, Any]], reference: list[dict[str, Any]], tolerance: float | str
) -> tuple[list[dict[str, Any]], list[str]]:
    """The test's outputs, each text within tolerance replaced by the stored one; what differs."""
    replaced, complaints = [], []
    for ours, stored in itertools.zip_longest(test, reference, fillvalue=None):
        if ours is None or stored is None:
            replaced += [ours] if ours else []
            continue
        old, new = _texts_of(stored), _texts_of(ours)
        for name in old.keys() & new.keys():
            if old[name] != new[name] and not WIDGET.search(old[name]):
                found = difference_beyond(tolerance, old[name], new[name])
                complaints += [found] if found else []
                new[name] = old[name]
        replaced.append(_with_texts(ours, new))
    return replaced, complaints


def without_drawings(outputs: list[Any]) -> list[Any]:
    """The outputs, each without its drawing; all else of it is still compared."""
    return [_without_drawing(output) if "data" in output else output for output in outputs]


def _without_drawing(output: Any) -> Any:
    rest = {mime: data for mime, data in output["data"].items() if mime != DRAWING}
    return type(output)({**output, "data": rest})


def _value(number: str) -> float:
    return float(number.replace("−", "-"))


def _texts_of(output: dict[str, Any]) -> dict[str, str]:
    """The texts of an output that a reader sees, by the key that they stand under."""
    if "text" in output:
        return {"text": output["text"]}
    return {name: output["data"][name] for name in TEXTS if name in output.get("data", {})}


def _with_texts(output: dict[str, Any], texts: dict[str, str]) -> dict[str, Any]:
    if "text" in output:
        return type(output)({**output, **texts})
    if "data" in output:
        return type(output)({**output, "data": {**output["data"], **texts}})
    return output


def within_tolerance(compare: Callable[..., bool]) -> Callable[..., bool]:
    """nbval's own comparison, with equivalent numbers and widgets made equal first."""

    @functools.wraps(compare)
    def wrapped(
        self: IPyNbCell, test: list[Any], ref: list[Any], *args: Any, **kwargs: Any
    ) -> bool:
        texts, wrong_texts = test, []
        if tolerance := self.cell.metadata.get("tolerance", 0.0):
            texts, wrong_texts = pair_texts(test, ref, tolerance)
        replaced, wrong_widgets = pair_widgets(texts, ref, tolerance)
        if wrong_texts or wrong_widgets:  # a comparison of a widget's long lines would take minutes
            self.comparison_traceback = [
                *(f"numbers differ: {words}" for words in wrong_texts),
                *(f"widget differs: {words}" for words in wrong_widgets),
            ]
            return False
        return compare(self, without_drawings(replaced), without_drawings(ref), *args, **kwargs)

    return wrapped


def twice(run: Callable[[IPyNbCell], None]) -> Callable[[IPyNbCell], None]:
    """nbval's own run of a cell, and another one."""

    @functools.wraps(run)
    def wrapped(self: IPyNbCell) -> None:
        before = time.monotonic()
        run(self)
        quick = time.monotonic() - before < QUICK
        if quick or os.environ.get(EVERY_CELL_TWICE):
            run(self)

    return wrapped


def shown_first(items: list[pytest.Item]) -> list[pytest.Item]:
    """The same items; those of each page with its folded cells last."""

    def is_late(item: pytest.Item) -> bool:
        return isinstance(item, IPyNbCell) and is_folded(item.cell)

    pages = itertools.groupby(items, key=lambda item: item.path)
    return [item for _, found in pages for item in sorted(found, key=is_late)]


def kernel_manager(folder: str) -> Callable[..., KernelManager]:
    """Makes managers whose kernels are spoken to through files of `folder`, where that can be."""
    if os.name == "nt":
        return KernelManager
    numbers = itertools.count()

    def manager(**options: Any) -> KernelManager:
        return KernelManager(transport="ipc", ip=f"{folder}/{next(numbers)}", **options)

    return manager


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run what a page shows first; compare no output that cannot be made here, and note why."""
    items[:] = shown_first(items)
    reasons = not_to_be_made_here()
    for item in items:
        if isinstance(item, IPyNbCell):
            for tag in reasons.keys() & set(item.cell.metadata.get("tags", ())):
                item.options["check"] = False
                item.user_properties.append((NOT_COMPARED, reasons[tag]))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many outputs were not compared; xdist's workers have sent their notes with them."""
    reports = [report for found in terminalreporter.stats.values() for report in found]
    runs = [report for report in reports if getattr(report, "when", "") == "call"]
    noted = (note for report in runs for note in report.user_properties)
    for why, count in Counter(why for name, why in noted if name == NOT_COMPARED).items():
        terminalreporter.write_line(f"{why}: {count} outputs not compared")


_COMPARE, _RUN = IPyNbCell.compare_outputs, IPyNbCell.runtest
_FOLDER = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    """Put the comparison in place of nbval's, and files in place of ports."""
    os.environ.pop("MPLBACKEND", None)  # a reader's choice for scripts: no figure would be shown
    os.environ["TQDM_DISABLE"] = "1"  # a bar is no output to compare
    IPyNbCell.compare_outputs, IPyNbCell.runtest = within_tolerance(_COMPARE), twice(_RUN)
    # Short, since such a socket's path may have a hundred characters: not one of pytest's folders.
    config.stash[_FOLDER] = tempfile.mkdtemp(prefix="kernels-")
    nbval.kernel.KernelManager = kernel_manager(config.stash[_FOLDER])


def pytest_unconfigure(config: pytest.Config) -> None:
    """Give nbval its own back."""
    IPyNbCell.compare_outputs, IPyNbCell.runtest = _COMPARE, _RUN
    nbval.kernel.KernelManager = KernelManager
    shutil.rmtree(config.stash[_FOLDER], ignore_errors=True)
