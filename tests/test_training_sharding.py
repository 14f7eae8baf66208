"""A model divided over processes is trained to the same as a whole one; each holds its share.

See `tests.dividing`; for checkpoints, `tests.test_training_processes`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from attn_notes.training.sharding import from_first, gather, share, whole
from tests.dividing import STEPS, a_model, train, translator

TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    """What each of two processes saw."""
    place = tmp_path_factory.mktemp("dividing")
    ran = subprocess.run(
        [sys.executable, "-m", "tests.dividing", str(place)], capture_output=True, text=True,
        check=False, cwd=Path(__file__).parents[1], env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return [json.loads((place / f"{rank}.json").read_text()) for rank in (0, 1)]


@pytest.fixture(scope="module")
def one():
    """What one process sees."""
    tied = train(a_model())
    return {
        "whole": tied,
        "divided": tied,
        "accumulated": tied,
        "untied": train(a_model(tie_embeddings=False)),
        "bfloat16": train(a_model(), precision="bfloat16"),
        "recurrent": translator(),
    }


@pytest.mark.parametrize("name", ["whole", "divided", "accumulated", "untied", "recurrent"])
def test_one_process_two_whole_models_and_one_in_two_shares_have_the_same_losses(
    one, processes, name
):
    for process in processes:
        losses = process[name]["losses"]
        assert len(losses) == STEPS
        assert losses == pytest.approx(one[name]["losses"], rel=TOLERANCE)
        assert losses != one[name]["losses"]  # other sums: it was no single process


def test_in_16_bits_they_agree_to_its_rounding(one, processes):
    assert processes[0]["bfloat16"]["losses"] == pytest.approx(one["bfloat16"]["losses"], rel=1e-3)


@pytest.mark.parametrize("name", ["divided", "untied", "recurrent"])
def test_the_shares_make_one_model_without_a_rest(one, processes, name):
    """Not even in an uneven tensor does a process have more than half of the rows, rounded up."""
    for kind, full in one[name]["bytes"].items():
        shares = [process[name]["bytes"][kind] for process in processes]
        assert sum(shares) == full
        assert full / 2 <= max(shares) < 0.6 * full


def test_a_whole_model_costs_each_process_16_bytes_a_parameter(one, processes):
    numbers = sum(weight.numel() for weight in a_model().parameters())
    expected = {"weights": 4 * numbers, "gradients": 4 * numbers, "averages": 8 * numbers}
    for process in processes:
        assert process["whole"]["bytes"] == one["whole"]["bytes"] == expected


def test_without_a_group_everything_is_whole_already():
    weight = nn.Parameter(torch.ones(2, 3))
    assert whole(weight) is share(weight, weight) is from_first(weight) is weight
    state = gather({"weights": [weight], "step": 3}, keep=False)
    assert state["weights"][0] is weight
    assert state["step"] == 3
