"""Set a chapter's exercises as homework: a notebook that nbgrader can release and grade.

python tools/assignments.py 03                assignments/03_masking.ipynb, without solutions
python tools/assignments.py 03 --hints        the same with the hints
python tools/assignments.py 03 --solutions    with the solutions too, for nbgrader's source folder
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
BOOK = ROOT / "book"
EXERCISE = re.compile(
    r"^(`{3,})\{exercise\} (.+)\n:label: (\S+)\n(.*?)^\1$", re.MULTILINE | re.DOTALL
)
SOLUTION = re.compile(
    r"^(`{3,})\{solution\} (\S+)\n:class: dropdown\n(.*?)^\1$", re.MULTILINE | re.DOTALL
)
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
CALL = re.compile(r"^exercises\.(\w+)\((.*)\)$")
EQUATION = re.compile(r"\$\$((?:(?!\$\$).)+)\$\$ \(([\w-]+)\)", re.DOTALL)
CITED = re.compile(r"\{cite(:t)?\}`([a-z-]+)(\d{4})\w*`")
LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)[^)]*\)")  # to a place in the book
ROLE = re.compile(r"\{[\w:]+\}`([^`<]+?)(?: <[^>]*>)?`")

Cell = dict[str, Any]


def chapter(number: str) -> Path:
    """The notebook of a chapter, named by its number, such as 3 or 03."""
    found = [path for path in BOOK.glob("[0-9][0-9]_*.ipynb") if path.name[:2] == number.zfill(2)]
    if not found:
        numbers = ", ".join(sorted(path.name[:2] for path in BOOK.glob("[0-9][0-9]_*.ipynb")))
        sys.exit(f"CHAPTER must be one of {numbers}, got {number!r}")
    return found[0]


def cells(notebook: Path) -> list[Cell]:
    """The cells of a notebook, each with its source as one string."""
    read = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    kept = (cell for cell in read if cell["id"] != "launch")  # that one only brings the package
    return [cell | {"source": "".join(cell["source"])} for cell in kept]


def tags(cell: Cell) -> list[str]:
    return list(cell["metadata"].get("tags", ()))


def calls(stub: str) -> list[str]:
    """The lines of a stub that hand the answer to its checks."""
    return [line for line in stub.splitlines() if CALL.match(line)]


def write(number: str, folder: Path, *, hints: bool = False, solutions: bool = False) -> Path:
    """A notebook with the first code cell of a chapter and its exercises, ready to be answered."""
    source = chapter(number)
    everything = cells(source)
    title = everything[0]["source"].splitlines()[0].removeprefix("# ")
    first = next(cell for cell in everything if cell["cell_type"] == "code")
    found = (SOLUTION.search(cell["source"]) for cell in everything)
    solved = {match[2]: match[3] for match in found if match} if solutions else {}
    made = [
        _cell("markdown", "title", f"# Exercises: {title}\n\nRun the next cell first."),
        _cell("code", "imports", first["source"], _nbgrader("imports")),
        *_exercises(everything, solved, hints=hints),
    ]
    folder.mkdir(parents=True, exist_ok=True)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook = {
        "cells": made,
        "metadata": {"kernelspec": kernel},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    path = folder / source.name
    path.write_text(json.dumps(notebook, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return path


def _exercises(everything: list[Cell], solved: dict[str, str], *, hints: bool) -> Iterator[Cell]:
    """The texts in plain Markdown, each with its stub and check, or with a place to write."""
    label, points = "", 0
    for cell, after in zip(everything, [*everything[1:], everything[0]], strict=True):
        name, source = cell["id"], cell["source"]
        if match := EXERCISE.search(source):
            label, points = match[3], match[4].split()[0].count("★")
            yield _cell("markdown", name, f"## {match[2]}\n\n{_plain(match[4].strip())}")
            if "stub" not in tags(after):  # to be read by a person
                grading = _nbgrader(label, points=points, solution=True)
                yield _cell("markdown", f"{name}-answer", _written(solved.get(label)), grading)
        elif "stub" in tags(cell):
            answer = _nbgrader(f"{label}-answer", solution=True)
            yield _cell("code", name, _answer(source, solved.get(label)), answer)
            check = "\n".join(
                CALL.sub(r"exercises.require(exercises.\1, \2)", x) for x in calls(source)
            )
            yield _cell("code", f"{name}-check", check, _nbgrader(label, points=points))
        elif hints and "{admonition} Hint" in source:
            lines = source.strip().splitlines()[2:-1]
            yield _cell("markdown", name, f"*Hint.* {_plain(chr(10).join(lines).strip())}")


def _written(solution: str | None) -> str:
    """A place for words; a solution stands between the marks that nbgrader clears."""
    if solution is None:
        return "*Your answer:*"
    marked = f"### BEGIN SOLUTION\n{_plain(solution.strip())}\n### END SOLUTION"
    return f"*Your answer:*\n\n{marked}"


def _answer(stub: str, solution: str | None) -> str:
    """A stub; a solution stands in its place, or under what is to be changed, between marks."""
    if solution is None:
        return stub
    left = (
        "\n".join(line for line in stub.splitlines() if not CALL.match(line)).rstrip().splitlines()
    )
    right = "\n".join(PYTHON.findall(solution)).rstrip().splitlines()
    if left[-1].strip().startswith("raise NotImplementedError"):
        same = [*map(str.__eq__, left, right)].index(False)
        left, right = left[:-1], right[max(same, 1) :]  # the head of the function stays
    else:
        left = [*left, "", ""]
    indent = " " * (len(right[0]) - len(right[0].lstrip()))
    marked = [f"{indent}### BEGIN SOLUTION", *right, f"{indent}### END SOLUTION"]
    return "\n".join([*left, *marked, "", "", *calls(stub)])


def _plain(text: str) -> str:
    """Without the book's roles; the equations of the book that a text names stand below it."""
    text = EQUATION.sub(r"$$\1$$", text)
    named = list(dict.fromkeys(re.findall(r"\{eq\}`([\w-]+)`", text)))
    known = _equations() if named else {}
    for number, label in enumerate(named, start=1):
        text = text.replace(f"{{eq}}`{label}`", f"({number})")
    text = CITED.sub(
        lambda m: f"{m[2].title()} ({m[3]})" if m[1] else f"({m[2].title()}, {m[3]})", text
    )
    shown = [rf"$${known[label]}\tag{{{n}}}$$" for n, label in enumerate(named, start=1)]
    text = LINK.sub(r"\1", ROLE.sub(r"\1", text))
    return "\n\n".join([text, *shown])


def _equations() -> dict[str, str]:
    """The numbered equations of all chapters, by their labels."""
    every = (cell["source"] for path in sorted(BOOK.glob("[0-9]*.ipynb")) for cell in cells(path))
    return {label: body.strip() for source in every for body, label in EQUATION.findall(source)}


def _nbgrader(name: str, *, points: int | None = None, solution: bool = False) -> dict[str, Any]:
    """nbgrader's metadata: a cell with points is graded, one without a solution is locked."""
    grading: dict[str, Any] = {"grade": points is not None, "solution": solution}
    grading |= {"grade_id": name, "locked": not solution, "schema_version": 3, "task": False}
    return {"nbgrader": grading | ({} if points is None else {"points": points})}


def _cell(kind: str, name: str, source: str, metadata: dict[str, Any] | None = None) -> Cell:
    code: dict[str, Any] = {"outputs": [], "execution_count": None} if kind == "code" else {}
    return {"cell_type": kind, "id": name, "metadata": metadata or {}, "source": source, **code}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("chapter", help="its number, such as 03")
    parser.add_argument("--out", type=Path, default=Path("assignments"))
    parser.add_argument("--hints", action="store_true")
    parser.add_argument("--solutions", action="store_true")
    chosen = parser.parse_args()
    print(write(chosen.chapter, chosen.out, hints=chosen.hints, solutions=chosen.solutions))
    return 0


if __name__ == "__main__":
    sys.exit(main())
