"""What all loaders of published models share: where files come from, and which are refused."""

import inspect
import math
import re
from functools import partial
from pathlib import Path

import huggingface_hub
import pytest
import torch

from attn_notes import pretrained
from attn_notes.pretrained.folders import FILES, INDEX, SHARDS
from tests.published import random_bert, random_gpt2, reconfigure, rewrite, same_weights, saved

pytestmark = pytest.mark.slow  # the reference library takes seconds to load

# A loader, and a small model of its kind.
LOADERS = {
    "encoder": (pretrained.load_encoder, random_bert),
    "masked": (pretrained.load_masked_language_model, partial(random_bert, kind="BertForMaskedLM")),
    "decoder": (pretrained.load_decoder, random_gpt2),
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


# Names and layouts of older files

EMBEDDING, HEAD = "bert.embeddings.word_embeddings.weight", "cls.predictions"
WTE = "transformer.wte.weight"


def older_bert(tensors):
    """As in files of 2018 and 2019: gamma and beta, positions, copies of the tied tensors."""
    oldest = {"weight": "gamma", "bias": "beta"}
    renamed = {
        re.sub(r"(?<=LayerNorm\.)(weight|bias)$", lambda found: oldest[found[0]], name): tensor
        for name, tensor in tensors.items()
    }
    return renamed | {
        "bert.embeddings.position_ids": torch.arange(29)[None],
        "bert.pooler.dense.weight": torch.ones(33, 33),
        "cls.seq_relationship.bias": torch.ones(2),
        f"{HEAD}.decoder.weight": tensors[EMBEDDING].clone(),
        f"{HEAD}.decoder.bias": tensors[f"{HEAD}.bias"].clone(),
    }


def older_gpt2(tensors):
    """As in files of 2019: no prefix, and the causal mask as a buffer."""
    plain = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}
    for i in range(2):
        plain[f"h.{i}.attn.bias"] = torch.ones(29, 29).tril()[None, None]
        plain[f"h.{i}.attn.masked_bias"] = torch.tensor(-1e4)
    return plain


LAYOUTS = [
    ("masked", older_bert),
    ("masked", lambda t: {n.removeprefix("bert."): x for n, x in t.items()}),
    ("masked", lambda t: {n.replace(f"{HEAD}.bias", f"{HEAD}.decoder.bias"): t[n] for n in t}),
    ("decoder", older_gpt2),
    ("decoder", lambda t: {"lm_head.weight": t[WTE].clone(), **older_gpt2(t)}),
]


@pytest.mark.parametrize(("loader", "change"), LAYOUTS)
def test_a_file_with_the_same_tensors_in_another_layout_gives_the_same_model(change, load, folder):
    expected, _ = load(folder)
    rewrite(folder, change)
    assert same_weights(load(folder)[0], expected)


@pytest.mark.parametrize("loader", ["encoder", "masked"])
def test_keys_that_only_later_versions_write_may_be_missing(load, folder):
    expected, _ = load(folder)
    later = ("model_type", "position_embedding_type", "is_decoder", "add_cross_attention")
    reconfigure(folder, **dict.fromkeys((*later, "tie_word_embeddings"), "-"))
    got, _ = load(folder)
    assert got.config == expected.config
    assert same_weights(got, expected)


# Files that do not fit


def config(**changes):
    return lambda folder: reconfigure(folder, **changes)


def without(part):
    """Without the tensors in whose name this is."""
    return lambda folder: rewrite(folder, lambda t: {n: t[n] for n in t if part not in n})


def another_head(folder):
    rewrite(folder, lambda tensors: tensors.update({"classifier.weight": torch.ones(2, 33)}))


BERTS, RELATIVE = ("encoder", "masked"), "position_embedding_type"
WRONG = [
    (LOADERS, another_head, "classifier.weight"),
    (LOADERS, config(vocab_size="many"), "config.json must describe one of our models"),
    (LOADERS, config(tie_word_embeddings="yes"), "tie_embeddings must be"),
    (LOADERS, lambda f: (f / "tokenizer.json").write_text("{}"), "must hold a tokenizer"),
    (BERTS, without("layer.1.attention.self"), "blocks.1.self_attn.q_proj.weight"),
    (BERTS, config(hidden_size=36), "[101, 36]"),
    (BERTS, config(model_type="gpt2"), "config.json: model_type must be 'bert', got 'gpt2'"),
    (BERTS, config(**{RELATIVE: "key"}), f"{RELATIVE} must be 'absolute', got 'key'"),
    (["masked"], without("cls."), "transform.weight"),
    (["masked"], without(f"{HEAD}.bias"), "out_proj.bias"),
    (["masked", "decoder"], config(tie_word_embeddings=False), "out_proj.weight"),
    (["decoder"], without("h.1.attn.c_attn.weight"), "blocks.1.self_attn.qkv_proj.weight"),
    (["decoder"], config(scale_attn_by_inverse_layer_idx=True), "_idx must be False, got True"),
    (["decoder"], config(eos_token_id=[5, -1]), "an id, or a list of ids, got [5, -1]"),
]


@pytest.mark.parametrize(
    ("loader", "spoil", "words"), [(name, *row) for names, *row in WRONG for name in names]
)
def test_a_file_that_does_not_fit_is_refused(spoil, words, load, folder):
    spoil(folder)
    with pytest.raises(ValueError, match=re.escape(words)) as raised:
        load(folder)
    assert str(folder) in str(raised.value)


def wrote(name, data):
    """With this as a file's whole content."""
    return lambda folder: (folder / name).write_bytes(data)


def flipped(folder):
    """With a bit of the header the other way round: a tensor ends where no tensor ends."""
    path = folder / "model.safetensors"
    data = bytearray(path.read_bytes())
    at = data.index(b'"data_offsets":[') + 20
    data[at] ^= 1
    path.write_bytes(data)


def poisoned(value):
    """With one number that is not finite, in one tensor that is read."""

    def change(tensors):
        name = next(n for n in tensors if "word_embeddings" in n or "wte" in n)
        tensors[name][7, 5] = value

    return lambda folder: rewrite(folder, change)


def whole_numbers(folder):
    rewrite(folder, lambda tensors: {name: t.long() for name, t in tensors.items()})


def layers(count):
    """With this number of layers, by the keys of either family."""
    return config(num_hidden_layers=count, n_layer=count)


CONFIG, WEIGHTS = "config.json", "model.safetensors"
DAMAGED = [
    *((CONFIG, wrote(CONFIG, text)) for text in (b"", b"[]", b"{", b"\xff\xfe")),
    (CONFIG, config(vocab_size=10**400)),
    (CONFIG, config(vocab_size=10**15)),
    *((WEIGHTS, layers(count)) for count in (1, 3)),
    *((WEIGHTS, wrote(WEIGHTS, data)) for data in (b"", b"\xff" * 100)),
    (WEIGHTS, flipped),
    (WEIGHTS, lambda f: (f / WEIGHTS).write_bytes((f / WEIGHTS).read_bytes()[:-1])),
    (WEIGHTS, whole_numbers),
    *((WEIGHTS, poisoned(value)) for value in (math.nan, math.inf, -math.inf)),
]


@pytest.mark.parametrize("loader", ["encoder", "decoder"])
@pytest.mark.parametrize(("name", "spoil"), DAMAGED)
def test_a_damaged_or_absurd_file_is_refused_by_its_path(name, spoil, load, folder):
    spoil(folder)
    with pytest.raises(ValueError, match=re.escape(str(folder / name))):
        load(folder)


# The hub


@every_loader
@pytest.mark.parametrize("source", [Path("no/folder"), "nothing", "../no"])
def test_a_missing_folder_is_not_looked_for_on_the_hub(source, load, monkeypatch):
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: pytest.fail("asked"))
    with pytest.raises(pretrained.WeightsNotFound, match=re.escape(f"{source} must be a folder")):
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
    assert same_weights(load("owner/model", revision="0123abc")[0], expected)
    assert [one.pop("revision", None) for one in asked] == [None, "0123abc"]
    patterns = [*FILES, INDEX, SHARDS]
    assert asked == [{"repo_id": "owner/model", "allow_patterns": patterns}] * 2


@every_loader
def test_a_folder_has_no_revision(load, folder):
    with pytest.raises(ValueError, match="revision"):
        load(folder, revision="main")


def test_a_failed_download_is_reported(monkeypatch, tmp_path):
    download = partial(huggingface_hub.snapshot_download, local_files_only=True, cache_dir=tmp_path)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    words = r"downloading it from the hub failed: Local\w+: "
    with pytest.raises(pretrained.WeightsNotFound, match=words):
        pretrained.load_encoder("owner/model")
