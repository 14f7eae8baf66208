"""What `make chapter` writes keeps every rule, in the notebook and on the other pages."""

import re
import shutil
from pathlib import Path

import pytest
import yaml

from tests import notebook_rules as rules
from tools import chapter, notebooks

ROOT = Path(__file__).parents[1]


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
    path = chapter.add("low_rank", place)
    assert path.stem == f"{before + 1:02}_low_rank"
    return path


@pytest.mark.parametrize(
    "rule", [*rules.RULES, *rules.CHAPTER_RULES], ids=lambda rule: rule.__name__
)
def test_a_new_chapter_keeps_the_rules(made, rule):
    assert rule(rules.read(made)) == []


def test_it_is_clean_and_has_run(made):
    assert made.read_text("utf-8") == notebooks.dumps(notebooks.clean(notebooks.read(made)))
    printed = [out["text"] for cell in rules.code(rules.read(made)) for out in cell["outputs"]
               if "text" in out]  # fmt: skip
    assert [rules.text(one) for one in printed] == ["shape of the output: (3, 2)\n"]


def test_the_contents_and_the_instructors_table_name_it_last(made, place):
    toc = yaml.safe_load((place / "_toc.yml").read_text("utf-8"))
    assert toc["parts"][0]["chapters"][-1] == {"file": f"book/{made.stem}"}
    page = (place / "book/teaching.md").read_text("utf-8")
    *_, row = re.findall(
        r"^\| \{doc\}`(\w+)` \| (\d+) \| (\d+) \| (\d+) \| (.*) \|$", page, re.MULTILINE
    )
    cells = rules.read(made)
    minutes = [int(n) for n in re.findall(r"^★+ (\d+) minutes", rules.prose(cells), re.MULTILINE)]
    assert row[:4] == (made.stem, str(len(minutes)), "0", str(sum(minutes)))
    assert row[4] == "{ref}`" + rules.labels(cells, "exercise")[0] + "`"


@pytest.mark.parametrize(
    ("name", "words"), [("Low rank", "NAME must be"), ("masking", "there is a chapter masking")]
)
def test_a_name_that_cannot_be_is_refused(place, name, words):
    with pytest.raises(SystemExit, match=words):
        chapter.add(name, place)
