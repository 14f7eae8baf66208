"""Homework: sheets without solutions, and the checks run over answers."""

import csv
import json
import re

import nbformat
import pytest

from tests.test_exercises import CHAPTERS, exercises_of
from tools import assignments
from tools import notebook_rules as rules

ROOT, BOOK = assignments.ROOT, assignments.BOOK

SOLVED, INVERTED, BOASTING, BROKEN, UNTOUCHED = (
    f"ex-masking-{name}" for name in ("empty-rows", "lengths", "softmax", "dilated", "leak")
)


def rows(path):
    with path.open(encoding="utf-8", newline="") as file:
        return {row["notebook"]: row for row in csv.DictReader(file)}


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_a_sheet_holds_every_exercise_and_no_solution(chapter, tmp_path):
    path = assignments.write(chapter.stem[:2], tmp_path, hints=False)
    nbformat.validate(nbformat.read(path, as_version=4))
    sheet = path.read_text(encoding="utf-8")
    cells = assignments.cells(path)
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
    path = assignments.write("3", tmp_path, hints=True)
    text = "\n\n".join(cell["source"] for cell in assignments.cells(path))
    assert text.count("*Hint.*") == 7
    assert "the weights (1) for the set $A$" in text
    assert r"\tag{1}$$" in text
    assert "(Beltagy, 2020)" in text
    assert "{" + "eq}" not in text


def test_a_chapter_that_does_not_exist_is_named():
    with pytest.raises(SystemExit, match=r"CHAPTER must be one of 01, 02, .* got '44'"):
        assignments.chapter("44")


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """Two students of chapter 3, and one who hands in something else."""
    folder = tmp_path_factory.mktemp("answers")
    sheet = assignments.write("03", tmp_path_factory.mktemp("sheet"), hints=False)
    exercises = {one.label: one for one in exercises_of(CHAPTERS[2])}
    right = {label: one.with_answer(one.solution) for label, one in exercises.items()}
    mixed = {
        SOLVED: right[SOLVED],
        INVERTED: exercises[INVERTED].with_answer(exercises[INVERTED].wrong[0][0]),
        BOASTING: f'print("Correct")\n{exercises[BOASTING].stub}',
        BROKEN: "def dilated_window(L, window, dilation)\n    return",
    }
    for name, made in {"right": right, "mixed": mixed}.items():
        notebook = json.loads(sheet.read_text(encoding="utf-8"))
        by_stub = {exercises[label].stub: code for label, code in made.items()}
        for cell in notebook["cells"]:
            cell["source"] = by_stub.get(cell["source"], cell["source"])
        (folder / f"{name}.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    (folder / "torn.ipynb").write_text('{"cells": [', encoding="utf-8")
    return rows(assignments.grade("03", folder))


def test_solutions_are_correct_and_stubs_are_not(graded):
    assert graded["right.ipynb"]["correct"] == graded["right.ipynb"]["of"] == "5"
    assert graded["mixed.ipynb"][UNTOUCHED] == "Not yet: the answer is still to be written"


def test_a_wrong_answer_is_named_and_costs_itself_alone(graded):
    assert "is the mask inverted?" in graded["mixed.ipynb"][INVERTED]
    assert graded["mixed.ipynb"][SOLVED] == "Correct"


def test_only_the_checks_can_say_correct(graded):
    assert graded["mixed.ipynb"][BOASTING].startswith("Not yet:")
    assert graded["mixed.ipynb"]["correct"] == "1"


def test_code_that_does_not_run_and_a_file_that_is_no_notebook_stop_nothing(graded):
    assert graded["mixed.ipynb"][BROKEN] == "Not yet: its cell is missing"
    assert graded["torn.ipynb"]["correct"] == "0"
    assert "cannot be run" in graded["torn.ipynb"][INVERTED]


def test_answers_that_never_end_are_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(assignments, "SECONDS", 0.1)  # starting Python with torch takes longer
    assignments.write("03", tmp_path, hints=False)
    grades = rows(assignments.grade("03", tmp_path))
    assert grades["03_masking.ipynb"][INVERTED] == "Not yet: stopped after 0.1 seconds"


def test_a_folder_without_answers_is_refused(tmp_path):
    with pytest.raises(SystemExit, match="must hold notebooks with answers, and holds none"):
        assignments.grade("03", tmp_path)


def test_the_instructors_page_counts_the_exercises_and_adds_their_minutes():
    page = (BOOK / "teaching.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| \{doc\}`(\w+)` \| (\d+) \| (\d+) \| (\d+) \|", page, re.MULTILINE)
    counted = []
    for chapter in CHAPTERS:
        prose = rules.prose(rules.read(chapter))
        minutes = [int(n) for n in re.findall(r"^★+ (\d+) minutes", prose, re.MULTILINE)]
        numbers = len(minutes), len(exercises_of(chapter)), sum(minutes)
        counted.append((chapter.stem, *map(str, numbers)))
    assert table == counted
