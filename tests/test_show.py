"""show_attention: whatever holds weights, and whatever model makes them, shown as it is."""

import json
import re
from functools import partial

import pytest
import torch
from PIL import Image
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from torch import Tensor

from attn_notes.data import Vocabulary
from attn_notes.inside import rollout
from attn_notes.masks import causal_mask, masked_softmax, sliding_window_mask
from attn_notes.pretrained import load_encoder, minilm_folder
from attn_notes.transformer import DecoderOnly, Encoder, Transformer, TransformerConfig
from attn_widgets import AttentionHeatmap, HeadExplorer, compare, show_attention, views
from attn_widgets.encoding import decode
from attn_widgets.tokens import readable, special_among
from attn_widgets.views import MOST, find_mask
from tests.published import random_bert, random_gpt2
from tests.widgets import of_many_tokens, scores, weights

N, H, L, S = 2, 3, 5, 7
TOKENS = ["[CLS]", "a", "rose", "is", "[SEP]"]
LAYERS = tuple(weights(N, H, L, L)[:, None].float())


def assert_shows(view: HeadExplorer, expected: Tensor, quantum: float = 1 / 4095) -> None:
    """Each head of the view is what was given, (layers, heads, L, S), to its precision."""
    got = view.weights
    assert got.shape == expected.shape
    limit = 2 * expected.double().sqrt() * quantum + quantum**2
    assert bool(((got - expected.double()).abs() <= limit).all())


FORMS = {
    "a model's tuple": LAYERS,
    "layers without a batch": [layer[0] for layer in LAYERS],
    "one array with a batch axis": torch.stack(LAYERS).numpy(),
    "with a gradient": [layer.clone().requires_grad_() for layer in LAYERS],
    "in 64 bits": [layer.double() for layer in LAYERS],
    "outputs by name": {"attentions": LAYERS, "last_hidden_state": torch.zeros(1)},
    "a tuple of a tuple's kind": type("Output", (), {"attentions": LAYERS})(),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_weights_are_shown_in_any_form_that_they_come_in(form):
    assert_shows(show_attention(form, TOKENS), torch.cat(LAYERS))


def test_half_precision_is_shown_to_its_own_precision():
    halves = [layer.to(torch.bfloat16) for layer in LAYERS]
    assert_shows(show_attention(halves, TOKENS), torch.cat(halves).float())


BATCH = weights(2, H, L, L)
WRONG = [
    ((BATCH, BATCH), "of one text, got a batch of 2 in a layer of shape"),
    (BATCH, "of 2 layers or of a batch of 2 texts: pass layers as a"),
    (torch.stack([BATCH, BATCH]), "of one text, got a batch of 2"),
    ((None, None), "None: load the model with attn_implementation='eager'"),
    ({"attentions": ()}, "the outputs hold no attention weights: load the model with"),
    ((LAYERS, LAYERS), "a tuple for each, as generate"),
    ([LAYERS[0], LAYERS[1][..., :4, :4]], "all layers must have the same shape"),
    (2 * LAYERS[0], "weights must be from 0 to 1"),
    (torch.ones(3), "weights must be a map (L, S), a layer"),
]


@pytest.mark.parametrize(("form", "words"), WRONG)
def test_what_cannot_be_shown_is_refused_in_words(form, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        show_attention(form, TOKENS)


def test_what_is_too_large_is_refused_with_what_would_fit():
    layer = torch.zeros(1, 1, 1, 1).expand(1, 16, 1024, 1024)
    with pytest.raises(ValueError, match="50 million weights, more than 40 million") as raised:
        show_attention([layer] * 3)
    found = re.search(r"give at most (\d+) tokens or (\d+) of", str(raised.value))
    tokens, layers = map(int, found.groups())
    assert 3 * 16 * tokens**2 <= MOST < 3 * 16 * (tokens + 1) ** 2
    assert layers * 16 * 1024**2 <= MOST < (layers + 1) * 16 * 1024**2
    with pytest.raises(ValueError, match="query_tokens must be 5, one a row or column, got 1"):
        show_attention(LAYERS, ["a"])


def test_a_causal_mask_is_seen_in_the_weights_and_nowhere_else():
    causal = masked_softmax(scores(H, L, L), causal_mask(L)).float()
    cached = masked_softmax(scores(H, 2, L), causal_mask(2, L, offset=3)).float()
    assert find_mask([causal, causal]).equal(causal_mask(L))
    assert find_mask([cached]).equal(causal_mask(2, L, offset=3))
    for open_to_all in ([causal, LAYERS[0][0]], [torch.eye(3)[None]], [torch.ones(1, 1, 1)]):
        assert find_mask(open_to_all) is None
    shown = show_attention([causal], TOKENS)
    assert shown._table()[2][0][2:] == ["masked"] * 4
    given = torch.ones(L, L).bool().tril(1)
    assert show_attention([causal], TOKENS, mask=given)._picture()["mask"].equal(given)


@pytest.mark.parametrize(
    ("tokens", "special", "said", "texts"),
    [
        ("Ġthe Ġcaf Ã© Ċ ä½ ł", "", None, r"␣the ␣caf é \n \xe4\xbd \xa0"),
        ("▁The ▁ s </s>", "</s>", None, "␣The ␣ s </s>"),
        ("un ##like 日本", "", None, "un ##like 日本"),
        ("Ã©", "", None, "Ã©"),  # nothing says that these are bytes
        ("Ã©", "", True, "é"),
        ("<|endoftext|> Ġa", "<|endoftext|>", None, "<|endoftext|> ␣a"),
        ("Ġmy 日本", "", True, "␣my 日本"),
    ],
)
def test_tokens_are_written_as_a_reader_would_write_them(tokens, special, said, texts):
    found = readable(tokens.split(), [special], byte_level=said)
    assert [text.replace("\n", r"\n") for text in found] == texts.split()


def test_special_tokens_are_known_by_their_look_where_no_tokenizer_says():
    tokens = ["<s>", "[MASK]", "<unk>", "a", "</s>", "<|endoftext|>", "[SEP]", "</s>"]
    assert special_among(tokens) == ["<s>", "</s>", "<|endoftext|>", "[SEP]"]
    view = show_attention(LAYERS, TOKENS)
    view.hide_special = True
    assert view._table()[1] == ["a", "rose", "is"]
    view = show_attention(LAYERS, TOKENS, special=["is"])
    view.hide_special = True
    assert view._table()[1] == ["[CLS]", "a", "rose", "[SEP]"]


def wordpiece(transformers):
    """BERT's kind of tokenizer: pairs, special tokens around them, pieces that continue."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "rose", "##s", "is"]
    vocab = {word: n for n, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", [("[CLS]", 2), ("[SEP]", 3)]
    )
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]")


def byte_level(transformers):
    """GPT-2's kind: bytes, and a word or two."""
    vocab = {token: n for n, token in enumerate([*"aroseit", "Ġ", "Ã", "©", "Ġa", "Ġr", "Ġro"])}
    tokenizer = Tokenizer(models.BPE(vocab, [("Ġ", "a"), ("Ġ", "r"), ("Ġr", "o")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def sentencepiece(transformers):
    """T5's kind: the mark of a space, and an end after each text."""
    special = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    pieces = [*special, ("▁a", -1.0), ("▁rose", -1.0), ("s", -2.0)]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=2))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    ends = processors.TemplateProcessing("$A </s>", special_tokens=[("</s>", 1)])
    tokenizer.post_processor = ends
    names = {"eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)


def tokens_of(view: HeadExplorer, kind: int = 0) -> list[list[str]]:
    shown = view.data["sentences"][0]["views"][kind]
    return [shown["queries"], shown["keys"]]


@pytest.mark.slow
def test_a_published_encoder_reads_a_text_and_a_pair(transformers):
    tokenizer, model = wordpiece(transformers), random_bert(transformers).train()
    model.encoder.eval()
    modes = [module.training for module in model.modules()]
    view = show_attention(model, tokenizer, "a roses is")
    assert [module.training for module in model.modules()] == modes
    assert tokens_of(view)[0] == ["[CLS]", "a", "rose", "##s", "is", "[SEP]"]
    assert view.data["special"] == ["[CLS]", "[SEP]"]
    ids = tokenizer("a roses is", return_tensors="pt")
    with torch.no_grad():
        expected = model.eval()(**ids, output_attentions=True)
    assert_shows(view, torch.cat(expected.attentions))
    pair = show_attention(model, tokenizer, ("a rose", "is a"))
    assert tokens_of(pair)[0] == ["[CLS]", "a", "rose", "[SEP]", "is", "a", "[SEP]"]
    view.text = "is a rose"
    assert (view.reply["error"], view.sentence) == ("", 1)
    assert view.data["sentences"][0]["name"] == "a roses is"
    with pytest.raises(ValueError, match="the text has 32 tokens, and the model reads 29 at most"):
        show_attention(model, tokenizer, "a " * 30)


@pytest.mark.slow
def test_a_published_decoder_is_causal_and_its_bytes_are_text(transformers):
    tokenizer, model = byte_level(transformers), random_gpt2(transformers, "GPT2Model")
    view = show_attention(model, tokenizer, "a ro é")
    assert tokens_of(view)[0] == ["a", "␣ro", "␣", "\\xc3", "\\xa9"]
    assert view._picture()["mask"].equal(causal_mask(5))
    assert view.data["special"] == []


BART = {"encoder_layers": 2, "encoder_attention_heads": 3, "encoder_ffn_dim": 8}
BART |= {"decoder_layers": 3, "decoder_attention_heads": 2, "decoder_ffn_dim": 8}
T5 = {"num_layers": 2, "num_decoder_layers": 1, "num_heads": 3, "d_kv": 4, "d_ff": 8}
T5 |= {"decoder_start_token_id": 0}
ENCODER_DECODERS = {"T5ForConditionalGeneration": T5, "BartModel": BART}


def random_encoder_decoder(transformers, kind: str):
    ids = {"vocab_size": 6, "pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 1}
    make = getattr(transformers, kind)
    torch.manual_seed(0)
    return make(make.config_class(d_model=12, **ids, **ENCODER_DECODERS[kind])).eval()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ENCODER_DECODERS)
def test_a_published_encoder_decoder_shows_three_kinds_and_is_left_as_it_was(kind, transformers):
    tokenizer, model = sentencepiece(transformers), random_encoder_decoder(transformers, kind)
    before = model.config._attn_implementation
    assert before == "sdpa"
    view = show_attention(model, tokenizer, ("a roses", "rose a"))
    assert model.config._attn_implementation == before
    kinds = [one["name"] for one in view.data["sentences"][0]["views"]]
    assert kinds == ["encoder", "decoder", "cross"]
    source = ["␣a", "␣rose", "s", "</s>"]
    target = tokens_of(view, 1)[0]
    assert target[1:] == ["␣rose", "␣a"]
    assert (tokens_of(view), tokens_of(view, 2)) == ([source, None], [target, source])
    model.set_attn_implementation("eager")
    inputs = dict(tokenizer("a roses", return_tensors="pt"))
    written = tokenizer.convert_tokens_to_ids([target[0], "▁rose", "▁a"])
    inputs["decoder_input_ids"] = torch.tensor([written])
    with torch.no_grad():
        expected = model(**inputs, output_attentions=True)
    for view.kind, name in enumerate(kinds):
        assert_shows(view, torch.cat(expected[f"{name}_attentions"]))
    view.kind, view.layer, view.head = 1, 0, 0
    assert view._picture()["mask"].equal(causal_mask(3))
    for outputs in (expected, dict(expected)):
        again = show_attention(outputs, source, target)
        assert [len(tokens_of(again, n)[0]) for n in range(3)] == [4, 3, 3]


@pytest.mark.slow
def test_an_encoder_decoder_writes_the_target_itself_where_it_can(transformers):
    tokenizer = sentencepiece(transformers)
    model = random_encoder_decoder(transformers, "T5ForConditionalGeneration")
    view = show_attention(model, tokenizer, "a roses")
    assert tokens_of(view, 1)[0][0] == "<pad>"
    view.text = "rose"
    assert view.reply["error"] == ""
    bare = random_encoder_decoder(transformers, "BartModel")
    with pytest.raises(ValueError, match="BartModel writes no text: give a pair"):
        show_attention(bare, tokenizer, "a roses")
    assert show_attention(bare, tokenizer, ("a", "rose")).typing == "off"


def test_the_blocks_of_this_package_are_read_and_their_weights_taken_as_they_come():
    encoder, tokenizer = load_encoder(minilm_folder())
    view = show_attention(encoder, tokenizer, "a rose is a rose")
    read = encoder(torch.tensor([tokenizer.encode("a rose is a rose").ids]), need_weights=True)
    assert_shows(view, torch.cat(read.weights).detach())
    assert view.data["sentences"] == show_attention(read, tokens_of(view)[0]).data["sentences"]
    config = TransformerConfig(vocab_size=9, embed_dim=8, num_heads=2, num_layers=2)
    tokens = torch.tensor([[4, 5, 6]])
    for model in (Encoder(config), DecoderOnly(config)):
        read = model(tokens, need_weights=True)
        assert_shows(show_attention(read, [*"abc"]), torch.cat(read.weights).detach())
    target, lengths = torch.tensor([[1, 4]]), torch.tensor([3])
    _, both = Transformer(config)(tokens, lengths, target, need_weights=True)
    view = show_attention(both, [*"abc"], ["<s>", "x"])
    assert tokens_of(view, 2) == [["<s>", "x"], [*"abc"]]


def test_large_heads_come_one_by_one_live_and_all_on_a_page():
    view = of_many_tokens()
    expected = masked_softmax(scores(12, 70, 70, seed=4), causal_mask(70))
    view.layer, view.head, view.pinned = 4, 6, [4 * 12 + 7]
    assert list(view.packed) == ["0.54", "0.55"]
    assert float((view.shown() - expected[6:8].mean(0)).abs().max()) < 0.004
    view.pinned = []
    assert float((view.shown() - expected[6]).abs().max()) < 0.004
    assert len(view.page_state()["packed"]) == 144
    assert "thumbnails" in view.page_state()["data"]["sentences"][0]["views"][0]
    view.hide_special = True
    assert view.shown().shape == (69, 69)


def test_no_key_that_is_read_however_little_is_sent_as_unread(monkeypatch):
    monkeypatch.setattr(views, "WHOLE", 0)
    numbers = weights(1, 1, 70, 70)
    numbers[..., ::3] = 1e-12
    numbers[..., ::5] = 0
    for special in ([], ["0"]):
        view = show_attention(numbers.float(), [*map(str, range(70))], special=special)
        sent = view.page_state()["data"]["sentences"][0]["views"][0]["thumbnails"][-1]["weights"]
        kept = numbers if not special else numbers[..., 1:][..., 1:, :]
        read = torch.nn.functional.adaptive_max_pool2d(kept[0], tuple(sent["shape"][2:])) > 0
        assert decode(sent)[0].gt(0).equal(read)


def test_a_notebook_stores_no_megabytes_and_says_what_to_do():
    view = of_many_tokens(200)
    data, _ = view._repr_mimebundle_()
    assert len(data["text/html"]) < 60_000
    assert "or write them to a page with save_html" in data["text/html"]
    assert len(view.page_html()) > 2_000_000


@pytest.mark.parametrize("make", [partial(show_attention, LAYERS, TOKENS), of_many_tokens])
def test_new_weights_of_the_same_tokens_are_shown_at_once(make):
    view = make()
    size, tokens = view.weights.shape, tokens_of(view)
    new = weights(*size, seed=9).float()
    view.layer, view.hide_special = 1, True
    view.weights = list(new)
    view.hide_special = False
    assert_shows(view, new, 1 / 200 if size[-1] > 60 else 1 / 4095)
    assert tokens_of(view) == tokens
    with pytest.raises(ValueError, match="query_tokens must be 2, one a row or column"):
        view.weights = weights(1, 2, 2)


def test_new_weights_of_a_heatmap_are_shown_at_once():
    new = weights(H, L, L, seed=9)
    heatmap = AttentionHeatmap(LAYERS, TOKENS)
    heatmap.layer, heatmap.head = 1, 2
    heatmap.weights = new
    assert (heatmap.layer, heatmap.head) == (0, 2)
    assert float((heatmap.shown() - new[2]).abs().max()) < 1e-4
    with pytest.raises(ValueError, match=r"must still be \(L, S\) = \(5, 5\), got \(4, 4\)"):
        heatmap.weights = torch.eye(4)


def test_pinned_heads_lie_over_the_chosen_one():
    view, every = show_attention(LAYERS, TOKENS), torch.cat(LAYERS).double()
    view.layer, view.head, view.pinned = 1, 2, [0, 4]
    over = torch.stack([every[1, 2], every[0, 0], every[1, 1]])
    torch.testing.assert_close(view.shown(), over.mean(0), atol=1e-3, rtol=0)
    view.combine = "max"
    torch.testing.assert_close(view.shown(), over.amax(0), atol=1e-3, rtol=0)
    assert "layer 1, head 2, max with 0.0, 1.1:" in repr(view)
    for wrong in ([6], [0, 1, 2, 3, 4, 5]):
        with pytest.raises(Exception, match="pinned"):
            view.pinned = wrong


@pytest.mark.parametrize("make", [show_attention, AttentionHeatmap])
def test_a_saved_page_has_the_title_that_it_was_given(make, tmp_path):
    name = "AttentionHeatmap" if make is AttentionHeatmap else "HeadExplorer"
    for given, title in (("A <b>\x0b", "A &lt;b&gt;\u240b"), ("", name)):
        make(LAYERS, title=given).save_html(tmp_path / "view.html")
        page = (tmp_path / "view.html").read_text(encoding="utf-8")
        assert f"<title>{title}</title>" in page


@pytest.mark.parametrize(("special", "token"), [(None, 3), (["is", "[SEP]"], 2), (TOKENS, 0)])
def test_a_view_opens_on_the_last_token_that_is_not_special(special, token):
    assert show_attention(LAYERS, TOKENS, special=special).token == token


@pytest.mark.parametrize("make", [show_attention, AttentionHeatmap])
def test_a_view_is_saved_as_a_page_and_as_pictures(make, tmp_path):
    view = make(LAYERS, TOKENS)
    view.save_html(tmp_path / "view.html")
    page = (tmp_path / "view.html").read_text(encoding="utf-8")
    state = re.search(r'<script type="application/json">(.*?)</script>', page)[1]
    assert json.loads(state)["state"]["data"] == view.data
    assert "default-src 'none'" in page
    assert not re.search(r"https?://|unsafe-inline", page)
    view.save_png(tmp_path / "view.png")
    assert (tmp_path / "view.png").read_bytes()[:4] == b"\x89PNG"
    view.save_svg(str(tmp_path / "view.svg"))
    assert "<svg" in (tmp_path / "view.svg").read_text(encoding="utf-8")


# Models of today, and of pictures

SIZES = {"hidden_size": 12, "intermediate_size": 9, "num_hidden_layers": 2}
DECODER = SIZES | {"vocab_size": 14, "num_attention_heads": 4, "initializer_range": 0.5}
GROUPED = DECODER | {"num_key_value_heads": 2, "head_dim": 4}
LAYERED = {"sliding_window": 3, "layer_types": ["sliding_attention", "full_attention"]}
DECODERS = {
    "LlamaForCausalLM": (GROUPED, [None, None]),
    "MistralForCausalLM": (GROUPED | {"sliding_window": 3}, [3, 3]),
    "Gemma3ForCausalLM": (GROUPED | LAYERED, [3, None]),
    "GPT2LMHeadModel": ({"n_embd": 12, "n_head": 4, "n_layer": 2, "vocab_size": 14}, [None, None]),
}


def random_of(transformers, kind: str, **config):
    """The reference library's model of a kind, in evaluation mode."""
    make = getattr(transformers, kind)
    torch.manual_seed(0)
    return make._from_config(make.config_class(**config)).eval()


@pytest.mark.slow
@pytest.mark.parametrize("kind", DECODERS)
def test_a_decoder_of_today_shows_groups_windows_and_the_next_token(kind, transformers):
    config, windows = DECODERS[kind]
    tokenizer, model = byte_level(transformers), random_of(transformers, kind, **config)
    view = show_attention(model, tokenizer, "rose rot", also=["values", "rollout"])
    shown = view.data["sentences"][0]
    assert [one["name"] for one in shown["views"]] == ["", "values", "rollout"]
    groups = config.get("num_key_value_heads")
    assert [one.get("kv_heads") for one in shown["views"]] == [groups, groups, None]
    masks = [sliding_window_mask(6, 6, window=n or 6) for n in windows]
    for view.kind, view.layer in ((0, 0), (0, 1), (1, 0)):
        assert view._picture()["mask"].equal(masks[view.layer])
    ids = tokenizer("rose rot", return_tensors="pt")
    model.set_attn_implementation("eager")
    with torch.no_grad():
        expected = model(**ids, output_attentions=True)
    view.kind = 0
    assert_shows(view, torch.cat(expected.attentions))
    for row, logits in zip(shown["next"], expected.logits[0], strict=True):
        best = logits.softmax(-1).topk(5)
        assert [share for _, share in row] == pytest.approx(best.values.tolist(), abs=1e-4)
        known = tokenizer.convert_ids_to_tokens
        names = [known(n) or f"[{n}]" for n in best.indices.tolist()]
        assert [token for token, _ in row] == readable(names, [], byte_level=True)


def test_a_vocabulary_of_characters_serves_as_a_tokenizer():
    vocab = Vocabulary([*"arose it"])
    torch.manual_seed(0)
    config = TransformerConfig(vocab_size=len(vocab), embed_dim=8, num_heads=2, num_layers=2)
    model = DecoderOnly(config).eval()
    view = show_attention(model, vocab, "a rose")
    read = model(torch.tensor([vocab.encode([*"a rose"])]), need_weights=True)
    assert tokens_of(view)[0] == ["a", "␣", *"rose"]
    assert_shows(view, torch.cat(read.weights).detach())
    shares, ids = read.logits[0].softmax(-1).topk(5)
    for row, best, share in zip(view.data["sentences"][0]["next"], ids, shares, strict=True):
        assert [p for _, p in row] == pytest.approx(share.tolist(), abs=1e-4)
        assert row[0][0].replace("␣", " ") == ("".join(vocab.decode(best[:1])) or f"[{best[0]}]")


def test_a_layer_may_have_a_window_of_its_own_and_zeros_alone_are_none():
    full = masked_softmax(scores(H, L, L), causal_mask(L)).float()
    near = masked_softmax(scores(H, L, L), sliding_window_mask(L, L, window=3)).float()
    assert find_mask([near, near]).equal(sliding_window_mask(L, L, window=3))
    assert find_mask([near, full]).equal(torch.stack([find_mask([near]), causal_mask(L)]))
    for row, column in ((4, 2), (3, 1)):  # within the window, a place that no head reads
        gap = near.clone()
        gap[:, row, column] = 0
        assert find_mask([gap]).equal(causal_mask(L))
    both = masked_softmax(scores(H, L, L), causal_mask(L, offset=1) & causal_mask(L, offset=1).T)
    assert find_mask([both.float()]).equal(causal_mask(L, offset=1) & causal_mask(L, offset=1).T)
    view = show_attention([full, full], TOKENS, mask=[causal_mask(L), find_mask([near])])
    for view.layer, mask in enumerate((causal_mask(L), find_mask([near]))):
        assert view._picture()["mask"].equal(mask)
    view.pinned = [0]  # of the first layer: what any head on show may read
    assert view._picture()["mask"].equal(causal_mask(L))
    with pytest.raises(ValueError, match="mask must be one or one a layer, got 3"):
        show_attention([full, full], TOKENS, mask=[causal_mask(L)] * 3)


def test_heads_that_share_keys_are_shown_where_their_number_is_said():
    view = show_attention(torch.cat(LAYERS, dim=1), TOKENS, kv_heads=2)
    assert view.data["sentences"][0]["views"][0]["kv_heads"] == 2
    view.weights = torch.cat(LAYERS, dim=1)
    assert view.data["sentences"][0]["views"][0]["kv_heads"] == 2
    for wrong in (4, 0, 7, "two"):
        with pytest.raises(ValueError, match="kv_heads must divide the 6 heads of a layer, got"):
            show_attention(torch.cat(LAYERS, dim=1), TOKENS, kv_heads=wrong)
    assert "kv_heads" not in show_attention(LAYERS, TOKENS).data["sentences"][0]["views"][0]


EYES = SIZES | {"num_attention_heads": 3, "image_size": 20, "patch_size": 5}
VISION = {"ViTModel": {}, "ViTForImageClassification": {}, "CLIPVisionModel": {}, "CLIPModel": {}}
PHOTO = (weights(23, 31, 3) * 700).clamp(max=255).to(torch.uint8).numpy()


def eyes_of(transformers, kind: str):
    """A vision model with random weights, and its processor."""
    make = transformers.ViTImageProcessorPil
    processor = make(size={"height": 20, "width": 20}, image_mean=[0.3, 0.4, 0.5])
    if kind != "CLIPModel":
        return random_of(transformers, kind, **EYES), processor
    text = SIZES | {"num_attention_heads": 3, "vocab_size": 9, "bos_token_id": 1, "eos_token_id": 2}
    config = transformers.CLIPConfig(text_config=text | {"pad_token_id": 0}, vision_config=EYES)
    return transformers.CLIPModel(config).eval(), processor


@pytest.mark.slow
@pytest.mark.parametrize("kind", VISION)
def test_a_vision_model_shows_its_picture_in_patches(kind, transformers):
    model, processor = eyes_of(transformers, kind)
    view = show_attention(model, processor, PHOTO)
    inputs = processor(images=PHOTO, return_tensors="pt")
    eyes = getattr(model, "vision_model", model)
    eyes.set_attn_implementation("eager")
    with torch.no_grad():
        expected = eyes(**inputs, output_attentions=True).attentions
    assert_shows(view, torch.cat(expected))
    image = view.data["sentences"][0]["image"]
    assert (image["grid"], image["first"], view.token) == ([4, 4], 1, 0)
    assert tokens_of(view)[0][:6] == ["[CLS]", "0,0", "0,1", "0,2", "0,3", "1,0"]
    pixels = inputs["pixel_values"][0].permute(1, 2, 0) * 0.5 + torch.tensor([0.3, 0.4, 0.5])
    assert float((decode(image["pixels"]) - pixels).abs().max()) < 0.003
    view.hide_special = True
    assert view.shown().shape == (16, 16)
    again = show_attention(model, processor, Image.fromarray(PHOTO), also=["values", "rollout"])
    assert (
        again.data["sentences"][0]["views"][0]["weights"]
        == (view.data["sentences"][0]["views"][0]["weights"])
    )


@pytest.mark.slow
def test_a_model_and_what_it_cannot_read_are_named(transformers):
    model, processor = eyes_of(transformers, "ViTModel")
    bert, tokenizer = random_bert(transformers), wordpiece(transformers)
    wrong = [
        ((model, processor, "a rose"), "ViTModel reads pictures, got 'a rose'"),
        ((model, None, PHOTO), "a vision model must come with its processor, got None"),
        ((model, processor, [PHOTO, PHOTO]), "image must be one picture, got pixels of shape (2,"),
        ((model, processor), "a model must come with its tokenizer and a text"),
        ((bert, tokenizer, PHOTO), "text must be a string or two strings, got a ndarray"),
        ((bert, processor, "a rose"), "a model of text must come with its tokenizer, got"),
    ]
    for arguments, words in wrong:
        with pytest.raises((TypeError, ValueError), match=re.escape(words)):
            show_attention(*arguments)


def test_weights_of_a_picture_are_shown_over_it():
    maps = torch.cat([LAYERS[0], LAYERS[0]], dim=1)[:, :4, :, :]  # (1, 4, 5, 5)
    for image in (PHOTO, PHOTO / 255.0, torch.tensor(PHOTO).permute(2, 0, 1), PHOTO[..., 0]):
        view = show_attention(maps, image=image, grid=(2, 2))
        assert tokens_of(view)[0] == ["[CLS]", "0,0", "0,1", "1,0", "1,1"]
        pixels = decode(view.data["sentences"][0]["image"]["pixels"])
        wanted = torch.tensor(PHOTO[..., :1] if image.ndim == 2 else PHOTO) / 255
        assert float((pixels - wanted).abs().max()) < 0.003
    large = show_attention(maps, image=torch.rand(3, 600, 300), grid=(2, 2))
    assert large.data["sentences"][0]["image"]["pixels"]["shape"] == [224, 112, 3]
    wrong = [
        ({"image": PHOTO}, "an image must come with its grid (rows, columns), got None"),
        ({"image": PHOTO, "grid": (3, 2)}, "grid must have at most the 5 places that are read"),
        ({"image": torch.rand(4, 6, 6), "grid": (2, 2)}, "image must be a picture (height, width)"),
        ({"image": torch.rand(6, 6) * 9, "grid": (2, 2)}, "image must be from 0 to 1, got"),
    ]
    for options, words in wrong:
        with pytest.raises((TypeError, ValueError), match=re.escape(words)):
            show_attention(maps, **options)


# Weights, weighted by values, rolled out


@pytest.mark.slow
def test_weights_are_weighted_by_the_lengths_of_the_values_that_they_read(transformers):
    tokenizer, model = wordpiece(transformers), random_bert(transformers)
    view = show_attention(model, tokenizer, "a roses is", also="values")
    kept = []
    for layer in model.encoder.layer:
        layer.attention.self.value.register_forward_hook(lambda *a: kept.append(a[-1]))
    ids = tokenizer("a roses is", return_tensors="pt")
    with torch.no_grad():
        read = model(**ids, output_attentions=True).attentions
    view.kind = 1
    for n, (value, layer) in enumerate(zip(kept, read, strict=True)):
        length = value[0].view(6, 3, 11).norm(dim=-1).T  # (H, S)
        share = layer[0] * length[:, None]
        share /= share.sum(-1, keepdim=True)
        assert float((view.weights[n] - share).abs().max()) < 1e-5
        assert float((share - layer[0]).abs().max()) > 1e-3


def test_the_values_of_our_own_blocks_are_found_and_weights_alone_have_none():
    encoder, tokenizer = load_encoder(minilm_folder())
    view = show_attention(encoder, tokenizer, "a rose is a rose", also=["rollout", "values"])
    names = [one["name"] for one in view.data["sentences"][0]["views"]]
    assert names == ["", "values", "rollout"]
    view.kind = 2
    layers = [layer[None] for layer in view._maps[view.data["sentences"][0]["views"][0]["key"]][0]]
    torch.testing.assert_close(view.weights[-1, 0], rollout(layers)[0], atol=1e-5, rtol=0)
    alone = show_attention(LAYERS, TOKENS, also="rollout")
    alone.kind, alone.layer = 1, 1
    torch.testing.assert_close(alone.weights[1, 0], rollout(LAYERS)[0], atol=1e-5, rtol=0)
    with pytest.raises(TypeError, match="also='values' must come with the model itself"):
        show_attention(LAYERS, TOKENS, also="values")
    with pytest.raises(ValueError, match="also must be among values, rollout, neurons"):
        show_attention(LAYERS, TOKENS, also="flow")


def test_two_views_stand_side_by_side_under_their_names():
    one, other = show_attention(LAYERS, TOKENS), show_attention(LAYERS[::-1], TOKENS)
    both = compare(before=one, after=other)
    assert both.data["beside"] == ["before", "after"]
    assert both.token == one.token
    for both.sentence, view in enumerate((one, other)):
        assert both.weights.equal(view.weights)
    many = of_many_tokens()
    assert len(compare(a=many, b=many).packed) == 2
    with pytest.raises(TypeError, match="compare must have two views by name, got 1"):
        compare(only=one)
    with pytest.raises(ValueError, match="the same layers and heads"):
        compare(a=one, b=show_attention(LAYERS[:1], TOKENS))
