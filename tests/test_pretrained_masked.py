"""Published masked language models in our blocks: the reference library's logits."""

from pathlib import Path

import pytest
import torch

from attn_notes.masks import padding_mask
from attn_notes.pretrained import load_encoder, load_masked_language_model
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
DENSE = "cls.predictions.transform.dense.weight"

VARIANTS = {
    "odd": {},
    "one head": {"num_attention_heads": 1, "hidden_size": 13, "num_hidden_layers": 3},
    "relu": {"hidden_act": "relu", "type_vocab_size": 5},
    "gelu by tanh": {"hidden_act": "gelu_new"},
    "gelu by torch's tanh": {"hidden_act": "gelu_pytorch_tanh"},
    "large eps": {"layer_norm_eps": 0.1, "max_position_embeddings": 7},
    "untied": {"tie_word_embeddings": False},
}


@pytest.mark.parametrize("kind", ["BertForMaskedLM", "BertForPreTraining"])
@pytest.mark.parametrize("variant", VARIANTS)
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


def test_what_is_read_back_by_the_reference_library_says_the_same(transformers, tmp_path):
    folder = saved(tmp_path, random_bert(transformers, "BertForMaskedLM"))
    reference = transformers.BertForMaskedLM.from_pretrained(folder, attn_implementation="eager")
    model, _ = load_masked_language_model(str(folder))
    assert_equal_layers(model, reference.eval(), TOKENS, LENGTHS)


def test_the_fused_kernel_gives_the_same_logits(transformers, tmp_path):
    reference = random_bert(transformers, "BertForMaskedLM")
    model, _ = load_masked_language_model(saved(tmp_path, reference))
    mask = padding_mask(LENGTHS, 7)
    with torch.no_grad():
        got = model(TOKENS, attn_mask=mask).logits
        expected = reference(TOKENS, attention_mask=mask[:, 0].long()).logits
    torch.testing.assert_close(got[mask[:, 0]], expected[mask[:, 0]], atol=1e-5, rtol=0)


@pytest.fixture
def folder(transformers, tmp_path) -> Path:
    return saved(tmp_path, random_bert(transformers, "BertForMaskedLM"))


@pytest.fixture
def untied(transformers, tmp_path) -> Path:
    return saved(tmp_path, random_bert(transformers, "BertForMaskedLM", tie_word_embeddings=False))


def test_its_body_is_the_encoder_of_the_same_file(folder):
    model, _ = load_masked_language_model(folder)
    assert same_weights(model.body, load_encoder(folder)[0])


# ---- Names and layouts of other years ---------------------------------------------------------


def older(tensors):
    """As files of 2019 have it: gamma and beta, positions, the copies of the tied tensors."""
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
    "the matrix under its other name": lambda t: {MATRIX if n == EMBEDDING else n: t[n] for n in t},
}


@pytest.mark.parametrize("change", REWRITTEN)
def test_a_file_that_holds_the_same_otherwise_gives_the_same(change, folder):
    expected, _ = load_masked_language_model(folder)
    rewrite(folder, REWRITTEN[change])
    assert same_weights(load_masked_language_model(folder)[0], expected)


def test_where_the_head_is_untied_an_older_file_has_one_bias(untied):
    rewrite(untied, lambda t: t.update({OLD_BIAS: t[BIAS].clone()}))
    expected, _ = load_masked_language_model(untied)
    rewrite(untied, lambda t: {n: t[n] for n in t if n != BIAS})
    assert same_weights(load_masked_language_model(untied)[0], expected)


# ---- What cannot be read ----------------------------------------------------------------------

WRONG = {
    "no head": (
        lambda f: rewrite(f, lambda t: {n: t[n] for n in t if not n.startswith("cls.")}),
        f"model.safetensors: {DENSE} must be there, and is missing",
    ),
    "a head without its bias": (
        lambda f: rewrite(f, lambda t: {n: t[n] for n in t if n != OLD_BIAS}),
        f"model.safetensors: {OLD_BIAS} must be there, and is missing",
    ),
    "a head of another width": (
        lambda f: rewrite(f, lambda t: t.update({DENSE: torch.ones(33, 34)})),
        f"model.safetensors: {DENSE} must have shape (33, 33), got (33, 34)",
    ),
    "a bias of another vocabulary": (
        lambda f: rewrite(f, lambda t: t.update({OLD_BIAS: torch.ones(100)})),
        f"model.safetensors: {OLD_BIAS} must have shape (101,), got (100,)",
    ),
    "a norm under two names": (
        lambda f: rewrite(
            f, lambda t: t.update({"bert.embeddings.LayerNorm.gamma": torch.ones(33)})
        ),
        "model.safetensors: embeddings.LayerNorm.weight must be there once, and ",
    ),
    "a tied head with a matrix of its own": (
        lambda f: rewrite(f, lambda t: t.update({MATRIX: t[EMBEDDING] + 1})),
        "must be equal to embeddings.word_embeddings.weight where tie_word_embeddings is true, got",
    ),
    "a tied head with a matrix of another shape": (
        lambda f: rewrite(f, lambda t: t.update({MATRIX: t[EMBEDDING][:-1].clone()})),
        f"{MATRIX} must be equal to embeddings.word_embeddings.weight",
    ),
    "a tied head with two biases": (
        lambda f: rewrite(f, lambda t: t.update({BIAS: t[OLD_BIAS] + 1})),
        f"{BIAS} must be equal to {OLD_BIAS} where tie_word_embeddings is true",
    ),
    "an untied head without a matrix": (
        lambda f: reconfigure(f, tie_word_embeddings=False),
        f"model.safetensors: {MATRIX} must be there, and is missing",
    ),
    "a NaN": (
        lambda f: rewrite(f, lambda t: t.update({DENSE: t[DENSE] / 0 * 0})),
        f"model.safetensors: {DENSE} must be numbers, got NaN",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_file_that_does_not_fit_is_named(what, folder):
    assert_refused(load_masked_language_model, folder, *WRONG[what])
