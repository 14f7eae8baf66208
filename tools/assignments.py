"""Set a chapter's exercises as homework: a notebook that nbgrader can release and grade.

python tools/assignments.py 03                assignments/03_masking.ipynb, without solutions
python tools/assignments.py 03 --hints        the same with the hints
python tools/assignments.py 03 --solutions    with the solutions too, for nbgrader's source folder
"""

import argparse
import itertools
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from tools import notebook_rules as rules  # noqa: E402, this file is run as a script
from tools.notebook_rules import Cell  # noqa: E402

BOOK = ROOT / "book"
EXERCISE = re.compile(
    r"^(`{3,})\{exercise\} (.+)\n:label: (\S+)\n(.*?)^\1$", re.MULTILINE | re.DOTALL
)
CALL = re.compile(r"^exercises\.(\w+)\((.*)\)$")
EQUATION = re.compile(r"\$\$((?:(?!\$\$).)+)\$\$ \(([\w-]+)\)", re.DOTALL)
CITED = re.compile(r"\{cite(:t)?\}`([a-z-]+)(\d{4})\w*`")
LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)[^)]*\)")  # to a place in the book
ROLE = re.compile(r"\{[\w:]+\}`([^`<]+?)(?: <[^>]*>)?`")


def chapter(number: str) -> Path:
    """The notebook of a page, named by its number, such as 3, 03 or 05b."""
    found = {path.name.partition("_")[0]: path for path in sorted(BOOK.glob("[0-9]*.ipynb"))}
    if (wanted := number.zfill(2)) not in found:
        sys.exit(f"CHAPTER must be one of {', '.join(found)}, got {number!r}")
    return found[wanted]


def calls(stub: str) -> list[str]:
    """The lines of a stub that hand the answer to its checks."""
    return [line for line in stub.splitlines() if CALL.match(line)]


def write(number: str, folder: Path, *, hints: bool = False, solutions: bool = False) -> Path:
    """A notebook with the first code cell of a chapter and its exercises, ready to be answered."""
    source = chapter(number)
    cells = rules.read(source)
    title = cells[0]["source"].splitlines()[0].removeprefix("# ")
    solved = rules.directives(cells, "solution") if solutions else {}
    opening = f"# Exercises: {title}\n\nRun the next cell first."
    made = [
        new_markdown_cell(opening, id="title"),
        _graded(new_code_cell, "imports", rules.first_shown(cells)["source"], "imports"),
        *_exercises(cells, solved, hints=hints),
    ]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / source.name
    nbformat.write(new_notebook(cells=made, metadata={"kernelspec": kernel}), path)
    return path


def _exercises(cells: list[Cell], solved: dict[str, str], *, hints: bool) -> Iterator[Cell]:
    """The texts in plain Markdown, each with its stub and check, or with a place to write."""
    label, points = "", 0
    for cell, after in itertools.pairwise([*cells, cells[0]]):
        name, source = cell["id"], cell["source"]
        if match := EXERCISE.search(source):
            label, points = match[3], match[4].split()[0].count("★")
            text = f"## {match[2]}\n\n{_plain(match[4].strip())}"
            yield new_markdown_cell(text, id=name)
            if "stub" not in rules.tags(after):  # to be read by a person
                at, answer = f"{name}-answer", _written(solved.get(label))
                yield _graded(new_markdown_cell, at, answer, label, points, solution=True)
        elif "stub" in rules.tags(cell):
            answer = _answer(source, solved.get(label))
            yield _graded(new_code_cell, name, answer, f"{label}-answer", solution=True)
            required = r"exercises.require(exercises.\1, \2)"
            check = "\n".join(CALL.sub(required, line) for line in calls(source))
            yield _graded(new_code_cell, f"{name}-check", check, label, points)
        elif hints and "{admonition} Hint" in source:
            hint = "\n".join(source.strip().splitlines()[2:-1]).strip()
            yield new_markdown_cell(f"*Hint.* {_plain(hint)}", id=name)


def _graded(
    new: Any,
    name: str,
    source: str,
    grade: str,
    points: int | None = None,
    *,
    solution: bool = False,
) -> Cell:
    """A cell for nbgrader: one with points is graded, one without a solution is locked."""
    grading = {"grade_id": grade, "grade": points is not None, "solution": solution}
    grading |= {"locked": not solution, "schema_version": 3, "task": False}
    grading |= {} if points is None else {"points": points}
    return new(source, id=name, metadata={"nbgrader": grading})


def _written(solution: str | None) -> str:
    """A place for words; a solution stands between the marks that nbgrader clears."""
    if solution is None:
        return "*Your answer:*"
    text = _plain(solution.removeprefix(":class: dropdown").strip())
    return f"*Your answer:*\n\n### BEGIN SOLUTION\n{text}\n### END SOLUTION"


def _answer(stub: str, solution: str | None) -> str:
    """A stub; a solution stands in its place, or under what is to be changed, between marks."""
    if solution is None:
        return stub
    start = "\n".join(line for line in stub.splitlines() if not CALL.match(line))
    left = start.rstrip().splitlines()
    right = "\n".join(rules.python(solution)).rstrip().splitlines()
    if left[0] in right:  # what the solution imports stands above both
        left = [*right[: right.index(left[0])], *left]
    one = start.count("raise NotImplementedError") == 1
    if one and left[-1].strip().startswith("raise NotImplementedError"):
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
    every = "\n".join(rules.prose(rules.read(path)) for path in sorted(BOOK.glob("[0-9]*.ipynb")))
    return {label: body.strip() for body, label in EQUATION.findall(every)}


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
