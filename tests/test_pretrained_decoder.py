"""Published decoders in our blocks: the reference library's states, logits and text."""

from pathlib import Path

import pytest
import torch
from torch import nn

from attn_notes.checks import check_weights
from attn_notes.data import SpecialTokens
from attn_notes.decoding import greedy
from attn_notes.masks import causal_mask, padding_mask
from attn_notes.pretrained import load_decoder
from tests.oracles import rng
from tests.published import (
    assert_refused,
    random_gpt2,
    reconfigure,
    rewrite,
    same_weights,
    saved,
)

LENGTHS = torch.tensor([7, 1, 4])
TOKENS = torch.randint(101, (3, 7), generator=rng())
REAL = padding_mask(LENGTHS, 7)[:, 0]  # (B, L)

VARIANTS = {
    "odd": {},
    "narrow heads": {"n_head": 11, "n_embd": 11, "n_layer": 1},
    "gelu": {"activation_function": "gelu"},
    "large eps": {"layer_norm_epsilon": 0.1, "n_positions": 7},
    "scores in 32 bits": {"reorder_and_upcast_attn": True},
    "untied": {"tie_word_embeddings": False},
}


@torch.no_grad()
def pairs(model, reference, tokens, real) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Ours and the reference's where tokens are real: logits, states, output, weights."""
    blocks = []  # the reference keeps its last state only after the last norm
    hook = reference.transformer.h[-1].register_forward_hook(lambda *call: blocks.append(call[-1]))
    expected = reference(
        tokens, attention_mask=real.long(), output_hidden_states=True, output_attentions=True
    )
    hook.remove()
    got = model(tokens, need_weights=True, need_hidden_states=True)
    for weights in got.weights:
        check_weights(weights, causal_mask(tokens.shape[1]))
    ours = (got.logits, *got.hidden_states, model.body.norm(got.hidden_states[-1]), *got.weights)
    theirs = (
        expected.logits,
        *expected.hidden_states[:-1],
        blocks[0],
        expected.hidden_states[-1],
        *expected.attentions,
    )
    assert len(ours) == 3 + 2 * model.config.num_layers
    both = zip(ours, theirs, strict=True)
    return [tuple(x.transpose(1, -2)[real] for x in pair) for pair in both]  # queries' axis first


def assert_equal_layers(model, reference, tokens, real) -> None:
    """To 1e-5 in 32 bits, to 1e-11 in 64."""
    for got, expected in pairs(model, reference, tokens, real):
        torch.testing.assert_close(got, expected, atol=1e-5, rtol=0)
    for got, expected in pairs(model.double(), reference.double(), tokens, real):
        torch.testing.assert_close(got, expected, atol=1e-11, rtol=0)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_random_gpt2_predicts_what_the_reference_library_predicts(
    variant, transformers, tmp_path
):
    reference = random_gpt2(transformers, **VARIANTS[variant])
    model, tokenizer = load_decoder(saved(tmp_path, reference))
    assert not model.training
    assert tokenizer.get_vocab_size() == 100
    assert model.special_tokens == SpecialTokens(pad=100, start=None, end=100)
    tied = reference.config.tie_word_embeddings
    assert (model.out_proj.weight is model.body.embeddings.tokens.weight) == tied
    layers = [m for m in model.modules() if isinstance(m, nn.Linear)]
    assert [m.weight.T.is_contiguous() for m in layers] == [
        m.out_features > m.in_features for m in layers
    ]
    if reference.config.reorder_and_upcast_attn:  # the reference itself then leaves 64 bits
        for got, expected in pairs(model, reference, TOKENS, REAL):
            torch.testing.assert_close(got, expected, atol=1e-5, rtol=0)
    else:
        assert_equal_layers(model, reference, TOKENS, REAL)


def test_it_generates_what_the_reference_library_generates(transformers, tmp_path):
    reference = random_gpt2(transformers, n_positions=40)
    folder = saved(tmp_path, reference)
    prompts = torch.randint(101, (5, 3), generator=rng(2))
    keywords = {"max_new_tokens": 30, "do_sample": False, "attention_mask": prompts * 0 + 1}
    endless = reference.generate(prompts, pad_token_id=100, eos_token_id=100, **keywords)
    said = int(endless[0, 8])  # as the end of text, it ends one row at least before the others
    for end in (100, said):
        reconfigure(folder, eos_token_id=end)
        model, _ = load_decoder(folder)
        expected = reference.generate(prompts, pad_token_id=end, eos_token_id=end, **keywords)
        got = greedy(model, prompts, max_length=30).tokens
        assert torch.equal(got, expected[:, 3:])
    assert (got[0, 6:] == said).all()
    assert (got != said).sum(1).unique().numel() > 1


@pytest.fixture
def folder(transformers, tmp_path) -> Path:
    return saved(tmp_path, random_gpt2(transformers))


# ---- Names and layouts of older files -----------------------------------------------------------

WTE, HEAD = "transformer.wte.weight", "lm_head.weight"
FUSED = "transformer.h.1.attn.c_attn.weight"


def older(tensors):
    """As in files of 2019: no prefix, and the causal mask as a buffer."""
    plain = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}
    for i in range(2):
        plain[f"h.{i}.attn.bias"] = torch.ones(29, 29).tril()[None, None]
        plain[f"h.{i}.attn.masked_bias"] = torch.tensor(-1e4)
    return plain


REWRITTEN = {
    "older": older,
    "older, with the tied head": lambda t: {HEAD: t[WTE].clone(), **older(t)},
}


@pytest.mark.parametrize("change", REWRITTEN)
def test_a_file_with_the_same_tensors_in_another_layout_gives_the_same_model(change, folder):
    expected, _ = load_decoder(folder)
    rewrite(folder, REWRITTEN[change])
    assert same_weights(load_decoder(folder)[0], expected)


def test_a_decoder_saved_without_its_head_is_whole(transformers, tmp_path):
    whole = random_gpt2(transformers)
    expected, _ = load_decoder(saved(tmp_path / "whole", whole))
    got, _ = load_decoder(saved(tmp_path / "bare", whole.transformer))
    assert same_weights(got, expected)


# ---- Files that do not fit ----------------------------------------------------------------------

WRONG = {
    "a tensor missing": (
        lambda f: rewrite(f, lambda t: {n: t[n] for n in t if n != FUSED}),
        "blocks.1.self_attn.qkv_proj.weight",
    ),
    "an untied head without a matrix": (
        lambda f: reconfigure(f, tie_word_embeddings=False),
        "out_proj.weight",
    ),
    "scores divided by the layer's number": (
        lambda f: reconfigure(f, scale_attn_by_inverse_layer_idx=True),
        "config.json: scale_attn_by_inverse_layer_idx must be False, got True",
    ),
    "several ends of text": (
        lambda f: reconfigure(f, eos_token_id=[5, 6]),
        "config.json: eos_token_id must be an id, got [5, 6]",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_file_that_does_not_fit_is_refused(what, folder):
    assert_refused(load_decoder, folder, *WRONG[what])
