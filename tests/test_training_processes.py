"""Killed and resumed, alone, with others and divided among them: the same training.

See `tests.trainings`. Losses of other numbers of processes may differ by one part in 100,000: the
gradients are the same numbers, added in another order.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load

from tests.trainings import STEPS, UPDATES, a_model, train, translator

pytestmark = pytest.mark.slow

TOLERANCE = 1e-5
WHOLE = ["checkpoint.pt", "settings.json", "weights.safetensors"]


def run_of(*command: str) -> str:
    """What a module prints in a Python of its own."""
    ran = subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, check=False,
        cwd=Path(__file__).parents[1], env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("trainings")
    run_of("tests.trainings", str(place))
    return place


@pytest.fixture(scope="module")
def report(place):
    return json.loads((place / "report.json").read_text())


def assert_same(one, other):
    """Bit for bit."""
    for name in ("losses", "weights", "files"):
        assert one[name] == other[name]


def test_killed_at_any_moment_and_resumed_it_is_the_same_bit_for_bit(report):
    ends, steps = zip(*report["kills"], strict=True)
    assert {*ends} == {-9}
    assert list(steps) == sorted(steps)
    assert any(0 < step < STEPS for step in steps)
    assert_same(report["kills, resumed"], report["not killed"])
    assert report["not killed"]["files"] == WHOLE
    assert "continuing the training" in report["kills, resumed"]["printed"]


def test_batches_shared_and_in_parts_give_the_losses_of_one_process(report):
    one, other = report["pairs 1"], report["pairs 2"]
    assert len(other["losses"]) == STEPS
    assert other["losses"] == pytest.approx(one["losses"], rel=TOLERANCE)
    assert other["losses"] != one["losses"]  # other sums: it was no single one
    assert other["files"] == WHOLE


def test_a_dead_worker_ends_a_divided_training_and_one_process_goes_on(report):
    run, one = report["divided"], report["texts 1"]
    assert run["ends"] == [1, -9]
    assert run["said"].startswith("attn-notes: ")
    assert "Traceback" not in run["said"]
    assert run["step"] == STEPS / 2
    assert "continuing the training" in run["printed"]
    assert run["losses"] == pytest.approx(one["losses"], rel=TOLERANCE)
    assert run["losses"] != one["losses"]
    assert run["files"] == WHOLE
    found, expected = (load(bytes.fromhex(ran["weights"])) for ran in (run, one))
    for weight, tensor in expected.items():  # the best ones, whole
        torch.testing.assert_close(found[weight], tensor, rtol=1e-3, atol=1e-4)


def test_torchrun_trains_with_several_processes(tmp_path):
    (tmp_path / "text").write_text("\n".join(str(n * n) for n in range(200)))
    printed = run_of(
        "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "attn_train",
        "train", "language-model", "--steps=4", "--max-length=8", "--num-layers=1",
        "--embed-dim=8", "--ffn-dim=8", "--num-heads=2", "--batch-size=5", "--device=cpu",
        f"--text={tmp_path / 'text'}", f"--out={tmp_path / 'out'}",
    )  # fmt: skip
    assert printed.count("this model") == 1  # the first process alone prints
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == WHOLE


# A model divided over processes; each holds its share


@pytest.fixture(scope="module")
def processes(place):
    """What each of two processes saw."""
    return [json.loads((place / f"{rank}.json").read_text()) for rank in (0, 1)]


@pytest.fixture(scope="module")
def one():
    """What one process sees."""
    tied = train(a_model())
    return {
        **dict.fromkeys(("whole", "divided", "accumulated"), tied),
        "recurrent": translator(),
    }


@pytest.mark.parametrize("name", ["whole", "divided", "accumulated", "recurrent"])
def test_one_process_two_whole_models_and_one_in_two_shares_have_the_same_losses(
    one, processes, name
):
    for process in processes:
        losses = process[name]["losses"]
        assert len(losses) == UPDATES
        assert losses == pytest.approx(one[name]["losses"], rel=TOLERANCE)
        assert losses != one[name]["losses"]  # other sums: it was no single process


@pytest.mark.parametrize("name", ["divided", "recurrent"])
def test_the_shares_make_one_model_without_a_rest(one, processes, name):
    """Not even in an uneven tensor does a process have more than half of the rows, rounded up."""
    for kind, full in one[name]["bytes"].items():
        shares = [process[name]["bytes"][kind] for process in processes]
        assert sum(shares) == full
        assert full / 2 <= max(shares) < 0.6 * full
