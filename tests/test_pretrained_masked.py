"""Published masked language models in our blocks: the reference library's logits."""

from pathlib import Path

import pytest
import torch

from attn_notes.pretrained import load_masked_language_model
from tests.oracles import rng
from tests.published import (
    assert_equal_layers,
    assert_refused,
    by_oldest_names,
    random_bert,
    reconfigure,
    rewrite,
    same_weights,
    saved,
)

LENGTHS = torch.tensor([7, 1, 4])
TOKENS = torch.randint(101, (3, 7), generator=rng())

MATRIX, BIAS = "cls.predictions.decoder.weight", "cls.predictions.decoder.bias"
OLD_BIAS = "cls.predictions.bias"
EMBEDDING = "bert.embeddings.word_embeddings.weight"

VARIANTS = {
    "odd": {},
    "gelu by tanh": {"hidden_act": "gelu_new"},
    "large eps": {"layer_norm_eps": 0.1, "max_position_embeddings": 7},
    "untied": {"tie_word_embeddings": False},
}


@pytest.mark.parametrize(
    ("variant", "kind"),
    [("odd", "BertForPreTraining"), *((variant, "BertForMaskedLM") for variant in VARIANTS)],
)
def test_a_random_bert_predicts_what_the_reference_library_predicts(
    variant, kind, transformers, tmp_path
):
    reference = random_bert(transformers, kind, **VARIANTS[variant])
    model, tokenizer = load_masked_language_model(saved(tmp_path, reference))
    types = torch.randint(reference.config.type_vocab_size, (3, 7), generator=rng(1))
    assert_equal_layers(model, reference, TOKENS, LENGTHS)
    assert_equal_layers(model, reference, TOKENS, LENGTHS, types)
    assert not model.training
    assert tokenizer.get_vocab_size() == 100
    tied = reference.config.tie_word_embeddings
    assert (model.out_proj.weight is model.body.embeddings.tokens.weight) == tied


@pytest.fixture
def folder(transformers, tmp_path) -> Path:
    return saved(tmp_path, random_bert(transformers, "BertForMaskedLM"))


# ---- Names and layouts of older files -----------------------------------------------------------


def older(tensors):
    """As in files of 2019: gamma and beta, positions, copies of the tied tensors."""
    return by_oldest_names(tensors) | {
        "bert.embeddings.position_ids": torch.arange(29)[None],
        "bert.pooler.dense.weight": torch.ones(33, 33),
        "bert.pooler.dense.bias": torch.ones(33),
        "cls.seq_relationship.weight": torch.ones(2, 33),
        "cls.seq_relationship.bias": torch.ones(2),
        MATRIX: tensors[EMBEDDING].clone(),
        BIAS: tensors[OLD_BIAS].clone(),
    }


REWRITTEN = {
    "older": older,
    "without the prefix": lambda t: {n.removeprefix("bert."): x for n, x in t.items()},
    "the bias under its other name": lambda t: {BIAS if n == OLD_BIAS else n: t[n] for n in t},
}


@pytest.mark.parametrize("change", REWRITTEN)
def test_a_file_with_the_same_tensors_in_another_layout_gives_the_same_model(change, folder):
    expected, _ = load_masked_language_model(folder)
    rewrite(folder, REWRITTEN[change])
    assert same_weights(load_masked_language_model(folder)[0], expected)


# ---- Files that do not fit ----------------------------------------------------------------------

WRONG = {
    "no head": (
        lambda f: rewrite(f, lambda t: {n: t[n] for n in t if not n.startswith("cls.")}),
        "transform.weight",
    ),
    "a head without its bias": (
        lambda f: rewrite(f, lambda t: {n: t[n] for n in t if n != OLD_BIAS}),
        "out_proj.bias",
    ),
    "an untied head without a matrix": (
        lambda f: reconfigure(f, tie_word_embeddings=False),
        "out_proj.weight",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_file_that_does_not_fit_is_refused(what, folder):
    assert_refused(load_masked_language_model, folder, *WRONG[what])
