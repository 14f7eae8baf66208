"""The cache against joining tensors: same numbers, linear cost, and branches that keep apart."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from attn_notes.cache import KVCache

B, G, D, DV = 2, 3, 4, 5


def pair(length, seed=0, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    key = torch.randn(B, G, length, D, generator=generator, dtype=dtype)
    return key, torch.randn(B, G, length, DV, generator=generator, dtype=dtype)


def joined(pairs):
    return tuple(torch.cat(parts, dim=2) for parts in zip(*pairs, strict=True))


def assert_holds(cache, pairs):
    expected = joined(pairs)
    assert cache.length == expected[0].shape[2]
    nothing = (x[:, :, :0] for x in pairs[0])
    for got, wanted in zip(cache.update(*nothing), expected, strict=True):
        assert got.equal(wanted)


@pytest.fixture(params=[False, True], ids=["no_grad", "grad"])
def grad(request):
    with torch.set_grad_enabled(request.param):
        yield request.param


@pytest.mark.parametrize(
    "lengths", [[1], [1, 1, 1, 1, 1, 1, 1], [5, 1, 1], [2, 0, 3], [0, 2], [1, 9]]
)
def test_it_holds_what_was_appended_in_order(grad, lengths):
    cache, pairs = KVCache(), [pair(length, seed) for seed, length in enumerate(lengths)]
    for n, (key, value) in enumerate(pairs, start=1):
        got = cache.update(key, value)
        assert all(x.equal(y) for x, y in zip(got, joined(pairs[:n]), strict=True))
        assert cache.length == sum(lengths[:n])
    assert_holds(cache, pairs)


def test_it_says_how_long_it_is():
    cache = KVCache()
    assert repr(cache) == "KVCache(length=0)"
    cache.update(*pair(3))
    assert repr(cache) == "KVCache(length=3)"


class Copied(TorchDispatchMode):
    """Counts the numbers that any operation writes into memory."""

    numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if func.overloadpacket in (torch.ops.aten.copy_, torch.ops.aten.clone):
            self.numbers += args[0].numel()
        elif func.overloadpacket in (torch.ops.aten.cat, torch.ops.aten.index):
            self.numbers += result.numel()
        return result


def copied(lengths):
    cache = KVCache()
    with torch.no_grad(), Copied() as count:
        for length in lengths:
            cache.update(*pair(length))
    return count.numbers / (B * G * (D + DV))  # tokens


def test_appending_one_by_one_copies_a_linear_number_of_tokens():
    for n in (1, 10, 100, 1000):
        assert n <= copied([1] * n) <= 3 * n  # each once into its slot, old ones less than twice
    assert copied([500, *[1] * 500]) <= 3 * 1000


def test_no_room_is_wasted_on_what_is_never_continued():
    cache = KVCache()
    with torch.no_grad():
        keys, values = cache.update(*pair(7))
    assert keys.untyped_storage().nbytes() == keys.nbytes
    assert values.untyped_storage().nbytes() == values.nbytes


def test_what_was_given_back_is_not_changed_later(grad):
    cache, pairs, given = KVCache(), [pair(1, seed) for seed in range(9)], []
    for key, value in pairs:
        given.append(cache.update(key, value))
    for n, got in enumerate(given, start=1):
        assert all(x.equal(y) for x, y in zip(got, joined(pairs[:n]), strict=True))


@pytest.mark.parametrize("start", range(1, 6))
def test_branches_do_not_see_one_another(grad, start):
    trunk, old = KVCache(), [pair(1, seed) for seed in range(start)]
    for key, value in old:
        trunk.update(key, value)
    branches = [trunk.fork() for _ in range(3)]
    grown = [[pair(1, 10 * n + step) for step in range(1, 5)] for n in range(3)]
    for step in range(4):  # in turn, so that each would write over the others
        for branch, new in zip(branches, grown, strict=True):
            branch.update(*new[step])
    for branch, new in zip(branches, grown, strict=True):
        assert_holds(branch, [*old, *new])
    assert_holds(trunk, old)


def test_the_first_branch_to_go_on_copies_nothing_old():
    trunk = KVCache()
    with torch.no_grad():
        trunk.update(*pair(4))
        trunk.update(*pair(1))  # now there is room
        first, second = trunk.fork(), trunk.fork()
        with Copied() as count:
            first.update(*pair(1))
        assert count.numbers == B * G * (D + DV)
        with Copied() as count:
            second.update(*pair(1))
        assert count.numbers == (5 + 1) * B * G * (D + DV)


@pytest.mark.parametrize("index", [[1, 0], [0, 0], [1], [0, 1, 1, 0], []])
def test_select_reorders_the_batch_and_leaves_the_old_one(grad, index):
    cache, pairs = KVCache(), [pair(1, seed) for seed in range(3)]
    for key, value in pairs:
        cache.update(key, value)
    chosen = cache.select(torch.tensor(index, dtype=torch.long))
    old = [tuple(x[index] for x in both) for both in pairs]
    assert_holds(chosen, old)
    new = [tuple(x[index] for x in pair(1, 9))]
    chosen.update(*new[0])
    assert_holds(chosen, [*old, *new])
    assert_holds(cache, pairs)


def test_selecting_an_empty_cache_gives_an_empty_cache():
    assert KVCache().select(torch.tensor([0])).length == 0
    assert KVCache().fork().length == 0


def test_gradients_flow_through_the_cache():
    leaves = [tuple(x.double().requires_grad_() for x in pair(1, seed)) for seed in range(4)]

    def through_cache(*tensors):
        cache = KVCache()
        for n in range(0, len(tensors), 2):
            keys, values = cache.update(*tensors[n : n + 2])
            if n == 2:
                cache = cache.select(torch.tensor([1, 0]))
        return keys.mT @ values

    tensors = [x for both in leaves for x in both]
    assert torch.autograd.gradcheck(through_cache, tensors)


def test_a_graph_over_the_cache_survives_later_steps():
    query = torch.ones(B, G, 1, D, requires_grad=True)
    cache = KVCache()
    with torch.no_grad():
        cache.update(*pair(2))
        cache.update(*pair(1))  # room for one more, in which the next would be written
    loss = 0.0
    for seed in range(3):
        keys, _ = cache.update(*pair(1, seed))
        loss = loss + (query @ keys.mT).pow(2).sum()
        with torch.no_grad():
            cache.update(*pair(1, seed + 5))
    loss.backward()
    assert query.grad.isfinite().all()


def test_a_cache_filled_in_inference_mode_can_be_continued_outside():
    cache = KVCache()
    with torch.inference_mode():
        for seed in range(3):
            cache.update(*pair(1, seed))
    with torch.no_grad():
        cache.update(*pair(1, 3))
    assert_holds(cache, [pair(1, seed) for seed in range(4)])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_the_dtype_is_kept(grad, dtype):
    cache = KVCache()
    for seed in range(3):
        keys, values = cache.update(*pair(1, seed, dtype=dtype))
    assert keys.dtype == values.dtype == dtype


def test_a_refused_update_changes_nothing(grad):
    cache = KVCache()
    cache.update(*pair(2))
    key, value = pair(1, 1)
    for wrong in ((key[:1], value[:1]), (key, value[..., :3]), (key.double(), value.double())):
        with pytest.raises((TypeError, ValueError)):
            cache.update(*wrong)
    assert_holds(cache, [pair(2)])
