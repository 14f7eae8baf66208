"""Homework: sheets without solutions, and what nbgrader is told of them."""

import contextlib
import io
import json
import re

import nbformat
import pytest

from tests.test_exercises import CHAPTERS, exercises_of, imports
from tools import assignments
from tools import notebook_rules as rules

BOOK = assignments.BOOK
NBGRADER = {"schema_version", "grade_id", "grade", "solution", "locked", "task"}
MARKED = re.compile(r"^( *)### BEGIN SOLUTION.*?### END SOLUTION", re.MULTILINE | re.DOTALL)
CLEARED = r"\1# YOUR CODE HERE\n\1raise NotImplementedError()"


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_a_sheet_holds_every_exercise_and_no_solution(chapter, tmp_path):
    path = assignments.write(chapter.stem.partition("_")[0], tmp_path, hints=False)
    nbformat.validate(nbformat.read(path, as_version=4))
    sheet = path.read_text(encoding="utf-8")
    cells = rules.read(path)
    exercises = rules.labels(rules.read(chapter), "exercise")
    assert sum(cell["source"].startswith("## ") for cell in cells) == len(exercises)
    for exercise in exercises_of(chapter):
        assert exercise.stub in [cell["source"] for cell in cells]
        # The last line of a solution, which no stub has.
        last = exercise.solution.rstrip().splitlines()[-1]
        assert last in exercise.stub or json.dumps(last, ensure_ascii=False)[1:-1] not in sheet
    assert "Hint" not in sheet
    assert "{solution}" not in sheet
    assert not [cell for cell in cells if cell.get("outputs")]


def test_hints_are_given_if_asked_for_and_a_named_equation_stands_below(tmp_path):
    path = assignments.write("03b", tmp_path, hints=True)
    text = "\n\n".join(cell["source"] for cell in rules.read(path))
    assert text.count("*Hint.*") == 4
    assert r"and $\tilde f$ the output (1)" in text
    assert r"\tag{1}$$" in text
    assert "(Beltagy, 2020)" in text
    assert "{" + "eq}" not in text


def nbgrader(cell):
    return cell["metadata"].get("nbgrader", {})


@pytest.mark.parametrize("solutions", [False, True])
@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_nbgrader_knows_every_answer_and_what_it_is_worth(chapter, solutions, tmp_path):
    """The metadata of schema 3, to which nbgrader holds a notebook."""
    path = assignments.write(chapter.stem.partition("_")[0], tmp_path, solutions=solutions)
    cells = [cell for cell in rules.read(path) if nbgrader(cell)]
    assert len({nbgrader(cell)["grade_id"] for cell in cells}) == len(cells)
    for cell in cells:
        own = nbgrader(cell)
        assert own.keys() - {"points"} == NBGRADER
        assert (own["schema_version"], own["task"]) == (3, False)
        assert own["locked"] is not own["solution"]
        assert own["grade"] is (own.get("points", 0) > 0)
        assert re.fullmatch(r"[\w-]+", own["grade_id"])
        marks = [cell["source"].count(f"### {end} SOLUTION") for end in ("BEGIN", "END")]
        assert marks == [1, 1] if solutions and own["solution"] else marks == [0, 0]
    graded = {nbgrader(cell)["grade_id"]: cell for cell in cells if nbgrader(cell)["grade"]}
    assert list(graded) == rules.labels(rules.read(chapter), "exercise")
    for exercise in exercises_of(chapter):
        assert nbgrader(graded[exercise.label])["locked"]  # nobody writes into a check
        for name in exercise.checks:
            assert f"exercises.require(exercises.{name}, " in graded[exercise.label]["source"]


def ran(chapter, cells):
    """The grade ids of the checks that pass, when all cells are run in order."""
    namespace, passed = dict(imports(chapter)), []
    for cell in cells:
        if cell["cell_type"] != "code" or cell["id"] == "imports" or "triton" in cell["source"]:
            continue
        name, code = f"<{cell['id']}>", cell["source"]
        compiled = compile(code, name, "exec")
        with contextlib.suppress(Exception), contextlib.redirect_stdout(io.StringIO()):
            exec(compiled, namespace)
            passed += [nbgrader(cell)["grade_id"]] * nbgrader(cell)["grade"]
    return passed


@pytest.mark.slow
@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_solutions_earn_all_points_and_what_is_left_without_them_none(
    chapter, tmp_path, monkeypatch
):
    monkeypatch.chdir(BOOK)
    cells = rules.read(assignments.write(chapter.stem.partition("_")[0], tmp_path, solutions=True))
    checked = [one.label for one in exercises_of(chapter) if "triton" not in one.stub]
    assert ran(chapter, cells) == checked
    cleared = [cell | {"source": MARKED.sub(CLEARED, cell["source"])} for cell in cells]
    assert ran(chapter, cleared) == []  # as nbgrader releases them
    assert (
        ran(chapter, rules.read(assignments.write(chapter.stem.partition("_")[0], tmp_path))) == []
    )


def test_the_instructors_page_counts_the_exercises_and_adds_their_minutes():
    page = (BOOK / "teaching.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| \{doc\}`(\w+)` \| (\d+) \| (\d+) \| (\d+) \|", page, re.MULTILINE)
    counted = []
    for chapter in CHAPTERS:
        prose = rules.prose(rules.read(chapter))
        minutes = [int(n) for n in re.findall(r"^★+ (\d+) minutes", prose, re.MULTILINE)]
        numbers = len(minutes), len(exercises_of(chapter)), sum(minutes)
        counted.append((chapter.stem, *map(str, numbers)))
    assert table == counted, "edit the table of book/teaching.md"
