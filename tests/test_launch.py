"""The cell that brings what is missing: the same everywhere, and silent where nothing is."""

from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell

from tools import environment, launch, notebooks

ROOT = Path(__file__).parents[1]
HOME = "https://github.com/someone/notes"
COMMITTED = sorted((ROOT / "book").glob("*.ipynb"))


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.stem)
def test_the_cell_comes_and_goes_with_the_address_and_changes_nothing_else(path):
    before, *copies = (notebooks.read(path)["cells"] for _ in range(3))
    bare, there = map(launch.placed, copies, ("", HOME))
    counts = [cell["execution_count"] for cell in there if cell["cell_type"] == "code"]
    assert there[1]["id"] == launch.ID
    assert counts == list(range(1, len(counts) + 1))
    assert launch.placed(there, HOME) == there
    assert ("minilm" in there[1]["source"]) is any("minilm_folder(" in c["source"] for c in bare)
    assert launch.placed(there, "") == bare
    assert (bare == before) is (launch.repository() == "")


def test_the_address_is_that_of_the_configuration(tmp_path):
    for text, url in ((f"repository:\n  url: {HOME}\n", HOME), ("title: x\n", "")):
        (tmp_path / "_config.yml").write_text(text, encoding="utf-8")
        assert launch.repository(tmp_path) == url


def test_where_nothing_is_missing_the_cell_asks_nobody_for_anything(monkeypatch, capsys):
    monkeypatch.chdir(ROOT / "book")
    shell = InteractiveShell()
    monkeypatch.setattr(shell, "system", pytest.fail)
    monkeypatch.setattr(shell, "run_line_magic", lambda *_: pytest.fail("a magic ran"))
    text = launch.source([{"source": "load_encoder(minilm_folder())"}], HOME)
    assert shell.run_cell(text).success
    assert capsys.readouterr().out == ""
    asked = []
    monkeypatch.setattr(shell, "run_line_magic", lambda name, line, **_: asked.append(name))
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)  # and where it is, it does
    assert shell.run_cell(text).success
    assert asked == ["pip", "pip"]


def test_binder_brings_the_same_encoder():
    assert environment.ENCODER in (ROOT / "binder" / "postBuild").read_text(encoding="utf-8")
