"""The loops do what a loop written out does, and resumed ends the same; and its schedules."""

import copy
import io
import itertools
import math
import re
import sys
from contextlib import nullcontext, suppress

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import nn

from attn_notes import training
from attn_notes.data import Vocabulary, make_batch
from attn_notes.scores import AdditiveScore
from attn_notes.seq2seq import AttentionDecoder, RNNEncoder, Seq2Seq
from attn_notes.training import schedules
from attn_train.files import load_checkpoint
from attn_train.loop import State, fit
from tests.oracles import rng
from tests.test_training_files import equal, names

STEPS = 12
SETTINGS = {"seed": 0, "lr": 0.1, "weight_decay": 0.0, "max_norm": 1.0, "precision": "float32"}


def a_model(seed: int = 0, dropout: float = 0.3) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 4), nn.Dropout(dropout), nn.BatchNorm1d(4), nn.Linear(4, 2))


def batches(step: int) -> torch.Tensor:
    return torch.randn(8, 3, generator=rng(step))


def loss(model, batch):
    return (model(batch) - batch[:, :2]).square().mean()


def bits(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def train(model: nn.Module, steps: int = STEPS, *, fit=fit, **how) -> list[float]:
    return fit(model, batches, how.pop("loss", loss), steps=steps, **how)


# The short loop that the chapters use, and the long one that can be stopped and resumed.
BOTH = pytest.mark.parametrize("fit", [training.fit, fit], ids=["short", "long"])


class Stopped(Exception):
    pass


def stop_after(step: int):
    def on_step(done, _):
        if done >= step:
            raise Stopped

    return on_step


# What it does


@BOTH
@pytest.mark.parametrize("max_norm", [0.1, math.inf])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_it_is_adamw_on_clipped_gradients(fit, max_norm, weight_decay):
    schedule = schedules.linear_decay(3, STEPS)
    one, other = (a_model(dropout=0.0).double() for _ in range(2))
    draw = lambda step: batches(step).double()  # noqa: E731
    how = {"lr": 0.02, "weight_decay": weight_decay}
    found = fit(one, draw, loss, steps=STEPS, schedule=schedule, max_norm=max_norm, **how)
    optimizer = torch.optim.AdamW(other.parameters(), **how)
    expected = []
    for step in range(STEPS):
        optimizer.param_groups[0]["lr"] = 0.02 * schedule(step)
        optimizer.zero_grad()
        value = loss(other, draw(step))
        value.backward()
        nn.utils.clip_grad_norm_(other.parameters(), max_norm)
        optimizer.step()
        expected.append(value.item())
    assert found == pytest.approx(expected, rel=1e-12)
    torch.testing.assert_close(one.state_dict(), other.state_dict())
    assert all(parameter.grad is None for parameter in one.parameters())


@BOTH
def test_every_step_gets_its_batch_and_says_what_it_cost(fit):
    asked, told = [], []
    draw = lambda step: asked.append(step) or batches(step)  # noqa: E731
    losses = fit(a_model(), draw, loss, steps=5, on_step=lambda *told_of: told.append(told_of))
    assert asked == [0, 1, 2, 3, 4]
    assert [done for done, _ in told] == [1, 2, 3, 4, 5]
    assert [value.item() for _, value in told] == losses
    assert not any(value.requires_grad for _, value in told)


@BOTH
def test_what_is_frozen_stays(fit):
    model = a_model()
    model[0].requires_grad_(False)
    before = bits(model)
    train(model, 3, fit=fit)
    changed = {name for name, now in bits(model).items() if not torch.equal(now, before[name])}
    assert changed == {name for name in before if not name.startswith("0.")}


@BOTH
@pytest.mark.parametrize("fails", [False, True])
def test_the_caller_finds_modes_and_randomness_as_they_were(fit, fails):
    model = a_model()
    model.train()
    model[2].eval()
    state, seen = torch.get_rng_state(), set()

    def watched(model, batch):
        seen.update(module.training for module in model.modules())
        return loss(model, batch)

    with pytest.raises(Stopped) if fails else nullcontext():
        train(model, 3, fit=fit, loss=watched, on_step=stop_after(2 if fails else 9))
    assert seen == {True}
    assert [module.training for module in model] == [True, True, False, True]
    assert torch.equal(torch.get_rng_state(), state)


def test_each_process_and_each_step_has_a_dropout_of_its_own(monkeypatch):
    drawn = []
    draw = lambda *_: drawn.append(torch.rand(1).item()) or torch.zeros(())  # noqa: E731
    monkeypatch.setattr("attn_train.loop.backward", draw)
    for rank in (0, 1):
        state = State(nn.Linear(3, 2), SETTINGS)
        state.rank, state.world_size = rank, 2
        with training.loop.training(state.model, 0):
            state.update(None, [], 0.1)
            state.update(None, [], 0.1)
    assert len({*drawn}) == 4


@BOTH
def test_a_batch_moves_to_the_device_of_the_model(fit):
    class Traveller:
        def to(self, device):
            return torch.ones(8, 3) if device == torch.device("cpu") else None

    assert len(fit(a_model(), lambda _: Traveller(), loss, steps=1)) == 1


# Stopped and resumed


@pytest.fixture(scope="module")
def uninterrupted():
    model = a_model()
    return train(model, seed=3), bits(model)


@example(stops=[5, 9], every=2)  # resumed in the middle, twice
@settings(max_examples=8)
@given(stops=st.lists(st.integers(1, STEPS), max_size=3), every=st.integers(1, STEPS + 3))
def test_stopped_anywhere_and_resumed_it_is_the_same(tmp_path_factory, uninterrupted, stops, every):
    path = tmp_path_factory.mktemp("resumed") / "c.pt"
    keywords = {"seed": 3, "checkpoint": path, "checkpoint_every": every}
    for n, stop in enumerate(stops):
        torch.manual_seed(n)  # what the new process has done before
        with suppress(Stopped):  # or it had ended before
            train(a_model(n), on_step=stop_after(stop), **keywords)
    model = a_model()
    losses = train(model, **keywords)
    assert (losses, equal(bits(model), uninterrupted[1])) == (uninterrupted[0], True)
    assert train(a_model(), 3, seed=4) != losses[:3]
    assert names(path.parent) == {"c.pt"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seed": 4}, "must have seed 4, got 3"),
        ({"precision": "bfloat16"}, "must have precision bfloat16, got float32"),
        ({"steps": 4}, "must have at most 4 steps, got 5"),
        ({"model": nn.Linear(3, 2)}, "c.pt: model: 0.bias is an unexpected entry"),
        ({"model": a_model().append(nn.PReLU())}, "c.pt: model: 4.weight is missing"),
    ],
)
def test_the_checkpoint_of_another_training_is_refused(tmp_path, change, words):
    path = tmp_path / "c.pt"
    same = {"model": a_model(), "steps": 5, "seed": 3, "checkpoint": path}
    train(**same)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=re.escape(words)):
        train(**same | {"steps": 6} | change)
    assert path.read_bytes() == before


def test_a_checkpoint_that_cannot_be_written_is_known_before_the_first_step(tmp_path):
    with pytest.raises(OSError, match="cannot write"):
        fit(a_model(), None, loss, steps=1, checkpoint=tmp_path / "missing" / "c.pt")


# What is not finite


def test_a_loss_that_is_not_finite_stops_before_the_weights_take_it_over(tmp_path):
    model, path, numbers = a_model(), tmp_path / "c.pt", itertools.count()
    poisoned = lambda *given: loss(*given) * (math.nan if next(numbers) == 4 else 1)  # noqa: E731
    with pytest.raises(FloatingPointError, match="loss nan and a gradient of norm nan in step 4"):
        train(model, 9, loss=poisoned, checkpoint=path, checkpoint_every=1)
    assert all(tensor.isfinite().all() for tensor in bits(model).values())
    assert len(load_checkpoint(path)["losses"]) == 4


@BOTH
def test_a_gradient_that_is_not_finite_counts_too(fit):
    model = nn.Linear(3, 2)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    with pytest.raises(FloatingPointError, match=r"loss 0.0 and a gradient of norm \w+ in step 0"):
        train(model, 3, fit=fit, loss=lambda model, x: model(x).square().sum().sqrt())
    assert model.weight.eq(0).all()


# Several batches in one step

WORDS = Vocabulary([str(n) for n in range(9)])


def of_words(rows: slice) -> object:
    """Pairs whose targets differ in length, and with them how many tokens a part holds."""
    targets = [tuple("1234567"[:n]) for n in (1, 7, 2, 2, 5, 1)]
    return make_batch([(("1", "2"), target) for target in targets[rows]], WORDS, WORDS)


def a_translator() -> Seq2Seq:
    torch.manual_seed(0)
    decoder = AttentionDecoder(len(WORDS), 4, 6, 5, score=AdditiveScore(6, 5, 3))
    return Seq2Seq(RNNEncoder(len(WORDS), 4, 5), decoder).double()


def test_accumulated_batches_give_what_the_larger_batch_gives_however_uneven():
    cuts = [slice(0, 1), slice(1, 2), slice(2, 6)]
    one, other = a_translator(), a_translator()
    expected = fit(one, lambda n: of_words(slice(None)), steps=8, lr=0.05)
    asked = []
    draw = lambda n: asked.append(n) or of_words(cuts[n % 3])  # noqa: E731
    found = fit(other, draw, steps=8, lr=0.05, accumulate=3)
    assert asked == list(range(24))
    assert found == pytest.approx(expected, rel=1e-9)
    torch.testing.assert_close(one.state_dict(), other.state_dict())


def part_of_a_batch(n: int) -> torch.Tensor:
    """A third of a batch, of 1, 2 or 5 rows."""
    first, end = ((0, 1), (1, 3), (3, 8))[n % 3]
    return batches(n // 3)[first:end].double()


@pytest.mark.parametrize("as_count", [int, float, torch.tensor])
def test_a_batch_counts_as_its_loss_says(as_count):
    weighted = lambda model, x: (loss(model, x), as_count(len(x)))  # noqa: E731
    one = nn.Linear(3, 2).double()
    other = copy.deepcopy(one)
    how = {"steps": 5, "lr": 0.1}
    expected = fit(one, lambda n: batches(n).double(), loss, **how)
    found = fit(other, part_of_a_batch, weighted, accumulate=3, **how)
    assert found == pytest.approx(expected, rel=1e-12)
    torch.testing.assert_close(one.state_dict(), other.state_dict())


def test_a_batch_counts_once_where_its_loss_does_not_say():
    model = nn.Linear(3, 2).double()
    parts = [loss(model, part_of_a_batch(n)).item() for n in range(3)]
    found = fit(model, part_of_a_batch, loss, accumulate=3, steps=1)
    assert found == pytest.approx([sum(parts) / 3], rel=1e-12)


def test_counts_are_added_in_single_precision():
    counts = [1001, 3]  # whose sum bfloat16 has not
    model = nn.Linear(3, 2).bfloat16()
    value = lambda n: torch.tensor(float(n), dtype=torch.bfloat16)  # noqa: E731
    weighted = lambda model, n: (0 * model.weight.sum() + value(n + 1), counts[n])  # noqa: E731
    found = fit(model, torch.tensor, weighted, accumulate=2, steps=1)
    assert found == pytest.approx([(1001 + 2 * 3) / 1004], rel=1e-6)


class Turns(nn.Module):
    """Two layers, of which each step trains one."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 2), nn.Linear(3, 2)])

    def forward(self, x):
        return self.layers[int(x[0, 0] > 0)](x)


def test_layers_that_take_turns_are_resumed(tmp_path):
    torch.manual_seed(0)
    one = Turns()
    other, turns = copy.deepcopy(one), lambda n: torch.full((4, 3), 1.0 if n % 2 else -1.0)
    expected = fit(one, turns, loss, steps=5)
    fit(other, turns, loss, steps=3, checkpoint=tmp_path / "c.pt")
    assert fit(other, turns, loss, steps=5, checkpoint=tmp_path / "c.pt") == expected
    assert equal(bits(one), bits(other))


# The best weights


def test_at_the_end_the_model_has_the_weights_of_the_lowest_held_out_loss(tmp_path):
    figures, seen = iter([3.0, 1.0, 2.0, 5.0]), []
    model = a_model()

    def validate() -> float:
        assert not model.training
        assert not torch.is_grad_enabled()
        seen.append(bits(model))
        return next(figures)

    keywords = {"checkpoint": tmp_path / "c.pt", "checkpoint_every": 3, "seed": 3}
    losses = train(model, 9, validate=validate, **keywords)
    assert len(seen) == 3
    assert equal(bits(model), seen[1])
    # A longer training goes on from the last weights, and remembers the best.
    assert losses == train(a_model(), 9, seed=3)
    more = train(model, 12, validate=validate, **keywords)
    assert more == train(a_model(), 12, seed=3)
    assert equal(bits(model), seen[1])


# Precision and compiling


def test_in_bfloat16_products_are_computed_in_it_and_weights_kept_in_32_bits(tmp_path):
    model, seen = a_model(), []
    model[3].register_forward_hook(lambda *given: seen.append(given[2].dtype))
    plain = train(a_model(), seed=3)
    keywords = {"seed": 3, "precision": "bfloat16"}
    expected = train(model, **keywords)
    assert {*seen} == {torch.bfloat16}
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert expected != plain
    assert expected == pytest.approx(plain, rel=0.05)
    train(a_model(), 5, checkpoint=tmp_path / "c.pt", **keywords)
    other = a_model(9)
    assert train(other, checkpoint=tmp_path / "c.pt", **keywords) == expected
    assert equal(bits(other), bits(model))


@pytest.mark.slow
def test_a_compiled_model_is_trained_to_the_same(monkeypatch, tmp_path):
    """As it is traced, and run as it was: to make kernels takes a compiler, and a minute."""
    asked, compiler = [], torch.compile
    monkeypatch.setattr(
        torch, "compile", lambda model: asked.append(model) or compiler(model, backend="eager")
    )
    plain, model = (a_model(dropout=0.0) for _ in range(2))
    losses = train(model, 4, compile=True, checkpoint=tmp_path / "c.pt")
    assert asked == [model]
    assert losses == pytest.approx(train(plain, 4), rel=1e-5)
    assert load_checkpoint(tmp_path / "c.pt")["model"].keys() == model.state_dict().keys()
    torch._dynamo.reset()


# The bar


@pytest.mark.parametrize(
    ("is_terminal", "asked", "is_shown"),
    [(True, "1", True), (False, "1", False), (True, "0", False)],
)
def test_a_bar_is_shown_where_somebody_watches_and_wants_it(
    monkeypatch, is_terminal, asked, is_shown
):
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: is_terminal)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    monkeypatch.setenv("ATTN_NOTES_PROGRESS", asked)
    train(a_model(), 3)
    assert bool(re.search(r"3/3.*loss \d\.\d{3}", stream.getvalue())) == is_shown


# Schedules

SPANS = st.integers(0, 20).flatmap(
    lambda warmup: st.tuples(st.just(warmup), st.integers(warmup + 1, warmup + 40))
)


@pytest.mark.parametrize("decay", [schedules.linear_decay, schedules.cosine_decay])
@settings(max_examples=20)
@given(steps=SPANS)
def test_it_rises_evenly_reaches_one_and_falls_to_zero(decay, steps):
    warmup, total = steps
    factors = [decay(warmup, total)(step) for step in range(total + 3)]
    assert all(0 <= factor <= 1 for factor in factors)
    assert all(factor > 0 for factor in factors[:total])
    assert factors[total:] == [0, 0, 0]
    assert factors[: warmup + 1] == pytest.approx(
        [min(1, (step + 1) / max(1, warmup)) for step in range(warmup + 1)]
    )
    assert all(a > b for a, b in itertools.pairwise(factors[warmup : total + 1]))


@given(embed_dim=st.integers(1, 512), warmup=st.integers(1, 4000), step=st.integers(0, 10**6))
def test_noam_is_equation_3_of_the_paper(embed_dim, warmup, step):
    n = step + 1  # the paper counts from 1
    rate = embed_dim**-0.5 * min(n**-0.5, n * warmup**-1.5)
    assert schedules.noam(embed_dim, warmup)(step) == pytest.approx(rate, rel=1e-12)
    peak = (embed_dim * warmup) ** -0.5  # the others have theirs at 1
    shape = schedules.inverse_sqrt(warmup)(step)
    assert shape == pytest.approx(rate / peak)
    assert schedules.inverse_sqrt(0)(step) == pytest.approx(n**-0.5)
    assert schedules.constant(warmup)(step) == pytest.approx(min(1, n / warmup))
