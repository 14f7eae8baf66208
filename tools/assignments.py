"""Set a chapter's exercises as homework, and grade the answers with the chapter's own checks.

python tools/assignments.py write 03             assignments/03_masking.ipynb, without solutions
python tools/assignments.py write 03 --hints     the same with the hints
python tools/assignments.py grade 03 FOLDER      FOLDER/grades.csv, a row for each notebook there

Grading runs the students' code: do it where that code may run, such as a container.
"""

import argparse
import contextlib
import csv
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from IPython.core.inputtransformer2 import TransformerManager

import attn_exercises as exercises

ROOT = Path(__file__).resolve().parents[1]
BOOK = ROOT / "book"
SECONDS = 300  # a notebook may take to be graded
EXERCISE = re.compile(
    r"^(`{3,})\{exercise\} (.+)\n:label: (\S+)\n(.*?)^\1$", re.MULTILINE | re.DOTALL
)
CALL = re.compile(r"^exercises\.(\w+)\(.*\)$")
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
    return [cell | {"source": "".join(cell["source"])} for cell in read]


def tags(cell: Cell) -> list[str]:
    return list(cell["metadata"].get("tags", ()))


def stubs(number: str) -> dict[str, str]:
    """The source of each stub of a chapter, by the label of its exercise."""
    found, label = {}, ""
    for cell in cells(chapter(number)):
        match = EXERCISE.search(cell["source"])
        label = match[3] if match else label
        if "stub" in tags(cell):
            found[label] = cell["source"]
    return found


def calls(stub: str) -> list[str]:
    """The lines of a stub that hand the answer to its checks."""
    return [line for line in stub.splitlines() if CALL.match(line)]


# ---- Writing --------------------------------------------------------------------------------


def write(number: str, folder: Path, *, hints: bool) -> Path:
    """A notebook with the first code cell of a chapter and its exercises, ready to be answered."""
    source = chapter(number)
    everything = cells(source)
    title = everything[0]["source"].splitlines()[0].removeprefix("# ")
    first = next(cell for cell in everything if cell["cell_type"] == "code")
    made = [
        _cell("markdown", "title", f"# Exercises: {title}\n\nRun the next cell first."),
        _cell("code", "imports", first["source"]),
        *_exercises(everything, hints=hints),
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


def _exercises(everything: list[Cell], *, hints: bool) -> Iterator[Cell]:
    """The texts in plain Markdown, and their stubs; where there is no stub, a place to write."""
    for cell, after in zip(
        everything, [*everything[1:], _cell("markdown", "end", "")], strict=True
    ):
        name, source = cell["id"], cell["source"]
        if match := EXERCISE.search(source):
            yield _cell("markdown", name, f"## {match[2]}\n\n{_plain(match[4].strip())}")
            if "stub" not in tags(after):
                yield _cell("markdown", f"{name}-answer", "*Your answer:*")
        elif "stub" in tags(cell):
            yield _cell("code", name, source)
        elif hints and "{admonition} Hint" in source:
            lines = source.strip().splitlines()[2:-1]
            yield _cell("markdown", name, f"*Hint.* {_plain(chr(10).join(lines).strip())}")


def _plain(text: str) -> str:
    """Without the book's roles; the equations of the book that a text names stand below it."""
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


def _cell(kind: str, name: str, source: str) -> Cell:
    code: dict[str, Any] = {"outputs": [], "execution_count": None} if kind == "code" else {}
    return {"cell_type": kind, "id": name, "metadata": {}, "source": source, **code}


# ---- Grading --------------------------------------------------------------------------------


def grade(number: str, folder: Path) -> Path:
    """Run the checks over every notebook of a folder: a row each in `grades.csv` there."""
    notebooks, labels = sorted(folder.glob("*.ipynb")), list(stubs(number))
    if not notebooks:
        sys.exit(f"{folder} must hold notebooks with answers, and holds none")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        verdicts = list(pool.map(lambda notebook: _in_a_process(number, notebook), notebooks))
    path = folder / "grades.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ["notebook", "correct", "of", *labels])
        writer.writeheader()
        for notebook, said in zip(notebooks, verdicts, strict=True):
            correct = sum(words == "Correct" for words in said.values())
            row = {"notebook": notebook.name, "correct": correct, "of": len(labels)}
            writer.writerow(row | said)
    return path


def _in_a_process(number: str, notebook: Path) -> dict[str, str]:
    """What the checks say of one notebook, in a process that may not take for ever."""
    command = [sys.executable, __file__, "check", number, str(notebook.resolve())]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return dict.fromkeys(stubs(number), f"Not yet: stopped after {SECONDS} seconds")
    if run.returncode:
        last = (run.stderr.strip().splitlines() or ["no message"])[-1]
        return dict.fromkeys(stubs(number), f"Not yet: the notebook cannot be run: {last}")
    verdicts: dict[str, str] = json.loads(run.stdout.splitlines()[-1])
    return verdicts


def check(number: str, notebook: Path) -> dict[str, str]:
    """Run a notebook from top to bottom; the chapter's own calls judge what each stub became.

    What the answers print is thrown away, so that only the checks can say `Correct`.
    """
    os.chdir(BOOK)  # where the chapters find their data
    wanted = {label: calls(stub) for label, stub in stubs(number).items()}
    said = dict.fromkeys(wanted, "Not yet: its cell is missing")
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for cell in cells(notebook):
        if cell["cell_type"] != "code":
            continue
        own = calls(cell["source"])
        label = next((key for key, lines in wanted.items() if set(lines) & set(own)), None)
        failure = _run(cell["source"], namespace)
        if label is not None:
            said[label] = failure or _verdict(wanted[label], namespace)
    return said


def _run(source: str, namespace: dict[str, Any]) -> str:
    """Run a cell but for its calls of the checks; what to say if it fails."""
    kept = "\n".join(line for line in source.splitlines() if not CALL.match(line))
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            exec(TransformerManager().transform_cell(kept), namespace)
    except (Exception, SystemExit) as error:
        return f"Not yet: the cell raises {type(error).__name__}: {error}"
    return ""


def _verdict(lines: list[str], namespace: dict[str, Any]) -> str:
    """What the checks print: `Correct` if all of them do, or the first complaint."""
    for line in lines:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(line, namespace | {"exercises": exercises})
        *_, words = out.getvalue().strip().splitlines() or ["Not yet: the check said nothing"]
        if words != "Correct":
            return words
    return "Correct"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    commands = parser.add_subparsers(dest="command", required=True)
    writing = commands.add_parser("write", help="a notebook without solutions")
    writing.add_argument("chapter")
    writing.add_argument("--out", type=Path, default=Path("assignments"))
    writing.add_argument("--hints", action="store_true")
    grading = commands.add_parser("grade", help="the checks over a folder of answers")
    grading.add_argument("chapter")
    grading.add_argument("folder", type=Path)
    checking = commands.add_parser("check", help="the checks over one notebook, as JSON")
    checking.add_argument("chapter")
    checking.add_argument("notebook", type=Path)
    chosen = parser.parse_args()
    if chosen.command == "write":
        print(write(chosen.chapter, chosen.out, hints=chosen.hints))
    elif chosen.command == "grade":
        print(grade(chosen.chapter, chosen.folder))
    else:
        print(json.dumps(check(chosen.chapter, chosen.notebook)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
