"""A model divided over processes is trained to the same as a whole one; each holds its share.

See `tests.dividing`; for checkpoints, `tests.test_training_processes`.
"""

import json

import pytest

from tests.dividing import STEPS, a_model, train, translator
from tests.test_training_processes import TOLERANCE, run_of


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    """What each of two processes saw."""
    place = tmp_path_factory.mktemp("dividing")
    run_of("tests.dividing", str(place))
    return [json.loads((place / f"{rank}.json").read_text()) for rank in (0, 1)]


@pytest.fixture(scope="module")
def one():
    """What one process sees."""
    tied = train(a_model())
    return {
        **dict.fromkeys(("whole", "divided", "accumulated"), tied),
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
