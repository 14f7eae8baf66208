"""What the tools make: the environment, launch cells, copies of chapters, new ones, releases."""

import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import nbformat
import pytest
import yaml
from IPython.core.interactiveshell import InteractiveShell

import attn_notes
from tools import chapter, environment, lab, launch, notebooks, release
from tools import notebook_rules as rules

ROOT = Path(__file__).parents[1]
BOOK = ROOT / "book"

# The environment: why it cannot be made, in words, and nothing half made that looks whole

BOTH = ["venv", "ensurepip"]


@pytest.mark.parametrize(
    ("version", "modules", "words"),
    [
        ((3, 6, 15), BOTH, "is too old. The book needs 3.11, 3.12 or 3.13"),
        ((3, 14, 0), BOTH, "is newer than any that the pinned packages"),
        ((3, 12, 3), ["venv"], "lacks venv. On Debian and Ubuntu `sudo apt install python3.12-"),
    ],
)
def test_a_python_that_cannot_make_the_environment_is_told_why(version, modules, words):
    here = f"Python {'.'.join(map(str, version))} ({sys.executable})"
    assert environment.problem(version, modules).startswith(f"{here} {words}")


def test_the_script_says_so_and_fails_before_it_touches_anything(monkeypatch, capsys):
    for version in ((3, 11, 0), (3, 12, 13), (3, 13, 9)):
        assert environment.problem(version, BOTH) == ""
    monkeypatch.setattr(environment.sys, "version_info", (3, 10, 13))
    monkeypatch.setattr(environment, "install", pytest.fail)
    assert environment.main(["book"]) == 1
    assert "too old" in capsys.readouterr().err


def test_an_install_that_breaks_off_leaves_no_stamp_and_nothing_of_the_one_before(
    tmp_path, monkeypatch
):
    def broken(*arguments):
        raise ConnectionError

    old = [tmp_path / name for name in ("python-of-another-release", "book", "ready")]
    for left in old:
        left.touch()
    run = subprocess.run  # without pip it takes no time
    monkeypatch.setattr(subprocess, "run", lambda command, **_: run([*command, "--without-pip"]))
    monkeypatch.setattr(environment, "ENVIRONMENT", tmp_path)
    monkeypatch.setattr(environment, "warn_of_cuda", lambda: None)
    monkeypatch.setattr(environment, "pip", broken)
    with pytest.raises(ConnectionError):
        environment.install("book")
    assert not {*old} & {*tmp_path.iterdir()}
    assert (tmp_path / "pyvenv.cfg").is_file()
    monkeypatch.setattr(environment, "pip", lambda *arguments: "")
    environment.install("ready")
    assert (tmp_path / "ready").is_file()


CUBLAS = ["nvidia-cublas==13.0; platform_system == 'Linux'"]


@pytest.mark.parametrize(
    ("needs", "card", "is_told"),
    [(CUBLAS, None, True), (CUBLAS, "/usr/bin/nvidia-smi", False), (["sympy"], None, False)],
)
def test_a_build_for_a_card_that_is_not_there_is_named_before_the_download(
    monkeypatch, capsys, needs, card, is_told
):
    report = json.dumps({"install": [{"metadata": {"requires_dist": needs}}]})
    monkeypatch.setattr(environment.sys, "platform", "linux")
    monkeypatch.setattr(environment.shutil, "which", lambda _: card)
    monkeypatch.setattr(environment.Path, "exists", lambda _: False)
    monkeypatch.setattr(environment, "pip", lambda *_: report)
    environment.warn_of_cuda()
    assert ("TORCH_INDEX" in capsys.readouterr().out) is is_told


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


def test_the_address_is_that_of_the_configuration(tmp_path):
    for text, url in ((f"repository:\n  url: {HOME}\n", HOME), ("title: x\n", "")):
        (tmp_path / "_config.yml").write_text(text, encoding="utf-8")
        assert launch.repository(tmp_path) == url


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


def test_binder_brings_the_same_encoder():
    assert environment.ENCODER in (ROOT / "binder" / "postBuild").read_text(encoding="utf-8")


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
        "{eq}`eq-kr-mean`": "[(chapter 1)](01_kernel_regression.ipynb)",
        "{ref}`an exercise <ex-kr-shape>`": "[an exercise](01_kernel_regression.ipynb)",
        "See the [API pages](api/index.md).": "See the API pages.",
        "code in `x`, a set {a}, $x_{i}$": "code in `x`, a set {a}, $x_{i}$",
    }.items():
        assert plain(text, "02_score_functions.ipynb") == wanted
    assert plain("{eq}`eq-kr-mean`", "01_kernel_regression.ipynb") == "{eq}`eq-kr-mean`"


def test_code_and_outputs_are_those_of_the_book(copies):
    for path in BOOK.glob("*.ipynb"):
        read = (nbformat.read(folder / path.name, as_version=4) for folder in (BOOK, copies))
        ours, theirs = ([c for c in one.cells if c.cell_type == "code"] for one in read)
        assert ours == theirs


def test_a_copy_follows_the_book_until_its_reader_changes_it(copies):
    changed, other = copies / "01_kernel_regression.ipynb", copies / "02_score_functions.ipynb"
    changed.write_text(before := changed.read_text("utf-8") + " ", encoding="utf-8")
    other.write_text("an older edition", encoding="utf-8")
    lab.os.utime(other, (lab.UNTOUCHED, lab.UNTOUCHED))
    assert lab.copy(BOOK, copies) == [changed.name]
    assert changed.read_text("utf-8") == before
    assert len(nbformat.read(other, as_version=4).cells) > 10


# A new chapter keeps every rule, in the notebook and on the other pages


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The pages that a new chapter touches, and the names of the chapters that are there."""
    place = tmp_path_factory.mktemp("chapter")
    (place / "book").mkdir()
    for name in ("_toc.yml", "book/teaching.md"):
        shutil.copy(ROOT / name, place / name)
    for path in BOOK.glob("[0-9][0-9]_*.ipynb"):
        (place / "book" / path.name).touch()
    return place


@pytest.fixture(scope="module")
def made(place):
    before = len(list((place / "book").glob("*.ipynb")))
    path = chapter.add("low_rank", place)
    assert path.stem == f"{before + 1:02}_low_rank"
    return path


def test_a_new_chapter_keeps_the_rules_is_clean_and_has_run(made):
    cells = rules.read(made)
    assert rules.broken(made) == []
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


# A release: its tag names the version, and the zip holds the site and what it needs


def test_the_version_is_read_as_the_package_says_it():
    assert release.version() == attn_notes.__version__


def test_a_tag_that_is_not_the_version_makes_no_release(monkeypatch):
    monkeypatch.setattr(release, "version", lambda: "0.1.0")
    assert release.main(["check", "v0.1.0"]) == 0
    for tag in ("0.1.0", "v0.1", "v0.1.0-rc1", ""):
        with pytest.raises(SystemExit, match=r"the tag must be v0\.1\.0, .*, got "):
            release.main(["check", tag])


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
