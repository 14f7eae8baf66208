"""Several processes train what one would, and what happens to one of them spoils nothing.

See `tests.several_processes`. A tolerance of one in 100,000 is stated for the losses of other
numbers of processes: gradients are the same numbers, added in another order.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn

from attn_notes.train.stopping import going_on
from attn_notes.training import PeerLost, Processes, distributed, load_checkpoint, process_group
from attn_notes.training.distributed import any_of_all, average, data_parallel, first_to, from_first
from tests.several_processes import OPTIONS, command, write_text

HERE = Path(__file__).parents[1]
QUIET = os.environ | {"OMP_NUM_THREADS": "1"}
TOLERANCE = 1e-5  # relative, over 30 steps
WHOLE = ["checkpoint.pt", "settings.json", "weights.safetensors"]
STEPS = OPTIONS["steps"]


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    place = tmp_path_factory.mktemp("several")
    ran = subprocess.run(
        [sys.executable, "-m", "tests.several_processes", str(place)],
        capture_output=True, text=True, check=False, cwd=HERE, env=QUIET,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return json.loads((place / "report.json").read_text())


def close(losses: list[float], others: list[float], tolerance: float = TOLERANCE) -> bool:
    return losses == pytest.approx(others, rel=tolerance) and len(losses) == STEPS


def the_line(found: dict) -> str:
    """What all processes together have said: one line, and no traceback."""
    (line,) = found["said"]
    assert line.startswith("attn_notes.train: ")
    return line


# The same losses


@pytest.mark.parametrize("name", ["two", "three"])
def test_several_processes_have_the_losses_of_one_on_the_same_batches(report, name):
    assert close(report[name]["losses"], report["one"]["losses"])
    assert report[name]["losses"] != report["one"]["losses"]  # other sums: it was no single one
    assert report[name]["files"] == WHOLE


def test_however_unequal_their_shares_of_padded_pairs_are_they_learn_what_one_does(report):
    (one,), *others = report["translated"]
    for processes in others:
        for found in processes:
            assert close(found["losses"], one["losses"])
            assert found["numbers"] == pytest.approx(one["numbers"], rel=1e-3, abs=1e-5)
        assert processes[0]["measured"] == pytest.approx(one["measured"], rel=TOLERANCE)


def test_the_first_alone_speaks_and_measures(report):
    first, *others = report["three"]["out"]
    assert "on cpu, 3 processes, in float32" in first
    assert "held-out bits per character" in first
    assert others == ["", ""]
    assert "processes" not in report["one"]["out"][0]


def test_sixteen_bits_are_near_and_not_the_same(report):
    assert close(report["two in bfloat16"]["losses"], report["one"]["losses"], 0.01)
    assert not close(report["two in bfloat16"]["losses"], report["one"]["losses"])


def test_each_process_and_step_has_a_dropout_of_its_own(report):
    assert not close(report["two with dropout"]["losses"], report["one"]["losses"], 0.001)


# What happens to one of them


@pytest.mark.parametrize("number", [0, 1])
def test_one_that_is_killed_ends_all_with_what_was_completed(report, number):
    found = report[f"killed {number}"]
    assert found["codes"][number] == -9
    assert found["codes"][1 - number] == 1
    assert found["step"] == 17  # and no multiple of the steps between two checkpoints
    assert re.search(
        r"another process was lost \(.+\) in step 18 of 30; \S+ \d/checkpoint.pt holds 17 steps; "
        "the same command goes on from there$",
        the_line(found),
    )


@pytest.mark.parametrize("number", [0, 1])
def test_any_number_of_processes_goes_on_to_the_same_losses(report, number):
    for resumed in report[f"killed {number}, resumed"]:
        assert close(resumed["losses"], report["one"]["losses"])
        assert resumed["files"] == WHOLE


def test_as_many_go_on_bit_for_bit(report):
    resumed = report["killed 0, resumed"][1], report["killed 1, resumed"][1]
    resumed += (report["told, resumed"],)
    assert {each["weights"] for each in resumed} == {report["two"]["weights"]}


def test_the_one_that_writes_the_checkpoint_may_be_killed_while_it_does(report):
    found = report["killed while it writes"]
    assert found["codes"] == [-9, 1]
    assert found["step"] == 20
    assert "/checkpoint.pt holds 20 steps" in the_line(found)


def test_killed_at_any_moment_again_and_again_they_end_the_same_dropout_included(report):
    found, whole = report["killed anywhere"], report["two with dropout"]
    under_way = [-9 in codes and 0 not in codes for codes in found["codes"]]
    assert any(under_way)  # on a busy machine they may be done before they are killed
    assert found["steps"] == sorted(found["steps"])
    assert any(0 < step < STEPS for step in found["steps"])
    assert found["last"] == [0, 0]
    assert found["result"]["losses"] == whole["losses"]
    assert found["result"]["weights"] == whole["weights"]
    assert found["result"]["files"] == WHOLE


def test_one_that_is_told_to_stop_stops_all_after_the_step(report):
    for name, codes in (("told", [143, 143]), ("interrupted", [130, 143])):
        found = report[name]
        assert found["codes"] == codes
        assert found["step"] == 18
        assert "stopped after step 18 of 30; " in the_line(found)
        assert the_line(found).endswith("holds 18 steps; the same command goes on from there")


def test_one_that_waits_for_one_that_stands_still_is_told_to_stop_and_does(report):
    found = report["hung"]
    assert found["codes"] == [143, -9]
    assert found["step"] == 10
    assert "told to stop, but a step does not end; " in the_line(found)
    assert "checkpoint.pt holds 10 steps; the same command" in the_line(found)


def test_torchrun_may_begin_again_by_itself(report):
    found = report["restarted"]
    assert found["codes"] == [[-9, 1], [-9, 1], [0, 0]]
    assert found["steps"] == [17, 21, 30]
    assert found["said"] == [1, 1, 0]
    assert found["result"]["weights"] == report["two"]["weights"]


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("different", 1, "every process must be given the same options and texts, got different"),
        ("uneven", 1, "--batch-size must be divisible by the number of processes, got 13 and 2"),
        ("no room", 1, "text/below: Not a directory"),
        ("short", 1, "got 1716 ids and a window of 10000"),
        ("wrong", 2, "--steps: must be a whole number, 1 or more, got '0'"),
    ],
)
def test_what_all_of_them_meet_is_said_once(report, name, code, words):
    assert words in the_line(report[name])
    assert code in report[name]["codes"]
    assert {*report[name]["codes"]} <= {code, -15}  # who is told to stop before it ends, stops
    assert report[name]["step"] == -1


# Under torchrun itself


def torchrun(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
         "-m", *arguments],
        capture_output=True, text=True, check=False, cwd=HERE, env=QUIET,
    )  # fmt: skip


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    """A training in which torchrun's second worker is killed by its 18th step."""
    place = tmp_path_factory.mktemp("torchrun")
    write_text(place)
    return place, torchrun("tests.several_processes", str(place / "out"), "killed")


def test_a_worker_of_torchrun_that_is_killed_ends_the_run_with_one_line(broken):
    place, ran = broken
    assert ran.returncode != 0
    (line,) = re.findall("^attn_notes.*", ran.stderr, re.MULTILINE)
    checkpoint = place / "out" / "checkpoint.pt"
    assert line.startswith("attn_notes.train: another process was lost (")
    assert line.endswith(f") in step 18 of 30; {going_on(checkpoint)}")
    assert going_on(checkpoint).endswith("holds 17 steps; the same command goes on from there")


def test_torchrun_goes_on_to_the_losses_of_one_process_that_nothing_happened_to(broken, report):
    place, _ = broken
    ran = torchrun("attn_notes.train", *command(place / "out"))
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("held-out bits per character") == 1
    losses = load_checkpoint(place / "out" / "checkpoint.pt")["losses"]
    assert close(losses, report["one"]["losses"])
    assert sorted(path.name for path in (place / "out").iterdir()) == WHOLE


def test_torchrun_that_is_told_to_stop_leaves_a_checkpoint(tmp_path):
    write_text(tmp_path)
    ran = torchrun("tests.several_processes", str(tmp_path / "out"), "told")
    assert ran.returncode != 0
    (line,) = re.findall("^attn_notes.*", ran.stderr, re.MULTILINE)
    assert "stopped after step 18 of 30; " in line
    assert line.endswith("holds 18 steps; the same command goes on from there")


# In one process


def test_one_process_needs_no_group(monkeypatch):
    for count in ("1", None):
        if count:
            monkeypatch.setenv("WORLD_SIZE", count)
        else:
            monkeypatch.delenv("WORLD_SIZE", raising=False)
        with process_group(torch.device("meta")) as processes:
            assert processes == Processes(0, 1, torch.device("meta"))
            assert not dist.is_initialized()
    model = nn.Linear(2, 3)
    assert data_parallel(model) is model
    assert average(torch.tensor(2.0)) == 2
    assert [any_of_all(flag) for flag in (True, False)] == [True, False]
    assert first_to("speak")
    assert first_to("speak")


def test_what_the_first_meets_is_raised():
    with pytest.raises(ZeroDivisionError):
        from_first(lambda: 1 / 0)


@pytest.mark.parametrize(
    ("device", "words"),
    [
        ("mps", "several processes must compute on cpu or cuda, got mps"),
        ("cuda:0", "several processes must compute on cpu or cuda, got cuda:0"),
        ("cuda", "a machine must have a GPU for each of its processes, got 1 GPUs and 2 processes"),
    ],
)
def test_a_device_that_processes_cannot_have_is_refused_before_they_meet(
    monkeypatch, device, words
):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    for name, value in (("WORLD_SIZE", "2"), ("LOCAL_WORLD_SIZE", "2"), ("LOCAL_RANK", "1")):
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=words), process_group(torch.device(device)):
        pass


def test_each_process_gets_the_gpu_of_its_number(monkeypatch):
    chosen = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    assert distributed._own_device(torch.device("cuda"), 1) == torch.device("cuda", 1)
    assert chosen == [1]


@pytest.mark.parametrize(
    ("error", "count", "words"),
    [
        (RuntimeError("[a/gloo/pair.cc:5] Connection closed. Look"), 2, r"lost \(Connection clo"),
        (dist.DistBackendError("NCCL error in: a\nb"), 2, r"lost \(NCCL error in: a\)$"),
        (RuntimeError("[a/gloo/pair.cc:5] Connection closed"), 1, "^.a/gloo"),
        (RuntimeError("shapes (2, 3)"), 2, "^shapes"),
    ],
)
def test_what_fails_for_want_of_another_process_is_told_from_other_failures(
    monkeypatch, error, count, words
):
    monkeypatch.setattr(distributed, "world", lambda: count)
    with pytest.raises(RuntimeError, match=words) as caught, distributed.peers_needed():
        raise error
    assert isinstance(caught.value, PeerLost) == words.startswith("lost")


def test_where_nobody_keeps_the_answers_any_process_is_the_first(monkeypatch):
    class Gone:
        def add(self, *_):
            raise dist.DistNetworkError("gone")

    monkeypatch.setattr(distributed, "_stores", [Gone()])
    assert first_to("speak")
