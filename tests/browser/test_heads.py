"""All heads of an encoder: chosen in the grid, walked by token, found by what they read."""

import itertools
import re

import pytest
import torch
from playwright.sync_api import expect

from attn_notes import palette
from attn_notes.data import Vocabulary
from attn_notes.masks import causal_mask, masked_softmax, sliding_window_mask
from attn_notes.patterns import PATTERNS
from attn_notes.transformer import DecoderOnly, TransformerConfig
from attn_widgets import HeadExplorer, compare, show_attention, views
from tests.browser.conftest import THEME_LOGS
from tests.browser.journeys import COLOUR, COLOURS, COLUMNS, FIND, HIDE, assert_shown, scores_of
from tests.browser.panel import PIXELS, Panel, assert_cells, number, recording, rgb, settle
from tests.colours import DARK, LIGHT
from tests.oracles import filled
from tests.widgets import as_sent, of_heads, of_many_tokens, of_model, scores, weights


def grid_of(panel: Panel):
    return panel.el.get_by_role("application", name="All 6 heads")


def links_of(panel: Panel):
    return panel.el.locator(".attn-links canvas")


def reader(panel: Panel) -> str:
    """The token whose links are shown."""
    return re.match("\u201c\u2068(.*?)\u2069\u201d reads ", panel.said(1))[1]


# Finding


@pytest.mark.parametrize("pattern", ["same", "focused", "spread"])
def test_the_best_five_are_listed_and_a_press_jumps_there(visit, bare, pattern):
    panel, widget = Panel(visit(bare("heads"))), of_heads()
    panel.control(FIND).select_option(index=["", *PATTERNS, "focused", "spread"].index(pattern))
    widget.pattern = pattern
    scores = scores_of(widget).nanmean(0)
    best = scores.flatten().argsort(descending=pattern != "focused")[:5].tolist()
    buttons = panel.el.locator(".attn-best button")
    expected = [f"{n // 3}.{n % 3}: {float(scores.flatten()[n]):.2f}" for n in best]
    assert buttons.all_inner_texts() == expected
    panel.table()  # unfolded first: that takes the focus
    for n in (4, 0, 2):
        buttons.nth(n).press("Enter")
        widget.layer, widget.head = divmod(best[n], 3)
        assert_shown(panel, widget)
        pressed = [one.get_attribute("aria-pressed") for one in buttons.all()]
        assert pressed == [str(m == n).lower() for m in range(5)]
        assert buttons.nth(n).evaluate("(button) => button === document.activeElement")


# Tokens


def test_the_token_pointed_at_in_the_links_or_the_map_is_shown_and_stays(visit, bare):
    panel = Panel(visit(bare("heads")))
    tokens, mouse = of_heads()._picture()["query_tokens"], panel.page.mouse
    box = links_of(panel).bounding_box()
    seen = []
    for x in range(int(box["x"]), int(box["x"] + box["width"]), 11):
        mouse.move(x, box["y"] + box["height"] - 34)
        seen.append(reader(panel))
    changes = [token for n, token in enumerate(seen) if n == 0 or token != seen[n - 1]]
    assert changes[-7:] == tokens
    mouse.move(box["x"], box["y"] - 80)
    assert reader(panel) == "[SEP]"
    found = panel.cells()
    for row in (0, 4, 2):
        panel.point_at(0, row, 1, found)
        assert reader(panel) == tokens[row]
        assert f"(row {row})" in panel.readout()
    mouse.move(2, 2)
    assert reader(panel) == tokens[2]


# Heads laid over one another


def test_heads_are_pinned_and_let_go_by_button_space_bar_and_shift(visit, bare):
    panel, widget = Panel(visit(bare("heads"))), of_heads()
    panel.press_button("Pin head 1.0")
    assert_shown(panel, widget, pinned=[3])
    grid_of(panel).press("ArrowRight")
    widget.head = 1
    assert_shown(panel, widget)  # the mean of both
    grid_of(panel).press("Space")
    grid_of(panel).press("ArrowRight")
    assert_shown(panel, widget, pinned=[3, 4], head=2)
    grid_of(panel).click(position={"x": 22 + 80 / 3, "y": 80 / 3}, modifiers=["Shift"])  # head 0.0
    assert_shown(panel, widget, pinned=[3, 4, 0])
    panel.press("The map shows their", "ArrowDown")
    assert_shown(panel, widget, combine="max")
    panel.press_button("Let go of head 1.1")
    assert_shown(panel, widget, pinned=[3, 0])
    grid_of(panel).press("ArrowLeft")
    grid_of(panel).press("ArrowLeft")
    widget.head = 0
    panel.press_button("Let go of head 1.0")
    assert_shown(panel, widget, pinned=[0])


def test_each_pinned_head_has_links_of_its_own_colour_and_strength(visit, bare):
    page = recording(visit, bare("heads"))
    panel, widget = Panel(page), of_heads()
    grid_of(panel).press("Space")
    grid_of(panel).press("ArrowRight")
    panel.control(COLOURS).select_option(index=1)
    settle(page)  # no earlier curve comes late
    page.evaluate("curves.splice(0)")
    links_of(panel).press("ArrowRight")
    settle(page)
    every = widget.weights[1] ** (1 / 3)
    drawn_links = page.evaluate("curves")
    hues = {0: palette.CATEGORICAL[3], 1: LIGHT["accent"]}
    for head, hue in hues.items():
        strong = [float(w) for w in every[head, 3] if w > 0.004]
        drawn = [part for colour, part in drawn_links if colour == hue]
        assert drawn == pytest.approx(strong, abs=1e-4)


# Tokens in columns


def test_tokens_in_columns_are_walked_and_pointed_at(visit, bare):
    panel, widget = Panel(visit(bare("model"))), of_model()
    panel.press("Attention", "End")
    widget.kind = 2
    tokens = widget._picture()["query_tokens"]
    panel.press(COLUMNS, "Space")
    figure = links_of(panel)
    figure.press("Home")
    for token in tokens[1:]:
        figure.press("ArrowDown")
        assert reader(panel) == token
    figure.press("ArrowUp")
    assert reader(panel) == tokens[-2]
    box, seen = figure.bounding_box(), []
    for y in range(int(box["y"]) + 24, int(box["y"]) + 24 + 24 * len(tokens), 8):
        panel.page.mouse.move(box["x"] + 0.2 * box["width"], y)
        seen.append(reader(panel))
    changes = [token for n, token in enumerate(seen) if n == 0 or token != seen[n - 1]]
    assert changes == tokens


# Weights that are nearly 0

LOWEST = rgb("#00224e")  # of cividis


@pytest.mark.parametrize(("count", "mask"), [(15, None), (15, causal_mask(15)), (70, None)])
def test_only_a_key_that_is_not_read_at_all_looks_so(visit, tmp_path, count, mask, monkeypatch):
    monkeypatch.setattr(views, "WHOLE", 15**2)  # the larger map comes by itself
    numbers = torch.full((1, 1, count, count), 1e-12)
    numbers[0, 0].fill_diagonal_(1)
    numbers[0, 0, 2:5, 1] = 0
    view = show_attention(numbers, [*map(str, range(count))], mask=mask)
    view.save_html(tmp_path / "page.html")
    panel = Panel(visit((tmp_path / "page.html").as_uri()))
    panel.page.wait_for_function("() => !document.querySelector('.attn-stale')")
    panel.control(COLOURS).select_option(index=0)
    found, beside = panel.cells(), 8 * (count == 15)  # the number in a cell
    for i, j in itertools.product(range(6), repeat=2):
        at = [found["columns"][j], found["rows"][i] + beside]
        (pixel,) = panel.map().evaluate(PIXELS, [at])
        if mask is not None and not mask[i, j]:
            assert pixel[3] < 255  # hatched
        else:
            unread, read = rgb(LIGHT["surface"]), rgb("#fee838") if i == j else LOWEST
            assert pixel[:3] == (unread if numbers[0, 0, i, j] == 0 else read), (i, j)


# Many tokens


def test_heads_of_many_tokens_are_unpacked_as_they_are_chosen(visit, bare):
    page = visit(bare("saved", "file"))
    panel, widget = Panel(page), of_many_tokens()
    grid = panel.el.get_by_role("application", name="All 144 heads")
    for key, place in (("ArrowDown", (1, 0)), ("ArrowRight", (1, 1)), ("Space", (1, 1))):
        grid.press(key)
        widget.layer, widget.head = place
        widget.pinned = [13] if key == "Space" else []
        assert_many(panel, widget)
    grid.press("ArrowDown")
    widget.layer = 2
    assert_many(panel, widget)
    panel.press(HIDE, "Space")
    widget.hide_special = True
    assert_many(panel, widget)
    assert len({url for url in visit.requests if not url.endswith("favicon.ico")}) == 1
    assert panel.el.locator(".attn-typing").count() == 0


def test_one_zooms_in_on_the_chosen_token_and_then_on_the_cell_one_has_walked_to(visit, bare):
    panel = Panel(visit(bare("saved", "file")))
    panel.page.wait_for_function("() => !document.querySelector('.attn-stale')")
    panel.press("Zoom", "ArrowRight", "ArrowRight")
    assert panel.output("Zoom") == "48 of 70"
    settle(panel.page)
    assert shown_cells(panel) == [[*range(22, 70)]] * 2  # the last token reads
    panel.map().press("PageUp")
    panel.map().press("Home")
    panel.press("Zoom", "ArrowRight")
    settle(panel.page)
    assert shown_cells(panel) == [[*range(32)]] * 2


def shown_cells(panel: Panel) -> list[list[int]]:
    """The rows and the columns on show."""
    found = panel.cells()
    return [[n for n, at in enumerate(found[of]) if at is not None] for of in ("rows", "columns")]


def assert_many(panel: Panel, widget: HeadExplorer) -> None:
    """The table, once the head has been unpacked."""
    panel.page.wait_for_function("() => !document.querySelector('.attn-stale')")
    picture = widget._picture()
    header, *rows = panel.table()
    assert header[1:] == picture["key_tokens"]
    assert_cells(rows, picture["weights"], picture["mask"])
    which = panel.said()
    assert which.startswith(f"Layer {widget.layer}, head {widget.head}, entropy ")


def test_a_head_that_cannot_be_unpacked_is_said_and_the_others_stay(
    visit, bare, tmp_path, monkeypatch
):
    visit.expected = ("pageerror",)
    widget = of_many_tokens()
    state = widget.page_state()
    state["packed"] |= {"0.1": state["packed"]["0.1"][:400], "0.2": "AAAA"}
    monkeypatch.setattr(type(widget), "page_state", lambda _: state)
    widget.save_html(tmp_path / "cut.html")
    panel = Panel(visit((tmp_path / "cut.html").as_uri()))
    grid = panel.el.get_by_role("application", name="All 144 heads")
    for _ in range(2):
        grid.press("ArrowRight")
        expect(panel.el.locator(".attn-said").nth(1)).to_contain_text("This head cannot be read: ")
    grid.press("ArrowRight")
    widget.head = 3
    assert_many(panel, widget)


def test_a_saved_page_follows_its_reader_s_theme(visit, bare):
    page = visit(bare("saved", "file"))
    for scheme, colours in (("dark", DARK), ("light", LIGHT)):
        page.emulate_media(color_scheme=scheme)
        paper = tuple(rgb(colours["paper"]))
        for element in ("body", ".attn-root"):
            read = "(el) => getComputedStyle(el).backgroundColor"
            assert page.locator(element).evaluate(read) == f"rgb{paper}"


@pytest.mark.parametrize("text", ["x" * 10_000, "\x00\x0b\x1b\ufffe\ud800" * 2_000])
def test_a_saved_page_with_tokens_of_10_000_characters_keeps_to_its_width(visit, tmp_path, text):
    view = show_attention(torch.eye(2)[None, None], [text, "b"], title=text)
    view.save_html(tmp_path / "page.html")
    page = visit((tmp_path / "page.html").as_uri(), width=390)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    panel = Panel(page)
    labels, *rows = panel.table()
    assert [row[1:] for row in rows] == [["1.000", "0.000"], ["0.000", "1.000"]]
    assert max(map(len, labels)) <= 24
    assert page.evaluate("document.documentElement.scrollWidth") == 390


# Pictures, side by side, what a model expects, and buttons that lead to a head


def saved(visit, tmp_path, view: HeadExplorer, **options) -> Panel:
    """The page that a view writes of itself."""
    view.save_html(tmp_path / "page.html")
    return Panel(visit((tmp_path / "page.html").as_uri(), **options))


def of_picture() -> HeadExplorer:
    """A head that reads the patch right of each, on a grid of two rows and three columns."""
    maps = torch.eye(7).roll(1, dims=1)[None, None] * 0.9 + 0.1 / 7
    return show_attention(maps, image=torch.rand(3, 20, 30), grid=(2, 3))


def test_a_picture_s_patches_are_pointed_at_and_walked(visit, tmp_path):
    panel = saved(visit, tmp_path, of_picture())
    canvas = panel.el.locator(".attn-patches canvas")
    assert reader(panel) == "[CLS]"
    box = canvas.bounding_box()
    side = (box["width"] - 6 - 16) / 2  # two pictures, the gap between, the frame of the focus
    for left in (3, 3 + side + 16):
        for row, column in ((0, 2), (1, 0)):
            x, y = left + side * (column + 0.5) / 3, side * 2 / 3 * (row + 0.5) / 2
            panel.page.mouse.move(box["x"] + x, box["y"] + y)
            assert reader(panel) == f"{row},{column}"
    for key, place in (("ArrowRight", "1,1"), ("ArrowUp", "0,1"), ("ArrowLeft", "0,0")):
        canvas.press(key)
        assert reader(panel) == place
    for edge in ("ArrowLeft", "ArrowUp"):
        canvas.press(edge)
        assert reader(panel) == "0,0"
    canvas.press("Home")
    assert reader(panel) == "[CLS]"
    canvas.press("ArrowDown")
    assert "\u201c\u20680,0\u2069\u201d reads \u201c\u20680,1\u2069\u201d 0.91" in panel.said(1)
    panel.press_button("[CLS]")
    assert reader(panel) == "[CLS]"


def test_the_patch_that_is_read_most_is_the_brightest(visit, tmp_path):
    panel = saved(visit, tmp_path, of_picture())
    canvas = panel.el.locator(".attn-patches canvas")
    canvas.press("ArrowDown")  # patch 0,0 reads 0,1
    width = canvas.evaluate("(canvas) => parseFloat(canvas.style.width)")
    side = min(300, (width - 16) // 2)
    places = [[side + 16 + side * (n + 0.5) / 3, side / 6] for n in (1, 2)]
    read, unread = canvas.evaluate(PIXELS, places)
    assert sum(read[:2]) > 300 > sum(unread[:2])


def test_the_products_of_a_token_and_a_head_add_up_to_the_scores_on_show(visit, tmp_path):
    sizes = {"embed_dim": 24, "num_heads": 4, "num_kv_heads": 2, "num_layers": 2, "norm": "pre"}
    vocabulary = Vocabulary([*"abcdefgh"])
    config = TransformerConfig(vocab_size=len(vocabulary), positions="rotary", **sizes)
    view = show_attention(
        filled(DecoderOnly(config)), vocabulary, "abcabd", also="neurons", layers=[1]
    )
    view.layer, view.head, view.token = 1, 2, 4
    panel = saved(visit, tmp_path, view)
    maps = view.reading().maps[""]
    grid = panel.el.get_by_role("application", name="All 8 heads")
    for head, key in ((3, "ArrowRight"), (2, "ArrowLeft")):
        grid.press(key)
        products = maps.vectors[1].products(head, 4)  # (S, D)
        order = maps.layers[1][head, 4].argsort(descending=True)[:5].tolist()
        _, *rows = panel.table(0)
        assert [row[0] for row in rows] == [maps.queries[j] for j in order]
        for (_, score, weight, *terms), j in zip(rows, order, strict=True):
            shown = [number(term) for term in terms]
            assert shown == pytest.approx(products[j].tolist(), abs=2e-3)
            assert number(score) == pytest.approx(float(products[j].sum()), abs=2e-3)
            assert number(score) == pytest.approx(sum(shown), abs=4e-3)
            assert number(weight) == pytest.approx(float(maps.layers[1][head, 4, j]), abs=2e-3)
    grid.press("ArrowUp")  # a layer that is not held
    assert "Of this layer the view holds no queries and keys" in panel.el.inner_text()
    assert panel.el.get_by_role("tab", selected=True).inner_text() == "features"
    panel.el.get_by_role("tab", name="links").click()
    expect(links_of(panel)).to_be_visible()


def test_a_button_leads_to_the_head_that_does_it_most(visit, bare):
    panel, widget = Panel(visit(bare("heads"))), of_heads()
    for name, pattern in (("previous word", "previous"), ("first token", "first")):
        panel.press_button(name)
        widget.pattern = pattern
        best = int(scores_of(widget).nanmean(0).flatten().argmax())
        widget.layer, widget.head = divmod(best, 3)
        assert_shown(panel, widget)
        assert panel.button(name).get_attribute("aria-pressed") == "true"
    grid_of(panel).press("ArrowUp" if widget.layer else "ArrowDown")
    assert panel.button("first token").get_attribute("aria-pressed") == "false"


def test_three_controls_are_seen_at_first_and_the_rest_unfolded(visit, bare):
    panel = Panel(visit(bare("heads")))
    assert panel.el.locator(".attn-control:visible label").all_inner_texts() == ["Sentence"]
    assert "Layer" in panel.labels()


def test_what_a_model_expects_follows_the_chosen_token(visit, tmp_path):
    view = show_attention([torch.eye(2)[None]], ["a", "b"])
    expected = [[["x", 0.75], ["y", 0.125]], [["</script>", 0.5], ["z", 0.25]]]
    view.data["sentences"][0]["next"] = expected
    view.token = 0
    panel = saved(visit, tmp_path, view)
    words = panel.el.locator(".attn-word")
    for row, key in zip(expected, ("ArrowRight", "ArrowLeft"), strict=True):
        assert words.locator("bdi").all_inner_texts() == [token for token, _ in row]
        shares = words.locator(".attn-share").all_inner_texts()
        assert [float(x) for x in shares] == pytest.approx([p for _, p in row], abs=0.006)
        links_of(panel).press(key)


def test_two_views_side_by_side_show_one_head_and_its_difference(visit, tmp_path):
    one, other = (as_sent(weights(2, 3, 4, 4, seed=n)) for n in (1, 2))
    tokens = [*"abcd"]
    both = compare(first=show_attention([*one], tokens), second=show_attention([*other], tokens))
    panel = saved(visit, tmp_path, both)
    assert panel.el.locator(".attn-heading:visible").all_inner_texts() == [
        *("first", "second", "second less first")
    ]
    panel.press_button("Show the head that differs most")
    layer, head = divmod(int((one - other).abs().sum((-2, -1)).argmax()), 3)
    assert panel.said().startswith(f"Layer {layer}, head {head}, entropy ")
    for nth, shown in enumerate((one, other, other - one)):
        assert_cells(panel.table(nth)[1:], shown[layer, head])
    texts = compare(a=show_attention([*one], tokens), b=show_attention([*other], [*"abce"]))
    panel = saved(visit, tmp_path, texts)
    assert panel.el.get_by_role("button", name="Show the head that differs most").count() == 0
    assert panel.map(2).is_hidden()


def test_a_window_of_one_layer_is_hatched_like_the_future(visit, tmp_path):
    full, near = causal_mask(6), sliding_window_mask(6, 6, window=2)
    layers = [as_sent(masked_softmax(scores(4, 6, 6), mask)) for mask in (near, full)]
    view = show_attention(layers, [*"abcdef"], kv_heads=2)
    panel = saved(visit, tmp_path, view)
    for view.layer in (0, 1):
        panel.control("Layer").select_option(index=view.layer)
        assert_cells(panel.table()[1:], view.weights[view.layer, 0], view._picture()["mask"])
    assert panel.said().endswith("bits. Heads 0 and 1 share their keys and values.")


def test_a_head_that_reads_evenly_has_a_scale_of_its_own_and_says_so(visit, tmp_path):
    even = torch.full((1, 1, 20, 20), 0.05)
    even[0, 0, :, 3], even[0, 0, :, 4] = 0.02, 0.08
    panel = saved(visit, tmp_path, show_attention(even, [f"w{n}" for n in range(20)]))
    note = panel.el.get_by_text("No weight of this head reaches 0.1")
    expect(note).to_contain_text("end at its largest, 0.08.")
    assert "reads \u201c\u2068w4\u2069\u201d 0.08, then" in panel.said(1)
    found = panel.cells()
    (pixel,) = panel.map().evaluate(PIXELS, [[found["columns"][4], found["rows"][2]]])
    assert pixel[:3] == rgb("#fee838")
    panel.press(COLOUR, "Space")
    expect(note).to_be_hidden()


def test_on_a_phone_the_map_or_the_links_share_a_screen_with_the_overview(visit, bare):
    page = visit(bare("heads"))
    page.set_viewport_size({"width": 390, "height": 844})
    panel = Panel(page)
    pictures = panel.el.locator(".attn-first, .attn-last")
    seen = "(all) => all.map((one) => one.offsetHeight > 0)"
    assert pictures.evaluate_all(seen) == [True, False]
    panel.el.get_by_role("tab", name="links").click()
    assert pictures.evaluate_all(seen) == [False, True]
    panel.el.get_by_role("tab", name="map").click()
    top, box = panel.el.bounding_box()["y"], pictures.first.bounding_box()
    assert box["y"] + box["height"] - top < 844
    page.set_viewport_size({"width": 900, "height": 900})
    assert pictures.evaluate_all(seen) == [True, True]


# How high a card is

HEIGHTS = "(all) => all.map((one) => one.getBoundingClientRect().height)"
# What is drawn and said, without the air that a card may have above its tables.
NEEDED = """(all) => all.map((one) => {
  const { bottom } = one.querySelector(".attn-heads").getBoundingClientRect();
  const { height } = one.getBoundingClientRect(), below = one.querySelector(".attn-folds");
  return height - (below.getBoundingClientRect().top - bottom);
})"""
AIR = 60  # pixels: 13 of them always stand there, or 30 with a fold of its own


@pytest.mark.parametrize("width", [1280, 390])
def test_a_card_is_as_high_before_it_is_mounted_as_after_and_stays_so(visit, book, width):
    visit.expected = (*visit.expected, THEME_LOGS)
    page = visit("about:blank", width=width)
    page.route("**/attn-widgets-*.js", lambda route: route.fulfill(body=""))
    page.goto(f"{book['file']}/book/show_attention.html")
    cards = page.locator("attn-widget")
    before = cards.evaluate_all(HEIGHTS)
    page.unroute("**/attn-widgets-*.js")
    page.reload()
    for card in cards.all():
        card.scroll_into_view_if_needed()
        card.locator(".attn-root").wait_for()
    assert cards.evaluate_all(HEIGHTS) == pytest.approx(before, abs=3)
    needed = cards.evaluate_all(NEEDED)
    assert all(0 <= high - less <= AIR for high, less in zip(before, needed, strict=True)), needed
    for card in cards.all():
        grid = card.get_by_role("application", name="heads:").locator("visible=true")
        for press in card.get_by_role("button", name=re.compile("^(previous word|first)")).all():
            press.press("Enter")
            grid.press("ArrowDown")
            grid.press("ArrowRight")
    settle(page)
    assert cards.evaluate_all(HEIGHTS) == pytest.approx(before, abs=3)
