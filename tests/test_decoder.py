"""The encoder-decoder, against torch's own and by its properties."""

import pytest
import torch
from torch import nn

from attn_notes import checks
from attn_notes.data import PAD
from attn_notes.decoding import greedy
from attn_notes.masks import causal_mask, padding_mask
from attn_notes.transformer import Transformer
from tests import small_models as small
from tests.oracles import L, S, gradients, half_precisions
from tests.small_models import BATCH, INPUTS, LENGTHS, SOURCE, VT, E, H, M, N
from tests.torch_blocks import torch_twin

# Against torch's own


def whole_twin(model: Transformer) -> nn.Transformer:
    """Torch's, without the last norm that torch adds to post-norm blocks and the paper does not."""
    encoder, decoder, settings = model.encoder, model.decoder, model.config
    layer = torch_twin(encoder.blocks[0], settings)
    twin = nn.Transformer(
        E,
        H,
        custom_encoder=nn.TransformerEncoder(layer, N, encoder.norm, enable_nested_tensor=False),
        custom_decoder=nn.TransformerDecoder(layer, M, decoder.norm),
        batch_first=True,
    )  # which draws all matrices again, so that ours come after it
    twin.encoder.layers = nn.ModuleList(torch_twin(block, settings) for block in encoder.blocks)
    twin.decoder.layers = nn.ModuleList(torch_twin(block, settings) for block in decoder.blocks)
    return twin


@small.both_norms
@pytest.mark.parametrize("scaled", [False, True])
def test_between_embeddings_and_logits_it_equals_torchs_transformer(norm, scaled):
    model = small.transformer(norm=norm, positions="sinusoidal", scale_embeddings=scaled)
    twin, padding = whole_twin(model), ~padding_mask(LENGTHS, S)[:, 0]
    masks = {"src_key_padding_mask": padding, "memory_key_padding_mask": padding}
    embedded = model.encoder.embeddings(SOURCE), model.decoder.embeddings(INPUTS)
    x = twin(*embedded, tgt_mask=~causal_mask(L), **masks)
    logits, weights = model(*BATCH)
    assert weights is None
    expected = x @ model.out_proj.weight.T
    torch.testing.assert_close(logits, expected)
    tables = [half.embeddings.tokens.weight for half in (model.encoder, model.decoder)]
    torch.testing.assert_close(gradients(logits, tables), gradients(expected, tables))


def test_the_memory_is_the_encoder_s_output_on_the_real_tokens():
    model = small.transformer()
    memory = model.encode(SOURCE, LENGTHS)
    expected = model.encoder(SOURCE, attn_mask=padding_mask(LENGTHS, S)).output
    torch.testing.assert_close(memory, expected)


# Padding


@small.every_scheme
@small.both_norms
def test_padding_changes_nothing(positions, norm):
    model = small.transformer(positions=positions, norm=norm, embed_dim=12)
    inputs = INPUTS.clone()
    inputs[1, 3:] = PAD
    checks.check_batch_invariant(model, SOURCE, LENGTHS, inputs, atol=1e-12)
    other = SOURCE.clone()
    other[1, 3:] = 5
    torch.testing.assert_close(model(other, LENGTHS, inputs)[0], model(SOURCE, LENGTHS, inputs)[0])


def test_an_empty_source_gives_finite_logits_and_gradients():
    model = small.transformer()
    logits = model(SOURCE, torch.tensor([0, S]), INPUTS)[0]
    assert logits.isfinite().all()
    assert all(x.isfinite().all() for x in gradients(logits, [*model.parameters()]))


# Step by step


@small.every_scheme
@small.both_norms
@small.both_paths
@pytest.mark.parametrize("kv_heads", [1, None])
@pytest.mark.parametrize("training", [True, False])
def test_steps_equal_the_parallel_pass(positions, norm, path, kv_heads, training):
    """A step has no later token to read: so the parallel pass reads none."""
    changes = {"positions": positions, "norm": norm, "num_kv_heads": kv_heads}
    also = dict.fromkeys(("embed_norm", "scale_embeddings", "tie_embeddings"), True)
    model = small.on_path(small.transformer(embed_dim=12, **also, **changes), path)
    model.train(training)
    checks.check_step_matches_parallel(model, *BATCH, atol=1e-12)
    checks.check_step_matches_parallel(model.float(), *BATCH, atol=1e-5)


def test_a_step_costs_one_position_and_projects_the_memory_once(monkeypatch):
    model, lengths = small.transformer().eval(), []
    project = nn.functional.linear
    monkeypatch.setattr(
        nn.functional, "linear", lambda x, *args: lengths.append(x.shape[1:-1]) or project(x, *args)
    )
    state = model.initial_state(SOURCE, LENGTHS)
    lengths.clear()
    _, state = model.step(INPUTS[:, 0], state)
    assert {*lengths} == {(1,), (S,), ()}
    assert lengths.count((S,)) == 2 * M  # keys and values of the memory in each block
    lengths.clear()
    model.step(INPUTS[:, 1], state)
    assert {*lengths} == {(1,), (0,), ()}


# Weights


@small.every_scheme
def test_weights_of_every_layer_are_returned_on_request(positions):
    model = small.transformer(positions=positions, embed_dim=12)
    logits, weights = model(*BATCH, need_weights=True)
    torch.testing.assert_close(logits, model(*BATCH)[0])
    real = padding_mask(LENGTHS, S)[:, None]
    for kind, layers, mask in zip(weights, (N, M, M), (real, causal_mask(L), real), strict=True):
        assert len(kind) == layers
        for layer in kind:
            checks.check_weights(layer, mask)
    assert [x[0].shape[2:] for x in weights] == [(S, S), (L, L), (L, S)]
    sensitivity = torch.autograd.grad(logits[0, -1, 0], [x for kind in weights for x in kind])
    assert all(bool(g.any()) for g in sensitivity)


def test_weights_that_nobody_asks_for_are_not_computed(monkeypatch):
    monkeypatch.setattr("attn_notes.multihead.attention_weights", None)
    assert small.transformer()(*BATCH)[1] is None
    greedy(small.transformer(), SOURCE, LENGTHS, max_length=3)


# Parameters


@pytest.mark.parametrize("change", [{}, {"tie_embeddings": True}, {"scale_embeddings": True}])
@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
def test_initial_weights_are_as_the_docstring_says(change, positions):
    wide = {"embed_dim": 64, "num_heads": 4, "vocab_size": 400, "ffn_dim": 100}
    model = Transformer(small.config(**wide, max_length=300, positions=positions, **change))
    std = 1.0 if not change else 1 / 8
    for half in (model.encoder, model.decoder):
        assert half.embeddings.tokens.weight.std().item() == pytest.approx(std, rel=0.05)
        if positions == "learned":
            scaled = std * (8 if "scale_embeddings" in change else 1)
            assert half.embeddings.positions.weight.std().item() == pytest.approx(scaled, rel=0.05)
    for module in model.modules():
        if isinstance(module, nn.Linear) and module.bias is not None:
            assert not module.bias.any()
            bound = (6 / sum(module.weight.shape)) ** 0.5
            assert 0.9 * bound < module.weight.abs().max() <= bound
    if not change.get("tie_embeddings"):
        assert model.out_proj.weight.abs().max() <= (6 / (400 + 64)) ** 0.5


@half_precisions
@small.every_scheme
def test_half_precision_stays_finite_and_close(dtype, positions):
    torch.manual_seed(0)
    model = Transformer(small.config(positions=positions, embed_dim=12, target_vocab_size=VT))
    expected = model(*BATCH)[0]
    got = model.to(dtype)(*BATCH)[0]
    assert got.dtype == dtype
    torch.testing.assert_close(got.float(), expected, atol=0.1, rtol=0.0)
    assert model.eval().start(SOURCE, LENGTHS)[0].dtype == dtype
