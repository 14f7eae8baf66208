"""What `make chapter` writes keeps every rule, in the notebook and on the other pages."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
import yaml

from tests import notebook_rules as rules
from tools import chapter, notebooks

ROOT = Path(__file__).parents[1]


RUN = """
import sys
from tools import notebooks
notebooks.not_to_be_made_here = dict  # a new chapter has no such cell, and the answer takes seconds
sys.exit(notebooks.main(sys.argv[1:]))
"""
run = subprocess.run


def quickly(command, **_):
    """`tools/notebooks.py`, run without loading torch beside the kernel."""
    assert command[:2] == [sys.executable, notebooks.__file__]
    return run([sys.executable, "-c", RUN, *command[2:]], cwd=ROOT, check=False)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The pages that a new chapter touches, and the names of the chapters that are there."""
    place = tmp_path_factory.mktemp("chapter")
    (place / "book").mkdir()
    for name in ("_toc.yml", "book/teaching.md"):
        shutil.copy(ROOT / name, place / name)
    for path in (ROOT / "book").glob("[0-9][0-9]_*.ipynb"):
        (place / "book" / path.name).touch()
    return place


@pytest.fixture(scope="module")
def made(place):
    before = len(list((place / "book").glob("*.ipynb")))
    with mock.patch.object(subprocess, "run", quickly):
        path = chapter.add("low_rank", place)
    assert path.stem == f"{before + 1:02}_low_rank"
    return path


def test_a_new_chapter_keeps_the_rules_is_clean_and_has_run(made):
    cells = rules.read(made)
    assert [said for rule in (*rules.RULES, *rules.CHAPTER_RULES) for said in rule(cells)] == []
    assert made.read_text("utf-8") == notebooks.dumps(notebooks.clean(notebooks.read(made)))
    outputs = [out for cell in rules.code(cells) for out in cell["outputs"]]
    printed = "".join(rules.text(out.get("text", "")) for out in outputs)
    assert printed == "shape of the output: (3, 2)\n"


def test_the_contents_and_the_instructors_table_name_it_last(made, place):
    toc = yaml.safe_load((place / "_toc.yml").read_text("utf-8"))
    assert toc["parts"][0]["chapters"][-1] == {"file": f"book/{made.stem}"}
    page = (place / "book/teaching.md").read_text("utf-8")
    *_, row = [line for line in page.splitlines() if line.startswith("| {doc}`")]
    cells = rules.read(made)
    minutes = [int(n) for n in re.findall(r"^★+ (\d+) minutes", rules.prose(cells), re.MULTILINE)]
    first = rules.labels(cells, "exercise")[0]
    numbers = f"{len(minutes)} | 0 | {sum(minutes)}"
    assert row == f"| {{doc}}`{made.stem}` | {numbers} | {{ref}}`{first}` |"


def test_a_name_that_cannot_be_is_refused(place):
    for name, words in {"Low rank": "NAME must be", "masking": "there is a chapter"}.items():
        with pytest.raises(SystemExit, match=words):
            chapter.add(name, place)
