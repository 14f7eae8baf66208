"""What all loaders of published models share: where files come from, and which are refused."""

import inspect
import re
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
from tests.published import (
    assert_refused,
    random_bert,
    random_gpt2,
    reconfigure,
    rewrite,
    same_weights,
    saved,
)

# A loader, and a small model of its kind.
LOADERS = {
    "encoder": (load_encoder, random_bert),
    "masked": (load_masked_language_model, partial(random_bert, kind="BertForMaskedLM")),
    "decoder": (load_decoder, random_gpt2),
}
every_loader = pytest.mark.parametrize("loader", LOADERS)


@pytest.fixture
def load(loader):
    return LOADERS[loader][0]


@pytest.fixture
def folder(loader, transformers, tmp_path) -> Path:
    return saved(tmp_path, LOADERS[loader][1](transformers))


@every_loader
def test_weights_in_half_precision_are_loaded_in_single(load, folder):
    expected, _ = load(folder)
    rewrite(folder, lambda tensors: {name: t.half() for name, t in tensors.items()})
    got, _ = load(str(folder))
    assert {p.dtype for p in got.parameters()} == {torch.float32}
    assert same_weights(got, expected.half().float())


@pytest.mark.parametrize("loader", ["encoder", "masked"])
def test_keys_that_only_later_versions_write_may_be_missing(load, folder):
    expected, _ = load(folder)
    later = (
        "model_type", "position_embedding_type", "is_decoder", "add_cross_attention",
        "tie_word_embeddings",
    )  # fmt: skip
    reconfigure(folder, **dict.fromkeys(later, "-"))
    got, _ = load(folder)
    assert got.config == expected.config
    assert same_weights(got, expected)


# ---- Files that do not fit ----------------------------------------------------------------------


WRONG = {
    "the head of another task": (
        lambda f: rewrite(f, lambda t: t.update({"classifier.weight": torch.ones(2, 33)})),
        "classifier.weight",
    ),
    "a vocabulary in words": (
        lambda f: reconfigure(f, vocab_size="many"),
        "vocab_size must be an integer",
    ),
    "a tie in words": (
        lambda f: reconfigure(f, tie_word_embeddings="yes"),
        "tie_embeddings must be",
    ),
    "a tokenizer of another kind": (
        lambda f: (f / "tokenizer.json").write_text("{}"),
        "tokenizer.json must hold a tokenizer",
    ),
}
WRONG_BERT = {
    "a tensor missing": (
        lambda f: rewrite(f, lambda t: {n: t[n] for n in t if "layer.1.attention.self" not in n}),
        "blocks.1.self_attn.q_proj.weight",
    ),
    "a wider model's config": (lambda f: reconfigure(f, hidden_size=36), "[101, 36]"),
    "a config of another family": (
        lambda f: reconfigure(f, model_type="gpt2"),
        "config.json: model_type must be 'bert', got 'gpt2'",
    ),
    "relative positions": (
        lambda f: reconfigure(f, position_embedding_type="relative_key"),
        "position_embedding_type must be 'absolute', got 'relative_key'",
    ),
}


@every_loader
@pytest.mark.parametrize("what", WRONG)
def test_a_damaged_file_is_refused(what, load, folder):
    assert_refused(load, folder, *WRONG[what])


@pytest.mark.parametrize("loader", ["encoder", "masked"])
@pytest.mark.parametrize("what", WRONG_BERT)
def test_a_file_that_does_not_fit_a_bert_is_refused(what, load, folder):
    assert_refused(load, folder, *WRONG_BERT[what])


# ---- The hub ------------------------------------------------------------------------------------


@every_loader
@pytest.mark.parametrize("source", [Path("no/folder"), "nothing", "../no"])
def test_a_missing_folder_is_not_looked_for_on_the_hub(source, load, monkeypatch):
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: pytest.fail("asked"))
    with pytest.raises(WeightsNotFound, match=re.escape(f"{source} must be a folder")):
        load(source)


@every_loader
def test_a_name_is_downloaded_from_the_hub_but_for_what_is_not_read(load, folder, monkeypatch):
    expected, _ = load(folder)
    bound, asked = inspect.signature(huggingface_hub.snapshot_download), []

    def download(*given, **keywords) -> str:
        asked.append(bound.bind(*given, **keywords).arguments)
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    assert same_weights(load("owner/model")[0], expected)
    assert asked == [{"repo_id": "owner/model", "allow_patterns": list(FILES)}]


def test_a_failed_download_is_reported(monkeypatch, tmp_path):
    download = partial(huggingface_hub.snapshot_download, local_files_only=True, cache_dir=tmp_path)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    with pytest.raises(WeightsNotFound, match=r"downloading it from the hub failed: Local\w+: "):
        load_encoder("owner/model")
