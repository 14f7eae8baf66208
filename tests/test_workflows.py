"""What runs on a public host: no more rights than it needs, nothing of others that may change."""

import importlib.metadata
import re
from pathlib import Path

import pytest
import yaml

from tests.test_repository import pins

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TEXTS = {path.stem: path.read_text(encoding="utf-8") for path in FILES}
WORKFLOWS = {name: yaml.safe_load(text) for name, text in TEXTS.items()}
JOBS = {
    f"{name}-{job}": described
    for name, workflow in WORKFLOWS.items()
    for job, described in workflow["jobs"].items()
}
EVERY_WORKFLOW = pytest.mark.parametrize("workflow", WORKFLOWS.values(), ids=WORKFLOWS)
EVERY_JOB = pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)

# What a job may write; all others only read the repository.
WRITES = {
    "pages-deploy": {"pages": "write", "id-token": "write"},
    "release-release": {"contents": "write"},
}
# GitHub's own two, for which there is no command: at a version, which dependabot raises.
AT_A_VERSION = {"actions/upload-pages-artifact", "actions/deploy-pages"}


def steps(job: dict) -> list[dict]:
    return job.get("steps", [])


@EVERY_WORKFLOW
def test_a_workflow_has_no_rights_of_its_own_and_cuts_off_no_publication(workflow):
    assert workflow["permissions"] == {}
    stops = workflow["concurrency"]["cancel-in-progress"]
    assert stops is False or "pull_request" in stops
    assert "pull_request_target" not in workflow[True]  # YAML reads the key `on` as true


@pytest.mark.parametrize("name", JOBS)
def test_a_job_may_read_and_only_two_may_write(name):
    assert JOBS[name]["permissions"] == WRITES.get(name, {"contents": "read"})


@EVERY_JOB
def test_a_job_ends_some_time_on_a_runner_that_is_named(job):
    if "uses" not in job:
        assert 0 < job["timeout-minutes"] <= 90
        assert job["runs-on"] == "ubuntu-24.04"


@EVERY_JOB
def test_what_a_job_uses_of_others_is_one_commit(job):
    for used in filter(None, (job.get("uses"), *(step.get("uses") for step in steps(job)))):
        action, _, version = used.partition("@")
        local = action.startswith("./.github/workflows/") and (ROOT / action).is_file()
        assert local or action in AT_A_VERSION or re.fullmatch(r"[0-9a-f]{40}", version), used


def test_a_commit_that_an_action_is_held_to_has_its_version_beside_it():
    held = [line for text in TEXTS.values() for line in text.splitlines() if "@" in line]
    for line in held:
        if re.search(r"uses: \S+@[0-9a-f]{40}", line):
            assert re.search(r"# v\d", line), line


@EVERY_JOB
def test_a_job_checks_out_its_own_commit_and_keeps_no_password(job):
    checkouts = [step for step in steps(job) if step.get("name") == "Check out"]
    assert len(checkouts) == any("run" in step for step in steps(job))
    for checkout in checkouts:
        assert '"$GITHUB_SHA"' in checkout["run"]
        assert "config" not in checkout["run"]
        assert checkout == steps(JOBS["test-test"])[0]  # everywhere the same


@EVERY_JOB
def test_no_step_writes_into_its_commands_what_somebody_else_may_choose(job):
    for step in steps(job):
        assert "${{" not in step.get("run", "")


@pytest.mark.parametrize("name", ["pages-site", "release-release"])
def test_only_a_commit_that_passed_the_tests_is_published(name):
    assert JOBS[name]["needs"] == "test"
    called = JOBS[f"{name.split('-')[0]}-test"]
    assert called["uses"] == "./.github/workflows/test.yml"
    assert steps(JOBS["test-test"])[-1] == {"run": ".ci/run"}
    assert JOBS["pages-deploy"]["needs"] == "site"
    assert JOBS["release-test"]["needs"] == "tag"


@EVERY_JOB
def test_a_job_makes_what_the_makefile_knows(job):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    known = re.findall(r"^(\w[\w-]*):", makefile, re.MULTILINE)
    for step in steps(job):
        for line in step.get("run", "").splitlines():
            if line.startswith("make "):
                assert set(line.split()[1:]) <= set(known)


FREE = re.compile(r"MIT|BSD|Apache|ISC|PSF|Python Software|MPL|Mozilla|Lesser General|HPND")
IN_ITS_FILES = {"axe-playwright-python": "MIT"}  # states nothing in its metadata


def licence(name: str) -> str:
    """What a package says of its licence, in the newest of the three places for it."""
    said = importlib.metadata.metadata(name)
    listed = [line for line in said.get_all("Classifier", []) if line.startswith("License ::")]
    stated = said["License-Expression"] or " / ".join(listed) or said["License"]
    return stated or IN_ITS_FILES.get(name, "")


def test_every_pinned_package_may_be_used_and_passed_on_freely():
    assert {name: licence(name) for name in pins() if not FREE.search(licence(name))} == {}
