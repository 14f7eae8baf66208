"""The distributions: complete, named after their public home, and tested as a user unpacks them."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

from tools import dist

ROOT = Path(__file__).parents[1]
HOME = "https://github.com/someone/notes"
QUICK = ["tests/test_repository.py", "-k", "not pin"]
USE = """
import attn_exercises
from attn_notes import widgets
print(widgets.__file__, attn_exercises.__file__, len(widgets.page_script()))
attn_exercises.empty_rows(None)
"""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python with the package of a folder, and no other."""
    environment = os.environ | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A copy of the project whose `_config.yml` names a home, and both distributions, unpacked."""
    place = tmp_path_factory.mktemp("dist")
    shutil.copytree(ROOT, place / "clone", ignore=shutil.ignore_patterns(*dist.LEFT_OUT))
    config = place / "clone" / "_config.yml"
    text = config.read_text(encoding="utf-8")
    config.write_text(re.sub(r"(?m)^  url: .*$", f"  url: {HOME}", text), encoding="utf-8")
    sdist, wheel = dist.build(place / "clone", place / "out")
    with tarfile.open(sdist) as archive:
        archive.extractall(place / "sdist", filter="data")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place / "wheel")
    return place


def test_the_source_distribution_holds_every_file_of_the_project(place):
    (unpacked,) = (place / "sdist").iterdir()
    files = [path for path in (place / "clone").rglob("*") if path.is_file()]
    project = {path.relative_to(place / "clone") for path in files}
    assert {path for path in project if not (unpacked / path).is_file()} == set()
    assert Path("tests/notebook_rules.py") in project
    assert len(project) > 300


def test_its_tests_run_where_it_was_unpacked(place):
    (unpacked,) = (place / "sdist").iterdir()
    done = run(unpacked, "-m", "pytest", "-q", "-p", "no:cacheprovider", *QUICK)
    assert done.returncode == 0, done.stdout[-3000:]
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) > 10


def test_the_wheel_holds_both_packages_with_their_scripts_and_guesses(place):
    imported, said = run(place / "wheel", "-c", USE).stdout.splitlines()
    *paths, size = imported.split()
    assert all(Path(path).is_relative_to(place / "wheel") for path in paths)
    assert int(size) > 100_000
    assert said.startswith("Not yet: ")
    names = {one.name.split("-")[0] for one in (place / "wheel").iterdir()}
    assert names == {"attn_exercises", "attn_notes"}
    for name in names:
        assert (place / "wheel" / name / "py.typed").is_file()


def test_the_metadata_name_the_home_and_no_file_of_the_repository(place):
    (file,) = (place / "wheel").glob("*.dist-info/METADATA")
    said = message_from_bytes(file.read_bytes())
    pages = "https://someone.github.io/notes/"
    assert said.get_all("Project-URL") == [f"Repository, {HOME}", f"Book, {pages}"]
    assert dist.urls("") == ""
    assert said.get_payload().startswith("# attn-notes")
    assert re.findall(r"\]\((?!https://)[^)]*\)|<img", said.get_payload()) == []
