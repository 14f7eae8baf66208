"""Published decoders in our blocks: the reference library's states, logits and text."""

import pytest
import torch
from torch import nn

from attn_notes.checks import check_weights
from attn_notes.data import SpecialTokens
from attn_notes.decoding import greedy
from attn_notes.masks import causal_mask, padding_mask
from attn_notes.pretrained import load_decoder
from tests.oracles import rng
from tests.published import random_gpt2, reconfigure, same_weights, saved

pytestmark = pytest.mark.slow  # the reference library takes seconds to load

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
    *states, last = expected.hidden_states
    theirs = (expected.logits, *states, blocks[0], last, *expected.attentions)
    assert len(ours) == 3 + 2 * model.config.num_layers
    both = zip(ours, theirs, strict=True)
    return [tuple(x.transpose(1, -2)[real] for x in pair) for pair in both]  # queries' axis first


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
    for got, expected in pairs(model, reference, TOKENS, REAL):
        torch.testing.assert_close(got, expected, atol=1e-5, rtol=0)
    if not reference.config.reorder_and_upcast_attn:  # else the reference itself leaves 64 bits
        for got, expected in pairs(model.double(), reference.double(), TOKENS, REAL):
            torch.testing.assert_close(got, expected, atol=1e-11, rtol=0)


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


def test_a_decoder_saved_without_its_head_is_whole(transformers, tmp_path):
    whole = random_gpt2(transformers)
    expected, _ = load_decoder(saved(tmp_path / "whole", whole))
    got, _ = load_decoder(saved(tmp_path / "bare", whole.transformer))
    assert same_weights(got, expected)
