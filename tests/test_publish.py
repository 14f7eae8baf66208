"""What is published: pages that everybody can read, their addresses, and the distributions."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path
from types import SimpleNamespace

import attn_maths
import attn_publish
import attn_search
import pytest
from sphinx.application import Sphinx

ROOT = Path(__file__).parents[1]
HOME = "https://github.com/Someone/notes"
SITE = "https://someone.github.io/notes/"
BUTTONS = {"colab_url": "c", "binderhub_url": "b"}


def configured(folder, named):
    """The settings of a book whose `_config.yml` names this home."""
    (folder / "_config.yml").write_text(f'repository:\n  url: "{named}"\n', encoding="utf-8")
    options = {"launch_buttons": {**BUTTONS}}
    config = SimpleNamespace(html_theme_options=options, html_baseurl="", html_title="Notes")
    attn_publish.use_repository(SimpleNamespace(srcdir=folder), config)
    return config


def test_a_named_home_brings_addresses_and_buttons_and_nothing_else_does(tmp_path):
    config = configured(tmp_path, "")
    assert config.html_theme_options["launch_buttons"] == {}
    assert config.html_theme_options["use_repository_button"] is False
    assert config.html_baseurl == ""
    config = configured(tmp_path, f"{HOME}.git")
    assert config.html_theme_options["repository_url"] == HOME
    assert config.html_theme_options["launch_buttons"] == BUTTONS
    assert (config.html_baseurl, config.ogp_site_url) == (SITE, SITE)
    assert config.notfound_urls_prefix == "/notes/"
    config = configured(tmp_path, "https://github.com/someone/someone.github.io")
    assert config.html_baseurl == "https://someone.github.io/"


def test_a_script_of_another_sphinx_is_not_changed_by_half(tmp_path):
    script = tmp_path / "_static" / "searchtools.js"
    script.parent.mkdir()
    app = SimpleNamespace(outdir=tmp_path, builder=SimpleNamespace(format="html"))
    script.write_text(" ".join([*attn_search.CHANGES][1:]), encoding="utf-8")
    with pytest.raises(RuntimeError, match="no longer has"):
        attn_search.finish(app, None)
    script.write_text(" ".join(attn_search.CHANGES), encoding="utf-8")
    attn_search.finish(app, None)
    assert script.read_text(encoding="utf-8") == " ".join(attn_search.CHANGES.values())


# What Sphinx writes and a screen reader cannot follow is mended

PAGE = """
Title
=====

- An item [#note]_.

.. [#note] Its note.

.. py:function:: taking(first, second)

.. [Ro58] A work that nobody cites.

.. list-table::
   :header-rows: 1
   :stub-columns: 1

   * -
     - column
   * - row
     - cell
"""


@pytest.fixture(scope="module")
def body(tmp_path_factory):
    """The article of a page with all that needs mending."""
    folder, site = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("site")
    (folder / "index.rst").write_text(PAGE, encoding="utf-8")
    settings = {"extensions": ["sphinx_book_theme", "attn_access"]}
    settings |= {"html_theme": "sphinx_book_theme", "html_theme_options": {"use_sidenotes": True}}
    settings |= {"python_maximum_signature_line_length": 1}
    Sphinx(folder, None, site, site, "html", settings, status=None, warning=None).build()
    html = (site / "index.html").read_text(encoding="utf-8")
    return re.search(r"<article.*</article>", html, re.DOTALL)[0]


@pytest.mark.slow
def test_a_list_holds_items_alone_and_a_note_stands_inside_its_item(body):
    assert re.search(r'<ul>\s*<li><span class="sidenote"><sup>1</sup>Its note\.</span>', body)


@pytest.mark.slow
def test_a_signature_of_several_lines_is_no_list_without_terms(body):
    lines = re.search(r'<div class="sig-lines">(.*?)\)', body, re.DOTALL)[1]
    assert re.findall(r"<div>.*?(first|second)", lines) == ["first", "second"]
    assert "<dd>" not in lines


@pytest.mark.slow
def test_a_work_is_an_item_of_its_list(body):
    assert re.search(r'id="ro58"[^>]* role="listitem"', body)
    assert "doc-biblioentry" not in body


@pytest.mark.slow
def test_the_corner_of_a_table_is_no_heading(body):
    assert re.search(r"<tr[^>]*><td[^>]*></td>\s*<th[^>]*><p>column", body)


# What stands in a formula's place until it is typeset


def written(*formulas):
    inline = r'<span class="math notranslate nohighlight">\({}\)</span>'
    context = {"body": " ".join(inline.format(tex) for tex in formulas)}
    attn_maths.stand_in(SimpleNamespace(), "page", "page.html", context, None)
    return context["body"]


def test_beside_few_formulas_stands_their_mathml():
    assert "</span><math" in written(r"a &lt; b")
    assert "<mo>&lt;</mo>" in written(r"a &lt; b")
    assert "<mi>𝜽</mi>" in written(r"\big(\boldsymbol\theta\big)")
    assert "<math" in written(*["a"] * attn_maths.MANY)
    assert "<math" not in written(*["a"] * (attn_maths.MANY + 1))


def test_a_formula_that_docutils_cannot_say_stands_alone_and_has_its_room():
    assert written(r"\unheard x").endswith(r'style="--ems: 1.1">\(\unheard x\)</span>')


def test_a_page_is_one_of_many_formulas_for_the_script_too():
    script = (Path(attn_maths.__file__).parents[1] / "_static" / "maths.js").read_text("utf-8")
    assert f"MANY = {attn_maths.MANY};" in script


# The distributions are complete

LEFT_OUT = [".git", ".venv*", "_build", "lab", "assignments", "mutants", "dist", "build"]
LEFT_OUT += ["*.egg-info", "__pycache__", ".*_cache", ".hypothesis", ".ipynb_checkpoints"]
USE = """
import attn_exercises, attn_train, attn_widgets
for package in attn_exercises, attn_train, attn_widgets:
    print(package.__file__)
print(len(attn_widgets.page_script()))
attn_exercises.empty_rows(None)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A copy of the project, what `make dist` builds of it, and the wheel, unpacked."""
    place = tmp_path_factory.mktemp("dist")
    shutil.copytree(ROOT, place / "clone", ignore=shutil.ignore_patterns(*LEFT_OUT))
    command = [sys.executable, "-m", "uv", "build", "--quiet", "--offline", "--no-build-isolation"]
    command += ["--python", sys.executable, "--out-dir", str(place / "out"), "."]
    subprocess.run(command, check=True, cwd=shutil.copytree(place / "clone", place / "built"))
    (wheel,) = (place / "out").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place / "wheel")
    return place


@pytest.mark.slow
def test_the_source_distribution_holds_every_file_of_the_project(place):
    (sdist,) = (place / "out").glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        packed = {Path(*Path(one.name).parts[1:]) for one in archive if one.isfile()}
    files = [path for path in (place / "clone").rglob("*") if path.is_file()]
    project = {path.relative_to(place / "clone") for path in files}
    assert project - packed == set()
    assert Path("tools/release.py") in project
    assert len(project) > 300


@pytest.mark.slow
def test_the_wheel_holds_every_package_with_their_scripts_and_guesses(place):
    environment = os.environ | {"PYTHONPATH": str(place / "wheel")}
    command = [sys.executable, "-c", USE]
    run = subprocess.check_output(command, env=environment, cwd=place, text=True)
    *paths, size, said = run.splitlines()
    assert all(Path(path).is_relative_to(place / "wheel") for path in paths)
    assert int(size) > 100_000
    assert said.startswith("Not yet: ")
    names = {one.name.split("-")[0] for one in (place / "wheel").iterdir()}
    assert names == {"attn_exercises", "attn_notes", "attn_train", "attn_widgets"}
    for name in names:
        assert (place / "wheel" / name / "py.typed").is_file()


@pytest.mark.slow
def test_what_an_index_shows_of_the_package_needs_no_file_of_the_repository(place):
    (file,) = (place / "wheel").glob("*.dist-info/METADATA")
    shown = message_from_bytes(file.read_bytes()).get_payload()
    assert shown.startswith("# attn-notes")
    assert re.findall(r"\]\((?!https://)[^)]*\)|<img", shown) == []
