"""What all readers of published models share: where files come from, and which are refused."""

import re
import sys
from functools import partial
from pathlib import Path

import huggingface_hub
import pytest
import torch

from attn_notes.pretrained import (
    WeightsNotFound,
    load_decoder,
    load_encoder,
    load_masked_language_model,
)
from attn_notes.pretrained.folders import FILES
from tests import hub
from tests.published import (
    assert_refused,
    random_bert,
    random_gpt2,
    reconfigure,
    rewrite,
    same_weights,
    saved,
    small_tokenizer,
)

# A reader, and a small model of its kind.
READERS = {
    "encoder": (load_encoder, random_bert),
    "masked": (load_masked_language_model, partial(random_bert, kind="BertForMaskedLM")),
    "decoder": (load_decoder, random_gpt2),
}
every_reader = pytest.mark.parametrize("reader", READERS)
of_bert = pytest.mark.parametrize("reader", ["encoder", "masked"])


@pytest.fixture
def load(reader):
    return READERS[reader][0]


@pytest.fixture
def folder(reader, transformers, tmp_path) -> Path:
    return saved(tmp_path, READERS[reader][1](transformers))


# ---- What is read -----------------------------------------------------------------------------


@every_reader
def test_the_callers_random_numbers_are_not_used_up(load, folder):
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    load(folder)
    assert torch.equal(torch.rand(3), expected)


@every_reader
def test_weights_in_half_precision_are_read_in_single(load, folder):
    expected, _ = load(folder)
    rewrite(folder, lambda tensors: {name: t.half() for name, t in tensors.items()})
    got, _ = load(str(folder))
    assert {p.dtype for p in got.parameters()} == {torch.float32}
    assert same_weights(got, expected.half().float())


@of_bert
def test_what_only_later_versions_write_may_be_missing(load, folder):
    expected, _ = load(folder)
    later = (
        "model_type", "position_embedding_type", "is_decoder", "add_cross_attention",
        "tie_word_embeddings",
    )  # fmt: skip
    reconfigure(folder, **dict.fromkeys(later, "-"))
    got, _ = load(folder)
    assert got.config == expected.config
    assert same_weights(got, expected)


# ---- What cannot be read ----------------------------------------------------------------------


def cut_off(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-5])


# Whatever the model.
SPOILED = {
    "a head of another task": (
        lambda f: rewrite(f, lambda t: t.update({"classifier.weight": torch.ones(2, 33)})),
        "model.safetensors: classifier.weight is no tensor of the model",
    ),
    "weights cut off": (
        cut_off,
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
    "a config that is a list": (
        lambda f: (f / "config.json").write_text("[1]"),
        "config.json must be a JSON object, got something else",
    ),
    "a config that is no text": (
        lambda f: (f / "config.json").write_bytes(b"\xff\xfe\x00"),
        "config.json must be a JSON object, got something else",
    ),
    "a vocabulary that is a word": (
        lambda f: reconfigure(f, vocab_size="many"),
        "config.json: vocab_size must be a whole number, 1 or more, got 'many'",
    ),
    "a tie that is a word": (
        lambda f: reconfigure(f, tie_word_embeddings="yes"),
        "config.json: tie_word_embeddings must be one of (True, False), got 'yes'",
    ),
    "a tie that is null": (
        lambda f: reconfigure(f, tie_word_embeddings=None),
        "config.json: tie_word_embeddings must be one of (True, False), got None",
    ),
    "attention to an encoder": (
        lambda f: reconfigure(f, add_cross_attention=True),
        "config.json: add_cross_attention must be False, got True",
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
# Of the BERT family, whatever stands on top of it.
SPOILED_BERT = {
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
    "an activation that is a list": (
        lambda f: reconfigure(f, hidden_act=["gelu"]),
        "config.json: hidden_act must be one of ('gelu', 'relu', 'gelu_new', 'gelu_pytorch_tanh')",
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
}


@every_reader
@pytest.mark.parametrize("what", SPOILED)
def test_a_spoiled_file_is_named(what, load, folder):
    assert_refused(load, folder, *SPOILED[what])


@of_bert
@pytest.mark.parametrize("what", SPOILED_BERT)
def test_a_file_that_does_not_fit_a_bert_is_named(what, load, folder):
    assert_refused(load, folder, *SPOILED_BERT[what])


@every_reader
@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_missing_is_named(name, load, folder):
    (folder / name).unlink()
    with pytest.raises(WeightsNotFound, match=f"{name} is missing"):
        load(folder)


@every_reader
@pytest.mark.parametrize("source", [Path("no/folder"), "nothing", "./no/folder", "../no", "a/"])
def test_a_folder_that_is_not_there_is_named_and_not_looked_for_on_the_hub(
    source, load, monkeypatch
):
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: pytest.fail("asked"))
    words = f"{source} must be a folder, and is not there"
    with pytest.raises(WeightsNotFound, match=re.escape(words)):
        load(source)


# ---- The hub ----------------------------------------------------------------------------------


@every_reader
def test_a_name_is_downloaded_from_the_hub_once(load, folder, hub_of):
    (folder / "run_me.py").write_text("raise SystemExit")
    expected, _ = load(folder)
    with hub.serve(folder) as address:
        cache = hub_of(address)
        got, tokenizer = load("owner/model")
        assert same_weights(got, expected)
        assert tokenizer.get_vocab_size() == 100
        with pytest.raises(WeightsNotFound, match="owner/other is no folder here, and downloading"):
            load("owner/other")
    kept, _ = load("owner/model")  # the hub is gone
    assert same_weights(kept, expected)
    assert sorted(p.name for p in cache.glob("**/snapshots/*/*")) == sorted(FILES)


@every_reader
def test_without_a_network_the_message_says_so(load, hub_of):
    hub_of("http://127.0.0.1:9", local_files_only=True)
    with pytest.raises(WeightsNotFound, match=r"downloading it from the hub failed: Local\w+: "):
        load("owner/model")
    hub_of("http://127.0.0.1:9")
    with pytest.raises(WeightsNotFound, match="downloading it from the hub failed"):
        load("owner/model")


@every_reader
def test_without_the_hubs_package_the_message_says_what_to_install(load, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(WeightsNotFound, match="pip install huggingface_hub"):
        load("owner/model")
