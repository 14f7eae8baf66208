"""The page that says what is checked counts what is there."""

import json
import re
from pathlib import Path

import attn_trust
import pytest

from tests.browser.test_pages import PAGES
from tests.test_exercises import EXERCISES
from tools.faults import FAULTS

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def counted():
    return attn_trust.counted(ROOT)


def test_the_numbers_are_those_of_the_tests_themselves(counted):
    def number_of(words):
        (found,) = [number for number, what, _ in counted if words in what]
        return found

    assert number_of("accepts the book's solution") == len(EXERCISES)
    assert number_of("faults planted") == len(FAULTS)
    assert number_of("pages opened") == len(PAGES)
    answers = {(e.checks, answer) for e in EXERCISES for answer in e.wrong}
    assert number_of("wrong answers") == len(answers)
    files = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    tests = sum(len(re.findall(r"^ *def test_", text, re.MULTILINE)) for text in files)
    assert number_of("tests of the package") + number_of("tests in a browser") == tests


def cell(kind="code", tags=(), source="", text="", identity="a"):
    outputs = [{"output_type": "stream", "text": [text]}] if text else []
    outputs += [{"output_type": "display_data", "data": {"text/html": ["<attn-widget>"]}}] * 2
    made = {"cell_type": kind, "id": identity, "metadata": {"tags": [*tags]}, "source": [source]}
    return made | ({"outputs": outputs} if kind == "code" else {})


def test_a_cell_counts_where_it_is_compared(tmp_path):
    cells = [
        cell(source="assert a == b\ntorch.testing.assert_close(a, b)", text="0.5 ± 0.1, 1 ± 2"),
        cell(tags=["nbval-ignore-output"], text="0.5 ± 0.1"),
        cell(tags=["needs-triton"], source="print('assert c')"),
        cell(tags=["stub"], source="check_causal(f)"),
        cell("markdown", source="```{exercise} One\n```\n```{exercise} Two\n"),
        cell(identity="launch", text="7 ± 1"),
    ]
    (tmp_path / "book").mkdir()
    (tmp_path / "tests" / "browser").mkdir(parents=True)
    (tmp_path / "book" / "a.ipynb").write_text(json.dumps({"cells": cells}), encoding="utf-8")
    (tmp_path / "_toc.yml").write_text("root: a\nparts: [{chapters: [{file: b}]}]\n", "utf-8")
    found = [number for number, _, _ in attn_trust.counted(tmp_path)]
    assert found == [2, 2, 4, 3, 2, 1, 0, 0, 0, 2, len(FAULTS)]


def test_every_command_of_the_page_is_one_and_no_number_is_typed(counted):
    page = (ROOT / "book" / "trust.md").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    commands = " ".join(command for *_, command in counted)
    for target in re.findall(r"make ([\w-]+)", f"{page} {commands}"):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    assert not re.search(r"\d", page.replace("64-bit", ""))
