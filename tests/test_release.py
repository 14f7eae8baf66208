"""A release: its tag names the version, and the zip holds the site and what it needs."""

import zipfile

import pytest

import attn_notes
from tools import release


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
