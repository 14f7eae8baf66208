"""What runs on a public host: no more rights than it needs, nothing of others that may change."""

import importlib.metadata
import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.test_repository import pins

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
WORKFLOWS = {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in FILES}
JOBS = {f"{name}-{job}": x for name, flow in WORKFLOWS.items() for job, x in flow["jobs"].items()}
EVERY_JOB = pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)

# What a job may write; all others only read the repository.
WRITES = {"pages-site": {"contents": "write", "pages": "write"}}
WRITES["release-release"] = {"contents": "write"}


def steps(job: dict) -> list[dict]:
    return job.get("steps", [])


def commands(job: dict) -> str:
    return "\n".join(step.get("run", "") for step in steps(job))


@pytest.mark.parametrize("workflow", WORKFLOWS.values(), ids=WORKFLOWS)
def test_a_workflow_has_no_rights_of_its_own_and_cuts_off_no_publication(workflow):
    assert workflow["permissions"] == {}
    stops = workflow["concurrency"]["cancel-in-progress"]
    assert stops is False or "pull_request" in stops
    assert "pull_request_target" not in workflow[True]  # YAML reads the key `on` as true


def test_a_job_may_read_and_only_two_may_write():
    rights = {name: job["permissions"] for name, job in JOBS.items()}
    assert rights == {name: {"contents": "read"} for name in JOBS} | WRITES


@EVERY_JOB
def test_a_job_ends_some_time_on_a_runner_that_is_named_and_uses_nobody_s_action(job):
    if "uses" in job:
        assert job["uses"].startswith("./.github/workflows/")
        assert (ROOT / job["uses"]).is_file()
    else:
        assert 0 < job["timeout-minutes"] <= 90
        assert job["runs-on"] == "ubuntu-24.04"
    assert not [step for step in steps(job) if "uses" in step]


@EVERY_JOB
def test_a_job_checks_out_its_own_commit_and_keeps_no_password(job):
    first = steps(JOBS["test-test"])[0]
    assert '"$GITHUB_SHA"' in first["run"]
    assert "config" not in first["run"]
    checkouts = [step for step in steps(job) if step.get("name") == "Check out"]
    assert checkouts == ([first] if steps(job) else [])  # everywhere the same


@EVERY_JOB
def test_commands_are_known_to_the_makefile_and_hold_nothing_that_somebody_else_may_choose(job):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    known = re.findall(r"^(\w[\w-]*):", makefile, re.MULTILINE)
    asked = re.findall(r"^make (.*)", commands(job), re.MULTILINE)
    assert {target for targets in asked for target in targets.split()} <= set(known)
    assert "${{" not in commands(job)


@pytest.mark.parametrize("name", ["pages-site", "release-release"])
def test_only_a_commit_that_passed_the_tests_is_published(name):
    assert JOBS[name]["needs"] == "test"
    called = JOBS[f"{name.split('-')[0]}-test"]
    assert called["uses"] == "./.github/workflows/test.yml"
    assert steps(JOBS["test-test"])[-1] == {"run": ".ci/run"}
    assert JOBS["release-test"]["needs"] == "tag"


@EVERY_JOB
def test_only_the_step_that_needs_the_token_has_it(job):
    holders = [step["name"] for step in steps(job) if "github.token" in str(step)]
    names = [step.get("name") for step in steps(job)]
    writers = [name for name in names if name in {"Push the site", "Ask for the build", "Release"}]
    assert holders == (["Check out", *writers] if steps(job) else [])
    assert "github.token" not in str(job.get("env"))


def test_the_branch_of_the_pages_holds_the_last_site_and_no_history(tmp_path):
    push = next(step for step in steps(JOBS["pages-site"]) if step.get("name") == "Push the site")
    (tmp_path / "someone").mkdir()
    home = tmp_path / "someone" / "notes"
    subprocess.run(["git", "init", "-q", "--bare", home], check=True)
    at = {"GITHUB_SERVER_URL": tmp_path.as_uri(), "GITHUB_REPOSITORY": "someone/notes"}
    for name in ("first", "second"):
        site = tmp_path / name / "_build" / "html"
        (site / "_static").mkdir(parents=True)
        for path in (site / ".nojekyll", site / "_static" / f"{name}.css"):
            path.touch()
        settings = os.environ | at | {"GITHUB_SHA": name, "TOKEN": "x"}
        shell = ["bash", "-e", "-c", push["run"]]
        subprocess.run(shell, cwd=tmp_path / name, env=settings, check=True)
    git = ["git", "-C", home]
    files = subprocess.check_output([*git, "ls-tree", "-r", "--name-only", "gh-pages"], text=True)
    commits = subprocess.check_output([*git, "log", "--format=%s", "gh-pages"], text=True)
    assert files == ".nojekyll\n_static/second.css\n"
    assert commits == "The book at second\n"


FREE = re.compile(r"MIT|BSD|Apache|ISC|PSF|Python Software|MPL|Mozilla|Lesser General|HPND")
IN_ITS_FILES = {"axe-playwright-python": "MIT"}  # states nothing in its metadata


def licence(name: str) -> str:
    """What a package says of its licence, in the newest of the three places for it."""
    said = importlib.metadata.metadata(name)
    listed = [line for line in said.get_all("Classifier", []) if line.startswith("License ::")]
    stated = said.get("License-Expression") or " / ".join(listed) or said.get("License")
    return stated or IN_ITS_FILES.get(name, "")


def test_every_pinned_package_may_be_used_and_passed_on_freely():
    assert {name: licence(name) for name in pins() if not FREE.search(licence(name))} == {}
