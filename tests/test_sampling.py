"""Sampling, against the definition, the reference library, and the frequencies of its draws."""

import math
from functools import partial

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from attn_notes.data import END, PAD, START, SpecialTokens
from attn_notes.decoding import beam_search, greedy, sample, sampling_distribution
from attn_notes.decoding.sampling import _at_quantile
from tests.oracles import INF, every_precision, rng
from tests.test_decoding import SOURCES, Table, assert_well_formed


def by_definition(logits, temperature=1.0, top_k=None, top_p=None):
    """One row, entry by entry; and how near a sum came to `top_p`, where rounding decides."""
    best = max(logits)
    odds = [math.exp((x - best) / temperature) for x in logits]
    ranking = sorted(range(len(odds)), key=lambda n: (-logits[n], n))
    if top_k is not None:
        ranking = ranking[:top_k]
    nearest = INF
    if top_p is not None:
        total, mass, nucleus = math.fsum(odds[n] for n in ranking), 0.0, []
        for n in ranking:
            nucleus.append(n)
            mass += odds[n] / total
            nearest = min(nearest, abs(mass - top_p))
            if mass >= top_p:
                break
        ranking = nucleus
    total = math.fsum(odds[n] for n in ranking)
    return [odds[n] / total if n in ranking else 0.0 for n in range(len(odds))], nearest


LOGITS = st.lists(  # integers, so that many are equal, and tokens that are never drawn
    st.one_of(st.integers(-4, 4).map(float), st.floats(-9, 9), st.just(-INF)),
    min_size=1,
    max_size=9,
).filter(lambda row: max(row) > -INF)
CHOICES = {
    "temperature": st.floats(0.05, 20),
    "top_k": st.none() | st.integers(1, 12),
    "top_p": st.none() | st.floats(0.001, 1),
}


# The distribution


@settings(max_examples=5 * settings().max_examples)
@given(logits=LOGITS, **CHOICES)
def test_the_distribution_equals_its_definition(logits, temperature, top_k, top_p):
    expected, nearest = by_definition(logits, temperature, top_k, top_p)
    assume(nearest > 1e-9)
    choices = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    got = sampling_distribution(torch.tensor(logits, dtype=torch.float64), **choices)
    torch.testing.assert_close(got, torch.tensor(expected, dtype=torch.float64))
    assert (got == 0).tolist() == [p == 0 for p in expected]


@pytest.mark.parametrize(
    ("top_p", "kept"),
    [(0.5, [0]), (0.5001, [0, 1]), (0.75, [0, 1]), (0.7501, [0, 1, 2]), (1e-30, [0])],
)
def test_the_nucleus_ends_where_its_share_is_reached(top_p, kept):
    found = sampling_distribution(torch.tensor([0.5, 0.25, 0.25]).log(), top_p=top_p)
    assert found.nonzero()[:, 0].tolist() == kept
    # Of a nucleus of one, a share that is lost to rounding when it is added to the others:
    found = sampling_distribution(torch.tensor([0.0, -60.0, -80.0, -INF]), top_p=1.0)
    assert (found > 0).tolist() == [True, True, True, False]


def test_ties_are_broken_in_favour_of_the_lower_id():
    for size, kept in ((7, 3), (5000, 1234)):  # many are sorted by another algorithm
        found = sampling_distribution(torch.zeros(size), top_k=kept)
        assert (found > 0).tolist() == [True] * kept + [False] * (size - kept)


def test_the_best_tokens_are_kept_where_rounding_makes_all_probabilities_equal():
    logits = torch.tensor([1.0, 2.0, 4.0, 3.0])
    found = sampling_distribution(logits, temperature=1e30, top_k=2)
    assert found.tolist() == [0, 0, 0.5, 0.5]


@every_precision
@pytest.mark.parametrize("temperature", [5e-324, 1e-320, 1e-30, 1.0, 1e30, 1e308])
def test_every_temperature_gives_a_distribution(temperature, dtype):
    logits = torch.tensor([[2.0, 1.0, -INF], [-INF, 6e4, 6e4]]).to(dtype)
    found = sampling_distribution(logits, temperature=temperature, top_k=3, top_p=1.0)
    assert found.dtype == torch.promote_types(dtype, torch.float32)
    torch.testing.assert_close(found.sum(-1), torch.ones(2, dtype=found.dtype))
    assert bool((found[logits == -INF] == 0).all())
    torch.testing.assert_close(found[1].double(), torch.tensor([0, 0.5, 0.5]).double())
    if temperature != 1:
        cold = torch.tensor([1.0, 0, 0] if temperature < 1 else [0.5, 0.5, 0])
        torch.testing.assert_close(found[0].double(), cold.double())


# Draws


class Chain(nn.Module):
    """The next token depends on the last alone; the first follows the prompt's last."""

    def start(self, source, lengths=None):
        return self.step(source[:, -1], self)

    def select(self, index):
        return self

    def step(self, tokens, state):
        return self.table[tokens], state


class Markov(Chain):
    def __init__(self, words=9, seed=0):
        super().__init__()
        self.table = 2 * torch.randn(words, words, generator=rng(seed))


def barred(logits: Tensor) -> Tensor:
    logits = logits.clone()
    logits[..., [PAD, START]] = -INF
    return logits


def prompts(rows: int, token: int = 4) -> Tensor:
    return torch.full((rows, 1), token)


MANY = [
    *({}, {"temperature": 0.5}, {"temperature": 3.0}, {"top_k": 3}, {"top_p": 0.8}),
    {"temperature": 1.7, "top_k": 6, "top_p": 0.9},
]


@pytest.mark.parametrize("choices", MANY, ids=str)
def test_a_number_for_each_row_and_step_selects_the_first_token_whose_sum_exceeds_it(choices):
    model, prompt, generator = Markov(), prompts(999), rng(1)
    found = sample(model, prompt, max_length=3, generator=rng(1), **choices).tokens
    sums = sampling_distribution(barred(model.table), **choices).cumsum(-1)
    last = prompt[:, 0]
    for tokens in found.unbind(1):
        drawn = (sums[last] > torch.rand(999, 1, generator=generator)).byte().argmax(-1)
        last = drawn.masked_fill((last == END) | (last == PAD), PAD)
        assert tokens.equal(last)


@pytest.mark.parametrize(
    ("uniform", "probabilities", "token"),
    [
        (0.0, [0.0, 0.0, 0.5, 0.5], 2),  # not 0, whose probability is 0
        (0.4999, [0.0, 0.0, 0.5, 0.5], 2),
        (0.5, [0.0, 0.0, 0.5, 0.5], 3),
        (1 - 2**-24, [0.25, 0.75, 0.0, 0.0], 1),  # the largest that `torch.rand` gives
        (1 - 2**-24, [0.3, 0.3, 0.3999, 0.0], 2),  # a sum below 1
        (1 - 2**-24, [0.3, 0.3, 0.4001, 0.0], 2),  # and above it
        (0.0, [0.0, 0.0, 0.0, 1.0], 3),
    ],
)
def test_a_uniform_number_selects_the_token_whose_sum_exceeds_it(uniform, probabilities, token):
    found = _at_quantile(torch.tensor([probabilities]), torch.tensor([[uniform]]))
    assert found.tolist() == [token]


def test_a_sum_that_grows_by_rounding_selects_no_token_of_probability_0(monkeypatch):
    """Partial sums that are computed in parallel, as on a GPU, are rounded separately."""
    sums = torch.tensor([[0.5, 0.5001, 1.0, 1.0001]])
    monkeypatch.setattr(Tensor, "cumsum", lambda probabilities, dim: sums)
    probabilities = torch.tensor([[0.5, 0.0, 0.5, 0.0]])
    for uniform in (0.50005, 1 - 2**-24):
        assert _at_quantile(probabilities, torch.tensor([[uniform]])).tolist() == [2]


@settings(max_examples=30)
@given(seed=st.integers(0, 999), longest=st.integers(1, 9), **CHOICES)
def test_samples_are_well_formed_and_rated_by_the_model_itself(seed, longest, **choices):
    model = Table(seed)
    found = sample(model, *SOURCES, max_length=longest, generator=rng(seed), **choices)
    assert_well_formed(found, model, longest)


@pytest.mark.parametrize("certain", [{"top_k": 1}, {"top_p": 1e-9}, {"temperature": 1e-9}], ids=str)
@pytest.mark.parametrize("seed", range(5))
def test_a_distribution_of_one_token_gives_greedy_decoding(certain, seed):
    found = sample(Table(seed), *SOURCES, max_length=7, **certain)
    expected = greedy(Table(seed), *SOURCES, max_length=7)
    assert torch.equal(found.tokens, expected.tokens)
    torch.testing.assert_close(found.log_probs, expected.log_probs)


def test_a_seed_determines_the_text_and_the_generator_advances():
    def draw(generator):
        return sample(Table(), *SOURCES, max_length=12, generator=generator).tokens

    one = rng(5)
    first, second = draw(one), draw(one)
    assert torch.equal(first, draw(rng(5)))
    assert not torch.equal(first, second)
    torch.manual_seed(3)
    by_default = draw(None)
    torch.manual_seed(3)
    assert torch.equal(by_default, draw(None))


# Special ids of the model's own


SEARCHES = {"greedy": greedy, "beam": partial(beam_search, beam_size=3)}
SEARCHES |= {"sample": partial(sample, top_k=1)}
every_search = pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)


class Cycle(Chain):
    """Almost certain of its next token: the last plus 1, modulo 5."""

    def __init__(self, **special):
        super().__init__()
        self.special_tokens = SpecialTokens(**special)
        self.table = 50.0 * torch.eye(5).roll(1, 1)


@every_search
def test_one_id_may_be_end_and_padding(search):
    """As in GPT-2, whose one special token separates texts."""
    model = Cycle(pad=4, start=None, end=4)
    for row in search(model, prompts(2), max_length=9).tokens.tolist():
        assert row[:5] == [0, 1, 2, 3, 4]
        assert set(row[4:]) == {4}


@every_search
def test_one_id_may_be_start_and_end(search):
    model = Cycle(pad=3, start=0, end=0)  # 3, which is padding, cannot follow 2
    assert search(model, prompts(2, 0), max_length=5).tokens[:, :2].tolist() == [[1, 2]] * 2


@every_search
def test_each_of_several_ends_ends_a_text(search):
    """As in Llama 3.1: one end of a text, one of a turn."""
    model = Cycle(pad=4, start=None, end=(4, 2))
    tokens = search(model, torch.tensor([[0], [2]]), max_length=5).tokens
    assert tokens[:, :2].tolist() == [[1, 2], [3, 4]]
    assert (tokens[:, 2:] == 4).all()


@every_search
def test_a_model_without_an_end_goes_on_to_the_maximum_length(search):
    tokens = search(Cycle(pad=4, start=None, end=None), prompts(2), max_length=8).tokens
    assert tokens.shape == (2, 8)
    assert not bool((tokens == 4).any())


# Results of every search


@every_search
def test_the_result_can_be_trained_on(search):
    found = search(Markov(), prompts(2), max_length=5)
    assert not found.tokens.is_inference()
    assert not found.log_probs.is_inference()
    table = nn.Embedding(9, 3)
    (table(found.tokens).sum(-1) * found.log_probs[:, None]).sum().backward()
    assert bool(table.weight.grad.any())
    found.tokens[0, 0] = PAD  # and may be written to


@every_search
@pytest.mark.parametrize("value", [math.nan, INF, -INF])
def test_logits_that_are_not_numbers_are_refused(search, value):
    model = Cycle(pad=4, start=None, end=None).train()
    model.table[1] = value
    with pytest.raises(ValueError, match="logits must be numbers, got NaN or infinity"):
        search(model, prompts(2), max_length=9)
    assert model.training


@pytest.mark.parametrize("row", [[math.nan, 0.0], [INF, 0.0], [INF, INF], [-INF, -INF]])
@pytest.mark.parametrize("how", [{}, {"top_k": 1}, {"top_p": 0.5}], ids=str)
def test_a_distribution_of_what_are_no_numbers_is_refused(row, how):
    with pytest.raises(ValueError, match="logits must be numbers"):
        sampling_distribution(torch.tensor([[0.0, 1.0], row]), **how)


def test_more_tokens_than_there_are_may_be_kept():
    logits = torch.tensor([0.0, 1.0, 2.0])
    torch.testing.assert_close(sampling_distribution(logits, top_k=10**30), logits.softmax(-1))


@pytest.mark.skipif(not torch.accelerator.is_available(), reason="needs a GPU")
def test_a_seed_gives_the_same_text_on_a_gpu():
    model, device = Markov(), torch.accelerator.current_accelerator()
    options = {"max_length": 30, "temperature": 0.9, "top_k": 7, "top_p": 0.95}
    expected = sample(model, prompts(64), generator=rng(0), **options)
    model.table = model.table.to(device)
    found = sample(model, prompts(64).to(device), generator=rng(0), **options)
    assert torch.equal(found.tokens.cpu(), expected.tokens)
