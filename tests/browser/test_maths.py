"""What JavaScript computes is what torch computes in float64, to 1e-6, at every edge."""

import itertools

import pytest
import torch
from playwright.sync_api import Browser, Error
from torch import Tensor

from attn_notes import kernels
from attn_notes.kernels import nadaraya_watson
from attn_notes.masks import masked_softmax
from attn_notes.palette import visible
from attn_notes.patterns import SPECIAL, select_cells
from attn_notes.scores import DotProductScore, GaussianScore, ScaledDotProductScore
from attn_widgets import PositionExplorer, ScoreExplorer
from attn_widgets.encoding import decode, encode, encode_mask, encode_roots
from attn_widgets.kernel import KERNELS
from attn_widgets.views import kept_places, squeeze_head
from tests.browser.modules import within
from tests.hostile import TYPABLE
from tests.oracles import coin, rng
from tests.widgets import NAMED_MASKS, gappy_mask, in_eight_bits, learned, scores
from tests.widgets import weights as random_weights

SHAPES = [(1, 1), (1, 7), (5, 1), (5, 7), (13, 13)]


@pytest.fixture(scope="module")
def js(chromium: Browser):
    """A function of a widget's module, once for each tuple: `js("core", "largest", ([1, 2],))`."""
    page = chromium.new_page()

    def call(module: str, function: str, *arguments):
        body = within("heatmap" if module == "core" else module, f"return {function};")
        code = f"""(calls) => {{
          const called = (() => {{ {body} }})();
          const plain = (x) => (ArrayBuffer.isView(x) ? Array.from(x) : x);
          return Promise.all(calls.map(async (call) => plain(await called(...call))));
        }}"""
        return page.evaluate(code, list(arguments))

    yield call
    page.close()


def assert_equal(found: list[float], expected: Tensor) -> None:
    """To 1e-6 of the largest number there is, and at least to 1e-6."""
    found_tensor = torch.tensor(found, dtype=torch.float64).view(expected.shape)
    torch.testing.assert_close(found_tensor, expected.double(), atol=1e-6, rtol=1e-6)


def flat(tensor: Tensor) -> list:
    return tensor.flatten().tolist()


# Softmax and masks


def softmax_cases() -> list[tuple[Tensor, Tensor | None, float]]:
    cases = []
    for seed, (L, S) in enumerate(SHAPES):
        for size in (1e-3, 1.0, 1e3, 1e12):
            numbers = size * scores(L, S, seed=seed)
            masks = [None, coin(L, S, seed=seed), gappy_mask(L, S), torch.zeros(L, S).bool()]
            cases += [(numbers, mask, t) for mask in masks for t in (0.01, 1.0, 100.0)]
    rows = [[3.0, 3.0, -1e308], [1e308, -1e307, 0.0], [-1e300, -1e300, -1e300]]
    huge = torch.tensor(rows, dtype=torch.float64)
    return [*cases, (huge, None, 1.0), (huge, ~torch.eye(3).bool(), 2.0)]


def test_masked_softmax(js):
    cases = softmax_cases()
    calls = [
        (flat(numbers), None if mask is None else flat(mask), *numbers.shape, temperature)
        for numbers, mask, temperature in cases
    ]
    found = js("core", "maskedSoftmax", *calls)
    for (numbers, mask, temperature), weights in zip(cases, found, strict=True):
        assert_equal(weights, masked_softmax(numbers / temperature, mask))


@pytest.mark.parametrize("name", NAMED_MASKS)
def test_masks_by_name(js, name):
    cases = [(L, S, size) for L, S in SHAPES for size in range(1, max(L, S) + 1)]
    found = js("core", "namedMask", *((name, *case) for case in cases))
    for case, cells in zip(cases, found, strict=True):
        assert cells == flat(NAMED_MASKS[name](*case).int())


def test_what_can_be_reached_through_the_layers_is_a_power_of_the_mask(js):
    masks = [coin(L, L, seed=seed, heads=0.2) for seed, L in enumerate((1, 2, 5, 9))]
    masks.append(NAMED_MASKS["window"](9, 9, 2))
    cases = [(mask, layers) for mask in masks for layers in (1, 2, 3, 8)]
    calls = [(flat(mask.int()), len(mask), layers) for mask, layers in cases]
    for (mask, layers), cells in zip(cases, js("mask", "reachable", *calls), strict=True):
        step = mask.double() + torch.eye(len(mask))
        assert cells == flat((torch.linalg.matrix_power(step, layers) > 0).int())


@pytest.mark.parametrize("layers", [1, 2, 3, 8])
def test_a_way_through_the_layers_exists_where_they_reach_and_is_a_shortest(js, layers):
    for mask in (coin(6, 6, seed=3), coin(7, 7, seed=8), NAMED_MASKS["window"](9, 9, 2)):
        L, step = len(mask), mask.double() + torch.eye(len(mask))
        pairs = [(i, j) for i in range(L) for j in range(L)]
        calls = [(flat(mask.int()), L, layers, i, j) for i, j in pairs]
        for (i, j), way in zip(pairs, js("mask", "shortestWay", *calls), strict=True):
            powers = [torch.linalg.matrix_power(step, n)[i, j] > 0 for n in range(layers + 1)]
            if way is None:
                assert not any(powers)
                continue
            assert (way[0], way[-1]) == (j, i)
            assert len(way) - 1 == powers.index(True)
            assert all(mask[later, earlier] for earlier, later in itertools.pairwise(way))


# Kernels and scores


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("bandwidth", [0.01, 0.3, 1.0, 100.0])
def test_kernel_weights(js, name, bandwidth):
    keys = 5 * torch.rand(17, generator=rng(), dtype=torch.float64)
    far = torch.tensor([-20 * bandwidth, keys.max() + 20 * bandwidth, 1e6, -1e6])
    edges = torch.stack([keys[0] - bandwidth, keys[0] + bandwidth, keys[0]])
    queries = torch.cat([torch.linspace(0, 5, 7, dtype=torch.float64), far, edges])
    (found,) = js("core", "kernelWeights", (name, flat(queries), flat(keys), bandwidth))
    _, expected = nadaraya_watson(
        queries, keys, keys, kernel=getattr(kernels, f"{name}_kernel"), bandwidth=bandwidth
    )
    assert_equal(found, expected)
    assert (expected.sum(-1) == 0).any() == (name != "gaussian")


def test_scores_of_a_query_and_a_key(js):
    modules = {
        "dot": DotProductScore(),
        "scaled_dot": ScaledDotProductScore(),
        "gaussian": GaussianScore(),
        **learned(),
    }
    parameters = ScoreExplorer((1.0, 0.6), torch.eye(2), **learned()).data["parameters"]
    for size in (0.0, 1.0, 100.0):
        queries, keys = size * scores(3, 2), size * scores(4, 2, seed=1)
        calls = [(name, queries.tolist(), keys.tolist(), parameters) for name in modules]
        for module, found in zip(modules.values(), js("core", "scoreMatrix", *calls), strict=True):
            exact = rounded(module)(queries, keys).detach()
            assert_equal(found, exact)


def rounded(module: torch.nn.Module) -> torch.nn.Module:
    """With the four decimals that a page gets of a learned score."""
    module = module.double()
    for parameter in module.parameters():
        parameter.data = torch.tensor(
            [[round(x, 4) for x in row] for row in parameter.data.tolist()], dtype=torch.float64
        )
    return module


# Patterns of heads

SENTENCES = (
    ("[CLS]", "a", "rose", "is", "a", "rose", "[SEP]"),
    ("[CLS]", "one", "[SEP]", "two", "[SEP]", "[PAD]", "[PAD]"),
    ("a",),
    ("[SEP]", "a", "a"),
    ("[CLS]", "[SEP]"),
    tuple("no word is special here"),
)


def test_maps_without_special_tokens(js):
    for n, tokens in enumerate(SENTENCES):
        keys = [*tokens, "one", "more"][n % 2 :]
        maps = random_weights(2, 3, len(tokens), len(keys), seed=n)
        maps[0, 1] = 1e-9 * maps[0, 1]
        maps[1, 2] = 0
        rows, columns = (kept_places(each, SPECIAL, True) for each in (tokens, keys))
        size = [len(tokens), len(keys)]
        (found,) = js("heads", "selectCells", (flat(maps), size, rows, columns))
        assert_equal(found, select_cells(maps, rows, columns))


@pytest.mark.parametrize("size", [(1, 1), (3, 7), (64, 65)])
def test_a_head_that_comes_by_itself_is_unpacked_as_python_unpacks_it(js, size):
    weights = random_weights(*size).float()
    weights[0, :4] = torch.tensor([0.0, 1e-30, 1e-6, 1e-4])[: size[1]]
    packed = squeeze_head(weights)
    (found,) = js("heads", "unpackHead", (packed, weights.numel()))
    assert_equal(found, in_eight_bits(weights.double()))
    assert [weight == 0 for weight in found] == flat(weights == 0)
    apart = (in_eight_bits(weights.double()) - weights).abs()
    assert bool((apart <= weights.pow(0.4) / 255 + 4e-5).all())
    for wrong in (weights.numel() - 1, weights.numel() + 1):
        with pytest.raises(Error, match="weights than its tokens have pairs"):
            js("heads", "unpackHead", (packed, wrong))


# Colours

COLOURED = """((values, mask, scale) => {
  const S = values.length, words = new Uint32Array(S);
  colourCells(words, { values, mask, scale, L: 1, S }, { zero: 1, closed: 2 });
  return words;
})"""


@pytest.mark.parametrize("scale", ["linear", "root", "row"])
def test_no_weight_but_zero_has_its_colour_and_no_open_key_that_of_a_closed_one(js, scale):
    values = [0.0, 5e-324, 1e-300, 1e-15, 1e-6, 0.5, 0.0, 0.5, 1.0]
    mask = [n not in (6, 7) for n in range(len(values))]
    for given, zeros, closed in ((mask, [0], [6, 7]), (None, [0, 6], [])):
        (found,) = js("core", COLOURED, (values, given, scale))
        assert [n for n, word in enumerate(found) if word == 1] == zeros
        assert [n for n, word in enumerate(found) if word == 2] == closed


# Positions

SETTINGS = [
    (scheme, unlike, width, base)
    for scheme in ("none", "sinusoidal", "rotary")
    for unlike in (False, True)
    for width, base in ((2, 10.0), (6, 1e4), (64, 1e6))
]


def position_widget(scheme, unlike, width, base, length=16) -> tuple[PositionExplorer, dict]:
    """A widget, and the same settings for the functions of its front end."""
    widget = PositionExplorer(width, length)
    widget.base, widget.scheme, widget.unlike = base, scheme, unlike
    return widget, {"scheme": scheme, "unlike": unlike, "width": width, "base": base}


def test_encodings_and_turned_queries_and_keys(js):
    for case in SETTINGS:
        widget, settings = position_widget(*case)
        ranges = [(0, 16, False), (0, 16, True), (5, 1, True), (-7, 3, True), (100_000, 2, False)]
        found = js("position", "positionVectors", *((settings, *r) for r in ranges))
        for (first, count, key), numbers in zip(ranges, found, strict=True):
            assert_equal(numbers, widget._vectors(first, count, key=key))


def test_similarities_of_a_position_with_each(js):
    for case in SETTINGS:
        widget, settings = position_widget(*case)
        found = js("position", "similarities", *((settings, i, 0, 16) for i in (0, 5, 15)))
        for widget.position, numbers in zip((0, 5, 15), found, strict=True):
            assert_equal(numbers, widget.similarity())


@pytest.mark.parametrize("length", [2, 7, 64])
def test_the_biases_and_weights_of_alibi(js, length):
    widget = PositionExplorer(8, length)
    widget.scheme = "alibi"
    settings = {"scheme": "alibi"}
    for widget.pair, widget.position in ((0, 0), (3, length - 1), (7, length // 2)):
        (bias,) = js("position", "alibiBias", (widget.pair, length))
        assert_equal(bias, widget.shown())
        call = (settings, widget.position, 0, length, widget.pair)
        (weights,) = js("position", "similarities", call)
        assert_equal(weights, widget.similarity())


# What travels


def test_numbers_are_decoded_as_python_decodes_them(js):
    ranges = ((0.0, 1.0), (-7.5, 1e6), (-1e-9, 1e-9))
    packed = [
        encode(low + (high - low) * coin(3, 5).double() / 3, low=low, high=high, bits=bits)
        for low, high in ranges
        for bits in (12, 16)
    ]
    packed.append(encode_roots(random_weights(3, 5)))
    for array, found in zip(
        packed, js("core", "decode", *([array] for array in packed)), strict=True
    ):
        torch.testing.assert_close(
            torch.tensor(found, dtype=torch.float64).view(3, 5), decode(array), rtol=1e-12, atol=0
        )


def test_masks_are_unpacked_and_packed_as_in_python(js):
    masks = [coin(L, S, seed=L) for L, S in SHAPES]
    packed = [encode_mask(mask) for mask in masks]
    found = js("core", "decode", *([array] for array in packed))
    assert found == [flat(mask.int()) for mask in masks]
    again = js(
        "mask",
        "encodeBits",
        *((cells, list(m.shape)) for cells, m in zip(found, masks, strict=True)),
    )
    assert again == packed


def test_tokens_are_made_visible_as_in_python(js):
    found = js("core", "visible", *((token, 10_000) for token in TYPABLE))
    assert found == [visible(token) for token in TYPABLE]


def test_a_long_token_is_cut_between_characters(js):
    cut = js("core", "visible", ("x" * 99, 8), ("\U0001f600" * 99, 8), ("x" * 8, 8), (" " * 99, 8))
    assert cut == ["x" * 7 + "\u2026", "\U0001f600" * 7 + "\u2026", "x" * 8, "\u2423" * 8]
