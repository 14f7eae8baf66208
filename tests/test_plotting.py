"""Figures show the numbers they were given, on one scale, in one language."""

import itertools
import xml.etree.ElementTree as ET

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex

from attn_notes.plotting import STYLE, plot_attention, plot_band, plot_heads
from tests.colours import contrast
from tests.hostile import HOSTILE
from tests.oracles import H, L, S, coin, normal


@pytest.fixture(autouse=True)
def fresh_figures():
    with plt.rc_context():
        yield
        plt.close("all")


def weights_of(*shape: int) -> torch.Tensor:
    return normal(*shape).detach().softmax(-1)


def hatched(ax) -> set[tuple[int, int]]:
    """(row, column) of every hatched cell."""
    return {
        (round(patch.get_y() + 0.5), round(patch.get_x() + 0.5) + n)
        for patch in ax.patches
        if patch.get_hatch()
        for n in range(round(patch.get_width()))
    }


def test_the_cells_are_the_weights_with_queries_down_and_keys_across_and_a_number_in_each():
    weights = weights_of(L, S)
    ax = plot_attention(weights)
    (image,) = ax.images
    assert np.array_equal(image.get_array().data, weights.numpy())
    assert image.origin == "upper"
    assert (image.get_cmap().name, image.get_clim()) == ("cividis", (0.0, 1.0))
    said = {text.get_position()[::-1]: text.get_text() for text in ax.texts}
    assert said == {(i, j): f"{float(weights[i, j]):.2f}" for i in range(L) for j in range(S)}


@pytest.mark.parametrize("shape", [(L, S), (L, 1), (S,)])
def test_masked_cells_are_hatched_and_hold_no_colour_and_no_number(shape):
    mask = coin(*shape, seed=1)
    allowed = mask.expand(L, S)
    ax = plot_attention(weights_of(L, S), mask=mask)
    masked = {tuple(at) for at in (~allowed).nonzero().tolist()}
    assert hatched(ax) == masked
    assert np.array_equal(np.ma.getmaskarray(ax.images[0].get_array()), ~allowed.numpy())
    written = {(round(t.get_position()[1]), round(t.get_position()[0])) for t in ax.texts}
    assert written == {(i, j) for i in range(L) for j in range(S)} - masked


def test_numbers_are_left_out_of_large_panels_unless_asked_for():
    assert plot_attention(weights_of(8, 8)).texts
    assert not plot_attention(weights_of(8, 9)).texts
    assert plot_attention(weights_of(8, 9), annotate=True).texts
    assert not plot_attention(weights_of(2, 2), annotate=False).texts


@pytest.mark.parametrize("signed", [False, True])
def test_numbers_contrast_with_their_cells(signed):
    weights = torch.linspace(-1 if signed else 0, 1, 64).view(8, 8)
    ax = plot_attention(weights, signed=signed)
    (image,) = ax.images
    for text in ax.texts:
        column, row = text.get_position()
        cell = image.cmap(image.norm(image.get_array()[row, column]))
        assert contrast(to_hex(cell), to_hex(text.get_color())) >= 4.5, text.get_text()


def test_axes_are_named_and_tokens_stand_on_both():
    queries, keys = [f"q{i}" for i in range(L)], [f"k{j}" for j in range(S)]
    ax = plot_attention(weights_of(L, S), query_tokens=queries, key_tokens=keys, title="A title")
    assert (ax.get_ylabel(), ax.get_xlabel()) == ("queries (read)", "keys (are read)")
    assert [label.get_text() for label in ax.get_yticklabels()] == queries
    assert [label.get_text() for label in ax.get_xticklabels()] == keys
    assert ax.get_title() == "A title"


@pytest.mark.parametrize("size", [3, 9])
@pytest.mark.parametrize("longest", [1, 4, 12])
def test_labels_that_would_touch_are_turned_about_their_ends(size, longest):
    ax = plot_attention(weights_of(size, size), query_tokens=["m" * longest] * size)
    ax.figure.draw_without_rendering()
    labels = ax.get_xticklabels()
    boxes = [label.get_window_extent() for label in labels]
    if any(label.get_rotation() for label in labels):
        assert longest > 1
        for label in labels:  # so that a narrower font keeps the label at its tick
            assert (label.get_rotation_mode(), label.get_ha()) == ("anchor", "right")
    else:
        assert longest < 12
        assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))


def test_without_tokens_the_ticks_are_whole_numbers_and_a_minus_is_a_minus():
    ax = plot_attention(-weights_of(2, 12), signed=True, annotate=True)
    ticks = [*ax.get_xticks(), *ax.get_yticks()]
    assert all(tick == int(tick) for tick in ticks)
    assert {text.get_text()[0] for text in ax.texts} == {"\N{MINUS SIGN}"}


@pytest.mark.parametrize("token", ["$x$", r"\frac", "a_b^c", "$$", ""])
def test_tokens_are_drawn_as_they_are(token):
    ax = plot_attention(weights_of(1, 1), query_tokens=[token])
    (label,) = ax.get_xticklabels()
    ax.figure.canvas.draw()
    shown, is_math = label._preprocess_math(label.get_text())
    assert not is_math
    assert shown == token


def saved_width(path, *tokens: str, title: str = "") -> float:
    """The width of a saved picture in points, read as XML."""
    with plt.rc_context(STYLE):
        ax = plot_attention(torch.eye(len(tokens)), query_tokens=tokens, title=title)
        ax.figure.savefig(path)
    return float(ET.parse(path).getroot().get("width").removesuffix("pt"))


@pytest.mark.filterwarnings("ignore:Glyph .* missing from font:UserWarning")
def test_hostile_tokens_give_a_valid_picture(tmp_path):
    assert 0 < saved_width(tmp_path / "picture.svg", *HOSTILE, title=" ".join(HOSTILE)) < 1200


@pytest.mark.parametrize("size", [200, 10_000])
def test_a_long_token_or_title_is_cut_as_in_a_widget(size, tmp_path):
    long = "x" * size
    for tokens, title in (((long, "b"), ""), (("a", "b"), long)):
        assert 0 < saved_width(tmp_path / "picture.svg", *tokens, title=title) < 600
    ax = plot_attention(torch.eye(2), query_tokens=[long, "y" * 24])
    assert [label.get_text() for label in ax.get_yticklabels()] == ["x" * 23 + "\u2026", "y" * 24]
    ax = plot_attention(torch.eye(2), title=f"two\n{long}")
    assert ax.get_title().startswith("two\nxxx")


def test_it_draws_where_it_is_told():
    figure, (left, right) = plt.subplots(1, 2)
    assert plot_attention(torch.eye(2), ax=right, colorbar=False) is right
    assert not left.images
    assert len(figure.axes) == 2
    assert len(plot_attention(torch.eye(2)).figure.axes) == 2  # the scale is the second


@pytest.mark.parametrize("shape", [(L, S), (H, L, S)])
@pytest.mark.parametrize("titles", [None, ["a", "b", "c"]])
def test_heads_share_one_scale_and_each_shows_its_own_weights_and_mask(shape, titles):
    weights, mask = weights_of(H, L, S), coin(*shape, seed=1)
    *panels, _ = plot_heads(weights, mask=mask, titles=titles, vmax=0.5).axes
    for h, (ax, allowed) in enumerate(zip(panels, mask.expand(H, L, S), strict=True)):
        assert ax.images[0].get_clim() == (0.0, 0.5)
        assert np.array_equal(ax.images[0].get_array().data[allowed], weights[h][allowed].numpy())
        assert hatched(ax) == {tuple(at) for at in (~allowed).nonzero().tolist()}
        assert ax.get_title() == (titles[h] if titles else f"head {h}")


def test_a_band_is_the_median_and_the_middle_half_of_the_runs():
    x, runs = [1.0, 2.0, 4.0], torch.stack([torch.arange(3.0) * s for s in (0, 1, 2, 3, 10)])
    ax = plot_band(x, runs, label="runs")
    (line,) = ax.lines
    assert line.get_xdata().tolist() == x
    assert line.get_ydata().tolist() == [0.0, 2.0, 4.0]
    assert line.get_label() == "runs"
    (band,) = ax.collections
    corners = {tuple(point) for path in band.get_paths() for point in path.vertices.tolist()}
    assert {(4.0, 2.0), (4.0, 6.0), (2.0, 1.0), (2.0, 3.0)} <= corners
