"""The memory that is written, and what a cache costs: what the widgets hold in Python."""

import itertools
import math
from functools import cache

import pytest
import torch
import traitlets
from torch.nn import functional as F
from torch.testing import assert_close

from attn_notes.linear import delta_recurrence, elu_plus_one, linear_attention, linear_recurrence
from attn_notes.masks import masked_softmax
from attn_widgets import CacheBudget, WrittenMemory
from attn_widgets.budget import METHODS, in_bytes, measure_errors
from attn_widgets.memory import FEATURES, default_pairs
from tests.oracles import rng

SETTINGS = list(itertools.product(FEATURES, (0.0, 0.25), (False, True), (False, True)))
every_setting = pytest.mark.parametrize(("features", "forget", "erase", "rewrite"), SETTINGS)


def memory_of(seed: int = 3, **traits: object) -> WrittenMemory:
    """Seven keys of five numbers, values of three; every axis differs."""
    keys, values = (torch.randn(7, n, generator=rng(seed + n)) for n in (5, 3))
    widget = WrittenMemory(keys, values, again=[0.5, -1.0, 2.0], tokens=[*"abcdefg"], sharpness=3)
    for name, value in {"count": 6, "step": 4, "query": 1.25, **traits}.items():
        setattr(widget, name, value)
    return widget


def pairs_of(widget: WrittenMemory) -> tuple[torch.Tensor, torch.Tensor]:
    """What is written up to the step on show."""
    keys, values, again = (
        torch.tensor(widget.data[name], dtype=torch.float64) for name in ("keys", "values", "again")
    )
    if widget.rewrite:
        n = widget.count
        keys, values = torch.cat([keys[:n], keys[:1]]), torch.cat([values[:n], again[None]])
    seen = min(widget.step + 1, widget.count + widget.rewrite)
    return keys[:seen], values[:seen]


def features_of(widget: WrittenMemory, keys: torch.Tensor) -> torch.Tensor:
    if widget.features == "identity":
        return keys
    found = elu_plus_one(math.sqrt(widget.data["sharpness"]) * keys)
    return F.normalize(found, dim=-1) if widget.erase else found


def read_by_the_package(widget: WrittenMemory, query: torch.Tensor) -> torch.Tensor:
    """(Dv,): by the recurrences of chapter 13."""
    keys, values = pairs_of(widget)
    k, q = features_of(widget, keys), features_of(widget, query[None]).expand(len(keys), -1)
    gate = torch.full((len(keys),), 1 - widget.forget, dtype=torch.float64)
    if widget.erase:
        return delta_recurrence(q, k, values, torch.ones_like(gate), gate=gate)[0][-1]
    if widget.features == "identity":
        return linear_recurrence(q, k, values, gate=gate)[0][-1]
    ones = torch.ones(len(keys), 1, dtype=torch.float64)
    sums = linear_recurrence(q, k, torch.cat([values, ones], -1), gate=gate)[0][-1]
    return sums[:-1] / sums[-1]


@every_setting
@pytest.mark.parametrize("step", [0, 4, 6])
def test_what_is_read_is_what_the_package_s_recurrences_give(
    features, forget, erase, rewrite, step
):
    widget = memory_of(features=features, forget=forget, erase=erase, rewrite=rewrite, step=step)
    shown, (keys, values) = widget.shown(), pairs_of(widget)
    tensors = torch.tensor(widget.data["keys"], dtype=torch.float64)
    query = F.normalize(torch.lerp(tensors[1], tensors[2], 0.25), dim=0)
    assert_close(shown.answer, read_by_the_package(widget, query))
    weights = masked_softmax(3.0 * (keys @ query))
    assert_close(shown.softmax, weights @ values)
    assert_close(shown.states.shape, torch.Size([6 + rewrite, 5, 3]))
    for n, error in enumerate(shown.errors):
        if n >= len(keys):
            assert error.isnan()
            continue
        wanted = values[-1] if n == 0 and len(keys) == 7 else values[n]
        off = (read_by_the_package(widget, keys[n]) - wanted).norm() / wanted.norm()
        assert_close(error, off)


def test_without_forgetting_the_answer_is_linear_attention_s():
    widget = memory_of(features="elu", query=2.0)
    keys, values = pairs_of(widget)
    scale = math.sqrt(3.0)
    answer, _ = linear_attention(scale * keys[2:3], scale * keys, values)
    assert_close(widget.shown().answer, answer[0], rtol=0, atol=1e-4)  # of a rounded key


def test_the_default_keys_are_two_bases_of_equal_overlap():
    keys, values, again = default_pairs()
    eye = torch.eye(8, dtype=torch.float64)
    for basis in (keys[:8], keys[8:]):
        assert_close(basis @ basis.T, eye)
    assert_close((keys[:8] @ keys[8:].T).abs(), torch.full_like(eye, 1 / math.sqrt(8)))
    assert_close(torch.cat([values, again[None]]).norm(dim=-1), torch.ones(17).double())


def test_it_opens_before_the_memory_is_full_and_what_comes_next_blurs_it():
    widget = WrittenMemory()
    assert (widget.count, widget.step) == (16, 7)
    assert bool((widget.shown().errors[:8] < 1e-3).all())
    widget.step += 1
    assert bool((widget.shown().errors[:8] > 0.3).all())


@pytest.mark.parametrize("count", [8, 9, 12, 16])
def test_recall_is_exact_up_to_as_many_keys_as_a_key_has_numbers(count):
    widget = WrittenMemory()
    widget.count, widget.step = count, count - 1
    plain = widget.shown().errors
    widget.erase = True
    erased = widget.shown().errors
    if count == 8:
        assert bool((plain < 1e-3).all())
        assert bool((erased < 1e-3).all())
    else:  # sums blur them all; the delta rule keeps the latest eight, and loses the others
        assert bool((plain > 0.3).all())
        assert bool((erased[8:] < 1e-3).all())
        assert bool((erased[:8] > 0.3).all())


def test_only_the_delta_rule_replaces_the_value_of_a_key():
    widget = WrittenMemory()
    widget.count, widget.rewrite, widget.step = 8, True, 8
    first, again = (torch.tensor(x) for x in (widget.data["values"][0], widget.data["again"]))
    both = (first + again).double()
    assert_close(widget.shown().answer, both, rtol=0, atol=1e-3)
    assert_close(widget.shown().softmax, both / 2, rtol=0, atol=5e-3)
    widget.erase = True
    assert_close(widget.shown().answer, again.double(), rtol=0, atol=1e-3)


def test_the_words_name_the_settings_and_the_table_is_the_state():
    widget = memory_of(features="elu", forget=0.25, erase=True, rewrite=True)
    said = "elu + 1 as features, 0.25 forgotten at each write, erased first"
    start = f"WrittenMemory(5 of 7 pairs in 15 numbers, {said}, first key written again: key 2.25 "
    assert repr(widget).startswith(start)
    _, columns, rows = widget._table()
    assert columns == ["1", "2", "3"]
    state = torch.tensor([[float(cell) for cell in row[1:]] for row in rows])
    assert_close(state.double(), widget.shown().states[4], rtol=0, atol=6e-4)
    assert repr(WrittenMemory()).endswith("key 1 is read with error 0.000, softmax 0.002)")


def test_a_place_beyond_the_last_key_is_the_last_one_and_the_nearest_key_is_wanted():
    widget = memory_of(count=3, query=6.0, step=9)
    values = torch.tensor(widget.data["values"], dtype=torch.float64)
    assert_close(widget.shown().wanted, values[2])
    for place, nearest in ((0.25, 0), (0.5, 1), (1.75, 2)):
        widget.query = place
        assert_close(widget.shown().wanted, values[nearest])
    with pytest.raises(traitlets.TraitError, match="count must be from 1 to 7, got 8"):
        widget.count = 8


EYE = torch.eye(3)
GAP = torch.tensor([[1.0, 2.0, 0.0], [0.0, 0.0, 0.0]])
WRONG = {
    "keys and values must be given together": lambda: WrittenMemory(EYE),
    r"keys and values must be .*got \(3, 3\) and \(2, 3\)": lambda: WrittenMemory(EYE, EYE[:2]),
    "at most 24 keys": lambda: WrittenMemory(torch.ones(25, 2), torch.ones(25, 2)),
    "keys must not be 0, got key 1": lambda: WrittenMemory(GAP, EYE[:2]),
    "again must be one value of 3": lambda: WrittenMemory(EYE, EYE, again=[1.0]),
    "sharpness must be above 0": lambda: WrittenMemory(sharpness=0),
    "keys must be finite": lambda: WrittenMemory(EYE * math.nan, EYE),
    "tokens must be 3": lambda: WrittenMemory(EYE, EYE, tokens=["a"]),
}


@pytest.mark.parametrize("words", WRONG)
def test_what_cannot_be_shown_is_refused_in_words(words):
    with pytest.raises(ValueError, match=words):
        WRONG[words]()


# The budget of a cache

KINDS = {"kv_heads": (1, 2, 4), "latents": (3, 8, 20), "windows": (2, 5, 13), "bits": (2, 8)}


def heads_of(seed: int = 5, L: int = 13) -> list[torch.Tensor]:
    """Queries, keys and values of four heads of three numbers, values of two, in double."""
    shared = torch.randn(4, 1, L, 3, generator=rng(seed + 9), dtype=torch.float64)
    shapes = ((4, 4, L, 3), (4, 4, L, 3), (4, 4, L, 2))
    q, k, v = (
        torch.randn(shape, generator=rng(seed + n), dtype=torch.float64)
        for n, shape in enumerate(shapes)
    )
    return [q, k + shared, v + shared[..., :2]]


@cache
def budget_errors() -> dict[str, dict[int, float]]:
    return measure_errors(*heads_of(), **KINDS, group=4)


def budget_of(**traits: object) -> CacheBudget:
    errors = budget_errors()
    given = {"num_layers": 3, "group": 4, "num_tokens": 13, "measured": "four heads"}
    widget = CacheBudget(errors, num_heads=4, head_dim=3, **given)
    for name, value in traits.items():
        setattr(widget, name, value)
    return widget


def attended(q, k, v, window: int = 99) -> torch.Tensor:
    """Causal heads, query by query."""
    output = torch.zeros(*q.shape[:-1], v.shape[-1], dtype=torch.float64)
    for i in range(q.shape[2]):
        seen = slice(max(0, i - window + 1), i + 1)
        scores = (q[:, :, i, None] * k[:, :, seen]).sum(-1) / math.sqrt(q.shape[-1])
        output[:, :, i] = (scores.softmax(-1)[..., None] * v[:, :, seen]).sum(-2)
    return output


def in_levels(numbers: list[float], bits: int) -> list[float]:
    """The nearest of the levels from the least to the greatest of these numbers."""
    low, high = min(numbers), max(numbers)
    levels = [low + n * (high - low) / (2**bits - 1) for n in range(2**bits)]
    return [min(levels, key=lambda level: abs(level - x)) for x in numbers]


def halves() -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Of the heads' batch the first half and the second."""
    heads = heads_of()
    return [x[:2] for x in heads], [x[2:] for x in heads]


def off(output: torch.Tensor) -> float:
    exact = attended(*halves()[1])
    return float((output - exact).norm() / exact.norm())


@pytest.mark.parametrize("G", KINDS["kv_heads"])
def test_heads_that_share_a_key_use_the_mean_of_their_keys_and_values(G):
    q, k, v = halves()[1]
    for x in (k, v):
        for first in range(0, 4, 4 // G):
            group = slice(first, first + 4 // G)
            x[:, group] = x[:, group].mean(1, keepdim=True)
    assert budget_errors()["grouped"][G] == pytest.approx(off(attended(q, k, v)), abs=1e-12)


@pytest.mark.parametrize("W", KINDS["windows"])
def test_a_window_drops_what_is_older(W):
    output = attended(*halves()[1], window=W)
    assert budget_errors()["window"][W] == pytest.approx(off(output), abs=1e-12)


@pytest.mark.parametrize("C", KINDS["latents"])
def test_latents_are_fitted_to_the_first_half_of_the_batch_and_measured_on_the_second(C):
    (_, k0, v0), (q, k, v) = halves()
    fitted, rows = (
        torch.cat([x.transpose(1, 2).flatten(2).flatten(0, 1) for x in pair], -1)
        for pair in ((k0, v0), (k, v))
    )
    _, directions = torch.linalg.eigh(fitted.T @ fitted)  # the greatest last
    again = (rows @ directions[:, -C:] @ directions[:, -C:].T).unflatten(0, (2, 13))
    k, v = (x.unflatten(-1, (4, -1)).transpose(1, 2) for x in again.split([12, 8], dim=-1))
    assert budget_errors()["latent"][C] == pytest.approx(off(attended(q, k, v)), abs=1e-9)


@pytest.mark.parametrize("b", KINDS["bits"])
def test_keys_are_rounded_in_groups_of_tokens_and_values_in_groups_of_their_own_numbers(b):
    q, k, v = halves()[1]
    for first, batch, h, c in itertools.product(range(0, 13, 4), *map(range, (2, 4, 3))):
        piece = k[batch, h, first : first + 4, c]
        piece.copy_(torch.tensor(in_levels(piece.tolist(), b)))
    for batch, h, j in itertools.product(*map(range, (2, 4, 13))):
        v[batch, h, j] = torch.tensor(in_levels(v[batch, h, j].tolist(), b))
    assert budget_errors()["bits"][b] == pytest.approx(off(attended(q, k, v)), abs=1e-6)


def test_what_keeps_everything_is_off_by_nothing():
    errors = budget_errors()
    for method, setting in (("grouped", 4), ("latent", 20), ("window", 13)):
        assert errors[method][setting] < 1e-9
    for method, each in errors.items():
        assert list(each.values()) == sorted(each.values(), reverse=True), method


def test_the_bytes_are_counted_by_hand():
    budget = budget_of(kv_heads=2, latent=8, window=5, bits=8, length=1024)
    per_token, total, error = budget.shown()
    assert METHODS == ("full", "grouped", "single", "latent", "window", "bits")
    # Keys and values of 4, 2 and 1 heads of 3 numbers, and 8 numbers; two bytes each. A number of
    # 8 bits in a group of 4 comes with a quarter of 32. Of the 13 tokens that were measured the
    # window keeps 5, and of a longer text no more than these.
    expected = [48.0, 24.0, 12.0, 16.0, 48.0, 24 * (8 + 8) / 8]
    assert per_token.tolist() == [*expected[:4], pytest.approx(48 * 5 / 13), expected[5]]
    tokens = [1024] * 4 + [5, 1024]
    assert total.tolist() == [3 * x * n for x, n in zip(expected, tokens, strict=True)]
    budget.length = 2**20
    assert budget.shown().per_token.tolist() == per_token.tolist()  # those of the errors
    budget.window = 13
    assert budget.shown().per_token[4] == 48.0  # a window of the whole text
    rows = {name: dict(each) for name, each in budget.data["errors"].items()}
    chosen = [0.0, rows["grouped"][2], rows["grouped"][1], rows["latent"][8]]
    assert error.tolist() == [*chosen, rows["window"][5], rows["bits"][8]]


def test_a_larger_model_keeps_the_same_shares_and_one_key_for_more_heads_was_not_measured():
    budget = budget_of(kv_heads=2, latent=8, num_heads=8, head_dim=64, num_layers=2)
    assert [budget.setting(name) for name in METHODS[:4]] == [8, 4, 1, round(8 * 8 * 64 / 12)]
    per_token, _, error = budget.shown()
    assert per_token[:4].tolist() == [2048.0, 1024.0, 256.0, 682.0]
    assert error.isnan().tolist() == [name == "single" for name in METHODS]
    assert "single 1: 256 bytes a token and layer, not measured" in repr(
        budget_of(method="single", num_heads=8, head_dim=64)
    )


def test_the_words_of_the_budget_and_its_table():
    budget = budget_of(method="window", window=5, length=2**20)
    error = dict(budget.data["errors"]["window"])[5]
    assert repr(budget) == (
        f"CacheBudget(window 5: 18.4615 bytes a token and layer, error {error:.3f}; "
        "720 bytes in all)"
    )
    caption, columns, rows = budget._table()
    assert caption == (
        "The cache of 1048576 tokens in 3 layers; bytes a token and errors of four heads on texts "
        "of 13 tokens, nothing trained anew."
    )
    assert [row[0] for row in rows] == list(METHODS)
    assert rows[0] == ["full", "4", "48", "144 MiB", "0.000"]
    assert len(columns) == len(rows[0]) - 1


@pytest.mark.parametrize(
    ("size", "words"),
    [(0, "0 bytes"), (999, "999 bytes"), (1000, "0.977 KiB"), (1536, "1.5 KiB"),
     (2**20, "1 MiB"), (2.125 * 2**20, "2.13 MiB"), (12.5 * 2**30, "12.5 GiB")],
)  # fmt: skip
def test_bytes_are_written_with_three_digits(size, words):
    assert in_bytes(size) == words


ERRORS = {"grouped": {1: 0.5, 2: 0.2}, "latent": {4: 0.1}, "window": {8: 0.1}, "bits": {4: 0.1}}
REFUSED = {
    "errors must have .*got none of latent": lambda: made({**ERRORS, "latent": {}}),
    r"must divide num_heads, got .* = 3 and num_heads = 4": lambda: made(grouped={1: 1.0, 3: 0.5}),
    r"\['grouped'\] must have 1": lambda: made(grouped={2: 0.1}),
    "finite and not negative, got -1.0 of bits 4": lambda: made(bits={4: -1.0}),
    "finite and not negative, got nan of window 8": lambda: made(window={8: math.nan}),
    "whole numbers from 1 to 4096, got 8.5": lambda: made(window={8.5: 0.1}),
    "whole numbers from 1 to 4096, got 0": lambda: made(window={0: 0.1}),
    "at most 512, got 4 and 513": lambda: made(head_dim=513),
    "num_tokens must be at most 1048576, got 1048577": lambda: made(num_tokens=2**20 + 1),
    "at least 2 sequences, got 1": lambda: measure_errors(*(x[:1] for x in heads_of()), **KINDS),
    "kv_heads must divide H": lambda: measure_errors(*heads_of(), **{**KINDS, "kv_heads": [3]}),
    "latents must be from 1 to 20": lambda: measure_errors(
        *heads_of(), **{**KINDS, "latents": [21]}
    ),
    "bits must be from 1 to 16": lambda: measure_errors(*heads_of(), **{**KINDS, "bits": [0]}),
}


def made(
    errors: dict | None = None, *, head_dim: int = 8, num_tokens: int = 16, **others: dict
) -> CacheBudget:
    errors = {**(errors or ERRORS), **others}
    return CacheBudget(errors, num_heads=4, head_dim=head_dim, num_tokens=num_tokens)


@pytest.mark.parametrize("words", REFUSED)
def test_a_budget_that_cannot_be_is_refused_in_words(words):
    with pytest.raises(ValueError, match=words):
        REFUSED[words]()


def test_a_setting_that_was_not_measured_is_refused():
    for name, value in (("kv_heads", 3), ("window", 4), ("length", 1000), ("num_heads", 5)):
        with pytest.raises(traitlets.TraitError, match=f"{name} must be one of"):
            setattr(budget_of(), name, value)
