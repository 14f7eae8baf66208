"""What makes .venv says in words why it cannot, and leaves nothing half made that looks whole."""

import json
import subprocess
import sys

import pytest

from tools import environment

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


def test_only_a_whole_install_gets_its_stamp(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(environment, "ENVIRONMENT", tmp_path)
    monkeypatch.setattr(environment, "pip", lambda *arguments: asked.append(arguments))
    environment.install("ready")
    assert asked == [("-r", "requirements.txt"), ("--no-deps", environment.ENCODER)]
    assert [path.name for path in tmp_path.iterdir()] == ["ready"]


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
