"""Both caches against `torch.cat`: the same numbers, independent branches, intact graphs."""

import pytest
import torch

from attn_notes.cache import GrowingCache, KVCache
from tests.oracles import rng

B, G, D, DV = 2, 3, 4, 5


def pair(length, seed=0, dtype=torch.float32):
    generator = rng(seed)
    key = torch.randn(B, G, length, D, generator=generator, dtype=dtype)
    return key, torch.randn(B, G, length, DV, generator=generator, dtype=dtype)


def steps(*seeds, dtype=torch.float32):
    """One token for each seed."""
    return [pair(1, seed, dtype) for seed in seeds]


def filled_with(pairs, kind=GrowingCache):
    cache = kind()
    for key, value in pairs:
        cache.update(key, value)
    return cache


def assert_holds(cache, pairs):
    """In order, all keys and values of the pairs; an update with none returns them."""
    expected = [torch.cat(parts, dim=2) for parts in zip(*pairs, strict=True)]
    assert cache.length == expected[0].shape[2]
    assert repr(cache) == f"{type(cache).__name__}(length={cache.length})"
    assert cache.keys.equal(expected[0])
    for got, wanted in zip(cache.update(*(x[:, :, :0] for x in pairs[0])), expected, strict=True):
        assert got.equal(wanted)


@pytest.fixture(params=[False, True], ids=["no_grad", "grad"], autouse=True)
def grad(request):
    with torch.set_grad_enabled(request.param):
        yield


KINDS = pytest.mark.parametrize("kind", [KVCache, GrowingCache])


@KINDS
@pytest.mark.parametrize("lengths", [[1] * 7, [5, 1, 1], [2, 0, 3], [0, 2]])
def test_it_holds_what_was_appended_and_returned_tensors_never_change(kind, lengths):
    cache, pairs = kind(), [pair(length, seed) for seed, length in enumerate(lengths)]
    returned = [cache.update(*both) for both in pairs]
    assert_holds(cache, pairs)
    for n, got in enumerate(returned, start=1):
        for x, parts in zip(got, zip(*pairs[:n], strict=True), strict=True):
            assert x.equal(torch.cat(parts, dim=2))


def test_the_room_doubles_so_that_few_steps_copy_what_is_old():
    cache = GrowingCache()
    with torch.no_grad():
        held = [cache.update(*pair(1, seed))[0] for seed in range(100)]  # no memory is freed
    assert len({keys.untyped_storage().data_ptr() for keys in held}) == 7  # 1, 4, 10, …, 190


@KINDS
def test_branches_are_independent(kind):
    old = steps(0, 1, 2)
    trunk = filled_with(old, kind)
    branches = [trunk.fork() for _ in range(3)]
    grown = [steps(n + 1, n + 2, n + 3, n + 4) for n in (0, 10, 20)]
    for step in range(4):  # in turn, so that shared memory would be overwritten
        for branch, new in zip(branches, grown, strict=True):
            branch.update(*new[step])
    for branch, new in zip(branches, grown, strict=True):
        assert_holds(branch, [*old, *new])
    assert_holds(trunk, old)


@pytest.mark.parametrize("index", [[1, 0], [0, 0], [1], [0, 1, 1, 0], []])
@KINDS
def test_select_reorders_the_rows_of_a_new_cache(kind, index):
    pairs = steps(0, 1, 2)
    cache = filled_with(pairs, kind)
    chosen = cache.select(torch.tensor(index, dtype=torch.long))
    of_rows = [tuple(x[index] for x in both) for both in [*pairs, *steps(9)]]
    assert_holds(chosen, of_rows[:3])
    chosen.update(*of_rows[3])
    assert_holds(chosen, of_rows)
    assert_holds(cache, pairs)


@KINDS
def test_gradients_flow_through_the_cache(kind):
    tensors = [x.double().requires_grad_() for both in steps(0, 1, 2, 3) for x in both]

    def through_cache(*tensors):
        cache = kind()
        for n in range(0, len(tensors), 2):
            keys, values = cache.update(*tensors[n : n + 2])
            if n == 2:
                cache = cache.select(torch.tensor([1, 0]))
        return keys.mT @ values

    with torch.enable_grad():
        assert torch.autograd.gradcheck(through_cache, tensors)


@pytest.mark.parametrize("branch", ["update", "fork", "select"])
def test_a_later_update_without_a_graph_leaves_an_earlier_backward_intact(branch):
    """Autograd refuses a saved tensor that was written to in place."""
    query = torch.randn(B, G, 1, D, dtype=torch.float64, requires_grad=True)
    *first, last = steps(0, 1, 2, 3, 4, 5, dtype=torch.float64)
    cache = filled_with(first)
    keys, values = cache.update(*last)
    with torch.enable_grad():
        expected = (query @ keys.clone().mT) ** 2 @ values.clone()
        got = (query @ keys.mT) ** 2 @ values  # saves keys and values for the backward pass
    with torch.no_grad():
        branches = {"update": cache, "fork": cache.fork(), "select": cache.select(torch.arange(2))}
        for new in steps(6, 7, 8, dtype=torch.float64):
            branches[branch].update(*new)
            cache.update(*new)
    found = [torch.autograd.grad(x, query, torch.ones_like(x)) for x in (got, expected)]
    torch.testing.assert_close(*found)


@KINDS
def test_a_refused_update_changes_nothing(kind):
    cache = filled_with([pair(2)], kind)
    key, value = pair(1, 1)
    for wrong in ((key[:1], value[:1]), (key, value[..., :3])):
        with pytest.raises(RuntimeError, match=r"[Ss]ize"):
            cache.update(*wrong)
    assert_holds(cache, [pair(2)])


@KINDS
def test_a_cache_filled_in_inference_mode_can_be_continued_outside(kind):
    pairs = steps(0, 1, 2, 3)
    with torch.inference_mode():
        cache = filled_with(pairs[:3], kind)
    cache.update(*pairs[3])
    assert_holds(cache, pairs)
