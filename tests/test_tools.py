"""What the tools make: the environment, launch cells, copies of chapters, releases."""

import json
import re
import shutil
import subprocess
import tomllib
import zipfile
from pathlib import Path

import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell

from tools import environment, lab, launch, notebooks, release

ROOT = Path(__file__).parents[1]
BOOK = ROOT / "book"

# The environment: a Python that fits, what pip is told, and nothing half made that looks whole


def test_the_pythons_that_fit_are_those_of_the_metadata():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    stated = re.findall(r"Python :: 3\.(\d+)", " ".join(project["classifiers"]))
    fitting = [minor for minor in range(30) if environment.fits((3, minor, 0))]
    assert fitting == [int(minor) for minor in stated]


@pytest.mark.slow
def test_an_install_that_breaks_off_leaves_no_stamp_and_nothing_of_the_one_before(
    tmp_path, monkeypatch
):
    folder = tmp_path / ".venv-audit"
    folder.mkdir()
    (folder / "audit").touch()
    (folder / "python-of-another-release").touch()
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    monkeypatch.setattr(environment, "PINS", ("--no-index",))
    with pytest.raises(subprocess.CalledProcessError):  # uv cannot be had
        environment.install("audit")
    assert (folder / "pyvenv.cfg").is_file()
    assert not {"audit", "python-of-another-release"} & {path.name for path in folder.iterdir()}


# The cell that brings what is missing: the same everywhere, and silent where nothing is

HOME = "https://github.com/someone/notes"
COMMITTED = sorted(BOOK.glob("*.ipynb"))


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.stem)
def test_the_cell_comes_and_goes_with_the_address_and_changes_nothing_else(path):
    before, *copies = (notebooks.read(path)["cells"] for _ in range(3))
    bare, there = map(launch.placed, copies, ("", HOME))
    assert there[1]["id"] == launch.ID
    assert launch.placed(there, HOME) == there
    assert ("minilm" in there[1]["source"]) is any("minilm_folder(" in c["source"] for c in bare)
    assert launch.placed(there, "") == bare
    assert (bare == before) is (launch.repository() == "")


def test_where_nothing_is_missing_the_cell_asks_nobody_for_anything(monkeypatch, capsys):
    monkeypatch.chdir(BOOK)
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


# The copies of `make lab`: nothing in them needs the built book, and no reader loses a change


def markdown(path: Path) -> str:
    if path.suffix == ".md":
        return path.read_text(encoding="utf-8")
    cells = nbformat.read(path, as_version=4).cells
    return "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


@pytest.fixture(scope="module")
def copies(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lab")
    assert lab.copy(BOOK, folder) == []
    return folder


def test_every_link_of_a_copy_leads_to_a_copy_or_another_host_and_no_role_is_left(copies):
    pages = [*copies.glob("*.ipynb"), *copies.glob("*.md")]
    assert {path.name for path in BOOK.glob("*.ipynb")} <= {path.name for path in pages}
    for path in pages:
        text = markdown(path)
        targets = re.findall(r"\[[^\[\]]+\]\((?!https?://)([^)#]+)[^)]*\)", text)
        assert [t for t in targets if not (copies / t).is_file()] == [], path.name
        # Of the roles that only the built book resolves, one stays: a formula of the same page.
        roles = re.findall(r"\{([\w:]+)\}`([^`]+)`", text)
        assert {role for role, _ in roles} <= {"eq"}, path.name
        assert [label for _, label in roles if f"({label})" not in text] == [], path.name


def test_references_read_as_they_do_in_the_book():
    plain = lab.Plain(BOOK)
    for text, wanted in {
        "{doc}`Chapter 3 <03_masking>`": "[Chapter 3](03_masking.ipynb)",
        "{doc}`api/kernels`": "`attn_notes.kernels`",
        "{cite:t}`vaswani2017`": "[Vaswani et al. (2017)](https://arxiv.org/abs/1706.03762)",
        "{cite}`bartlett1963`": "(Bartlett, 1963)",
        "{eq}`eq-kr-mean`": "[(chapter 1)](01b_densities_and_widths.ipynb)",
        "{ref}`an exercise <ex-kr-twice>`": "[an exercise](01_kernel_regression.ipynb)",
        "See the [API pages](api/index.md).": "See the API pages.",
        "code in `x`, a set {a}, $x_{i}$": "code in `x`, a set {a}, $x_{i}$",
    }.items():
        assert plain(text, "02_score_functions.ipynb") == wanted
    assert plain("{eq}`eq-kr-mean`", "01b_densities_and_widths.ipynb") == "{eq}`eq-kr-mean`"


def test_code_and_outputs_are_those_of_the_book(copies):
    for path in BOOK.glob("*.ipynb"):
        read = (nbformat.read(folder / path.name, as_version=4) for folder in (BOOK, copies))
        ours, theirs = ([c for c in one.cells if c.cell_type == "code"] for one in read)
        assert ours == theirs


def save(path: Path, change) -> str:
    """Change a notebook and write it as JupyterLab does, with keys in an order of its own."""
    notebook = json.loads(path.read_text("utf-8"))
    change(notebook)
    path.write_text(json.dumps(notebook, indent=1, sort_keys=True), encoding="utf-8")
    return path.read_text("utf-8")


def as_opened_and_run(notebook) -> None:
    notebook["metadata"]["kernelspec"] = {"name": "python3", "display_name": "mine"}
    for cell in notebook["cells"]:
        cell["metadata"]["trusted"] = True
        if cell["cell_type"] == "code":
            cell |= {"outputs": [], "execution_count": 7}


def edit_first_code(notebook) -> None:
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    code[0]["source"] = "my_own = 1"


@pytest.mark.slow
def test_a_copy_follows_the_book_until_its_reader_changes_it(tmp_path):
    book, folder = tmp_path / "book", tmp_path / "lab"
    shutil.copytree(BOOK, book, ignore=shutil.ignore_patterns("api", "_ext", "_static"))
    opened, changed, page = "01_kernel_regression.ipynb", "02_score_functions.ipynb", "notation.md"
    assert lab.copy(book, folder) == []
    run = save(folder / opened, as_opened_and_run)
    mine = save(folder / changed, edit_first_code)
    assert lab.copy(book, folder) == [changed]
    assert (folder / opened).read_text("utf-8") == run  # outputs are kept while the book rests
    for name in (opened, changed):
        save(book / name, edit_first_code)
    (book / page).write_text("# New", encoding="utf-8")
    assert lab.copy(book, folder) == []  # what the reader wrote is what the book says now
    assert "my_own" in (folder / opened).read_text("utf-8")
    assert (folder / changed).read_text("utf-8") == mine
    assert (folder / page).read_text("utf-8") == "# New"
    (folder / changed).write_text("not a notebook", encoding="utf-8")
    assert lab.copy(book, folder) == [changed]


# A release: its tag names the version, and the zip holds the site and what it needs


DATED = (
    "# Changelog\n\n## 0.2.0 (2027-02-01)\n\n- New.\n- More.\n\n## 0.1.0 (2026-12-01)\n\n- Old.\n"
)


def test_a_release_is_told_by_the_entry_of_its_version(monkeypatch):
    for number, entry in (("0.2.0", "- New.\n- More."), ("0.1.0", "- Old.")):
        monkeypatch.setattr(release, "version", lambda number=number: number)
        assert release.notes(f"v{number}", DATED) == entry


def test_a_tag_that_is_not_the_version_or_has_no_dated_entry_makes_no_release(monkeypatch):
    monkeypatch.setattr(release, "version", lambda: "0.1.0")
    for tag in ("0.1.0", "v0.1", "v0.1.0-rc1", ""):
        with pytest.raises(SystemExit, match=r"the tag must be v0\.1\.0, .*, got "):
            release.notes(tag, DATED)
    for changelog in ("## Unreleased\n\n- Old.\n", DATED.replace(" (2026-12-01)", "")):
        with pytest.raises(SystemExit, match=r"must have an entry `## 0\.1\.0 \("):
            release.notes("v0.1.0", changelog)


def test_the_zip_holds_the_site_in_a_folder_of_its_name(tmp_path):
    kept = ("index.html", "book/a.html", "_static/a.js")
    for name in (*kept, ".buildinfo", ".nojekyll", "objects.inv"):  # the last three for a host
        path = tmp_path / "html" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name, encoding="utf-8")
    target = tmp_path / "notes-1.2.zip"
    release.write_zip(tmp_path / "html", target)
    with zipfile.ZipFile(target) as archive:
        assert set(archive.namelist()) == {f"notes-1.2/{name}" for name in kept}
        assert archive.read("notes-1.2/book/a.html") == b"book/a.html"
