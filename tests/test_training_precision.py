"""Sixteen bits, torch.compile, told to stop: what changes in a training, and what must not."""

import itertools
import math
import re

import pytest
import torch
from torch import nn

from attn_notes.training import PRECISIONS, TrainingStopped, fit, load_checkpoint, save_checkpoint
from attn_notes.training.updates import Updates
from tests.test_training_checkpoints import equal
from tests.test_training_loop import STEPS, a_model, batches, bits, loss

SIXTEEN = pytest.mark.parametrize("precision", ["bfloat16", "float16"])


# Precision


@SIXTEEN
def test_in_16_bits_products_are_computed_in_them_and_weights_kept_in_32(precision):
    model, seen = a_model(), []
    model[3].register_forward_hook(lambda *given: seen.append(given[2].dtype))
    before = fit(a_model(), batches, loss, steps=3)
    after = fit(model, batches, loss, steps=3, precision=precision)
    assert {*seen} == {getattr(torch, precision)}
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    first = 1 if precision == "float16" else 3  # a first step that overflows is left out
    assert after[:first] == pytest.approx(before[:first], rel=0.02)
    assert after[0] != before[0]


def test_in_32_bits_an_autocast_of_the_callers_own_is_left_alone():
    seen = []
    model = a_model()
    model[3].register_forward_hook(lambda *given: seen.append(given[2].dtype))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        fit(model, batches, lambda model, x: loss(model, x).float(), steps=1)
    assert seen == [torch.bfloat16]


@SIXTEEN
def test_stopped_and_resumed_it_is_the_same_in_16_bits(tmp_path, precision):
    whole, broken = a_model(), a_model()
    expected = fit(whole, batches, loss, steps=STEPS, seed=3, precision=precision)
    keywords = {"seed": 3, "checkpoint": tmp_path / "c.pt", "precision": precision}
    fit(broken, batches, loss, steps=5, **keywords)
    assert fit(a_model(9), batches, loss, steps=STEPS, **keywords) == expected
    model = a_model(8)
    fit(model, batches, loss, steps=STEPS, **keywords)
    assert equal(bits(model), bits(whole))


def test_another_precision_does_not_go_on(tmp_path):
    path = tmp_path / "c.pt"
    fit(a_model(), batches, loss, steps=2, checkpoint=path)
    with pytest.raises(ValueError, match="got precision float32 there and bfloat16 here"):
        fit(a_model(), batches, loss, steps=3, checkpoint=path, precision="bfloat16")


def test_a_checkpoint_from_before_there_was_a_choice_goes_on(tmp_path):
    path = tmp_path / "c.pt"
    fit(a_model(), batches, loss, steps=5, seed=3, checkpoint=path)
    there = load_checkpoint(path)
    del there["scaler"], there["settings"]["precision"]
    save_checkpoint(path, there)
    model = a_model(9)
    losses = fit(model, batches, loss, steps=STEPS, seed=3, checkpoint=path)
    whole = a_model()
    assert losses == fit(whole, batches, loss, steps=STEPS, seed=3)
    assert equal(bits(model), bits(whole))
    save_checkpoint(path, there)
    with pytest.raises(ValueError, match="got precision float32 there and float16 here"):
        fit(a_model(), batches, loss, steps=9, seed=3, checkpoint=path, precision="float16")


def big(model, batch):
    """A loss whose gradient has no place in 16 bits when it is multiplied by more than a few."""
    return 300 * loss(model, batch)


def test_a_step_that_overflows_in_float16_is_left_out_and_the_factor_halved(tmp_path):
    model, path = a_model(dropout=0.0), tmp_path / "c.pt"
    factors, weights = [], []

    def look(done, _):
        factors.append(load_checkpoint(path)["scaler"]["scale"])  # after the step before
        weights.append(bits(model)["3.weight"])

    losses = fit(
        model, batches, big, steps=30, checkpoint=path, checkpoint_every=1, precision="float16",
        on_step=look,
    )  # fmt: skip
    assert all(map(math.isfinite, losses))
    halved = [after == before / 2 for before, after in itertools.pairwise(factors)]
    kept = [after == before for before, after in itertools.pairwise(factors)]
    stood_still = [torch.equal(before, after) for before, after in itertools.pairwise(weights)]
    assert sum(halved) >= 3
    assert sum(kept) == len(kept) - sum(halved) >= 3
    assert stood_still[:-1] == halved[1:]


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("max_norm", [0.5, 1e9])
def test_the_gradient_is_clipped_by_its_own_length_and_not_by_the_factors(precision, max_norm):
    weight = nn.Parameter(torch.tensor([3.0, 4.0]))
    updates = Updates([weight], lr=0.1, weight_decay=0.0, max_norm=max_norm, precision=precision)
    norm = updates.descend(weight.square().sum() / 2)
    assert norm.item() == pytest.approx(5.0)
    expected = torch.tensor([0.3, 0.4]) if max_norm < 1 else torch.tensor([3.0, 4.0])
    torch.testing.assert_close(weight.grad, expected, rtol=1e-4, atol=0.0)


def test_a_gradient_that_overflows_whatever_the_factor_stops_the_training():
    model = nn.Linear(3, 2)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    poisoned = lambda model, x: model(x).float().square().sum().sqrt()  # noqa: E731
    with pytest.raises(FloatingPointError, match=r"got loss 0.0 and a gradient of norm nan in"):
        fit(model, batches, poisoned, steps=40, precision="float16")
    assert model.weight.eq(0).all()


def test_a_loss_that_is_not_finite_stops_it_in_float16_too():
    numbers = itertools.count()
    poisoned = lambda model, x: loss(model, x) * (math.inf if next(numbers) == 2 else 1)  # noqa: E731
    with pytest.raises(FloatingPointError, match=r"got loss inf and .* in step 2;"):
        fit(a_model(), batches, poisoned, steps=4, precision="float16")


def test_a_precision_that_there_is_not_is_refused():
    words = re.escape(f"precision must be one of {', '.join(PRECISIONS)}, got 'int8'")
    with pytest.raises(ValueError, match=words):
        fit(a_model(), batches, loss, steps=1, precision="int8")
    with pytest.raises(ValueError, match=words):
        Updates([*a_model().parameters()], lr=1, weight_decay=0, max_norm=1, precision="int8")


# Compiling


def test_a_compiled_model_is_trained_to_the_same(monkeypatch, tmp_path):
    """As it is traced, and run as it was: to make kernels takes a compiler, and a minute."""
    asked, compiler = [], torch.compile
    monkeypatch.setattr(
        torch, "compile", lambda model: asked.append(model) or compiler(model, backend="eager")
    )
    plain, model = (a_model(dropout=0.0) for _ in range(2))
    expected = fit(plain, batches, loss, steps=4)
    assert asked == []
    path = tmp_path / "c.pt"
    losses = fit(model, batches, loss, steps=4, compile=True, checkpoint=path)
    assert asked == [model]
    assert losses == pytest.approx(expected, rel=1e-5)
    assert load_checkpoint(path)["model"].keys() == model.state_dict().keys()
    for mine, theirs in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs)
    torch._dynamo.reset()


# Told to stop


@pytest.mark.parametrize("stops", [[3], [1, 2, 2, 7]])
def test_told_to_stop_and_resumed_it_is_the_same(tmp_path, stops):
    whole, path = a_model(), tmp_path / "c.pt"
    expected = fit(whole, batches, loss, steps=STEPS, seed=3)
    keywords = {"seed": 3, "checkpoint": path, "checkpoint_every": 100}
    done = 0
    for stop in stops:
        asked = itertools.count(done)
        until = stop
        with pytest.raises(TrainingStopped, match=f"stopped after step {until} of {STEPS}"):
            fit(
                a_model(done), batches, loss, steps=STEPS,
                stop=lambda asked=asked, until=until: next(asked) >= until, **keywords,
            )  # fmt: skip
        done = len(load_checkpoint(path)["losses"])
        assert done == until
    model = a_model(9)
    assert fit(model, batches, loss, steps=STEPS, stop=lambda: False, **keywords) == expected
    assert equal(bits(model), bits(whole))


def test_told_to_stop_without_a_checkpoint_it_stops_all_the_same():
    with pytest.raises(TrainingStopped, match="stopped after step 0 of 3"):
        fit(a_model(), batches, loss, steps=3, stop=lambda: True)
