"""Blocks, embeddings, encoder and config, against torch's own layers and by their properties."""

import dataclasses
import re

import pytest
import torch
from torch import nn

from attn_notes import checks
from attn_notes import positions as P
from attn_notes import transformer as X
from attn_notes.masks import causal_mask, padding_mask
from attn_notes.norms import RMSNorm
from attn_notes.transformer import DecoderBlock, Encoder, EncoderBlock, attention_positions
from tests import small_models as small
from tests.oracles import B, L, S, assert_same, coin, filled, gradients, half_precisions, normal
from tests.small_models import LENGTHS, E, H, N, config, ids
from tests.torch_blocks import in_torch_names, torch_twin

TOKENS, REAL = ids(B, L), padding_mask([L, 2], L)

# Against torch's own blocks

CAUSAL, SOME_HEADS = causal_mask(L), coin(B, H, L, L) | torch.eye(L).bool()
SOURCE_REAL, SOME_PAIRS = padding_mask(LENGTHS, S), coin(L, S) | torch.eye(L, S).bool()
THEIRS = {"tgt_mask": ~CAUSAL, "memory_key_padding_mask": ~SOURCE_REAL[:, 0]}
# For each kind of block: masks as our block takes them, and as torch's does.
MASKS = {
    EncoderBlock: [
        ({}, {}),
        ({"attn_mask": CAUSAL}, {"src_mask": ~CAUSAL}),
        ({"attn_mask": REAL}, {"src_key_padding_mask": ~REAL[:, 0]}),
        (
            {"attn_mask": REAL, "is_causal": True},
            {"src_mask": ~CAUSAL, "src_key_padding_mask": ~REAL[:, 0]},
        ),
        ({"attn_mask": SOME_HEADS}, {"src_mask": ~SOME_HEADS.flatten(0, 1)}),
    ],
    DecoderBlock: [
        ({}, {"tgt_mask": ~CAUSAL}),
        ({"memory_mask": SOURCE_REAL}, THEIRS),
        (
            {"memory_mask": SOURCE_REAL, "attn_mask": REAL},
            THEIRS | {"tgt_key_padding_mask": ~REAL[:, 0]},
        ),
        (
            {"attn_mask": SOME_HEADS, "memory_mask": SOME_PAIRS},
            {"tgt_mask": ~(SOME_HEADS & CAUSAL).flatten(0, 1), "memory_mask": ~SOME_PAIRS},
        ),
    ],
}
CASES = [(kind, *masks) for kind, pairs in MASKS.items() for masks in pairs]


@pytest.mark.parametrize("need_weights", [False, True])
@small.both_norms
@pytest.mark.parametrize("activation", ["gelu", "relu"])
@pytest.mark.parametrize("case", CASES)
def test_a_block_equals_torchs_layer(norm, activation, need_weights, case):
    """Values, and gradients in the inputs and in every parameter."""
    kind, ours, theirs = case
    ours = ours | {"need_weights": need_weights}
    settings = config(norm=norm, activation=activation, layer_norm_eps=0.01)
    block = filled(kind(settings))
    twin, inputs = torch_twin(block, settings), [normal(B, L, E), normal(B, S, E, seed=1)]
    inputs = inputs[: 1 + (kind is DecoderBlock)]
    assert_same(lambda *x: block(*x, **ours)[0], lambda *x: twin(*x, **theirs), *inputs)
    found = []
    for module, output in ((block, block(*inputs, **ours)[0]), (twin, twin(*inputs, **theirs))):
        names, parameters = zip(*module.named_parameters(), strict=True)
        found.append(dict(zip(names, gradients(output, parameters), strict=True)))
    torch.testing.assert_close(in_torch_names(found[0]), found[1])


@small.both_norms
@pytest.mark.parametrize("kind", [EncoderBlock, DecoderBlock])
def test_dropout_acts_where_torchs_does(norm, kind):
    """On one sequence: torch lays a batch out in another order, and a seed drops other entries."""
    settings = config(norm=norm, dropout=0.4)
    block = filled(kind(settings))
    inputs, masks, twin = [normal(1, L, E).detach()], {}, torch_twin(block, settings)
    if kind is DecoderBlock:
        inputs, masks = [*inputs, normal(1, S, E).detach()], {"tgt_mask": ~CAUSAL}
    torch.manual_seed(5)
    got = block(*inputs)[0]
    torch.manual_seed(5)
    torch.testing.assert_close(got, twin(*inputs, **masks))
    plain = block.eval()(*inputs)[0]
    assert not torch.allclose(plain, got)
    torch.testing.assert_close(plain, twin.eval()(*inputs, **masks))


# Properties of blocks and encoder


@small.every_scheme
@small.both_norms
def test_an_encoder_is_embeddings_blocks_and_with_pre_norm_a_last_norm(positions, norm):
    """Each block gets the same mask and the same positions."""
    model = filled(Encoder(config(norm=norm, positions=positions, embed_dim=12)))
    asked = {"need_weights": True, "need_hidden_states": True}
    output, states, weights = model(TOKENS, attn_mask=REAL, **asked)
    assert (len(states), len(weights)) == (N + 1, N)
    torch.testing.assert_close(states[0], model.embeddings(TOKENS))
    angles = P.rotary_angles(L, 4, dtype=torch.float64)
    keywords = {
        "rotary": {"rotary": lambda x: P.apply_rotary(x, angles)},
        "alibi": {"attn_bias": P.alibi_bias(H, L, dtype=torch.float64)},
    }.get(positions, {})
    assert attention_positions(model.config, states[0]).keys() == keywords.keys()
    for n, block in enumerate(model.blocks):
        after, read = block(states[n], attn_mask=REAL, need_weights=True, **keywords)
        torch.testing.assert_close((states[n + 1], weights[n]), (after, read))
        checks.check_weights(weights[n], REAL[:, None])
    assert isinstance(model.norm, nn.LayerNorm) == (norm == "pre")
    torch.testing.assert_close(output, model.norm(states[-1]))
    assert all(bool(g.any()) for g in torch.autograd.grad(output[0, 0, 0], weights))
    plain = model(TOKENS, attn_mask=REAL)
    assert (plain.hidden_states, plain.weights) == (None, None)
    torch.testing.assert_close(plain.output, output)


# Embeddings and positions


@small.every_scheme
@pytest.mark.parametrize("scale", [False, True])
def test_embeddings_are_a_normalised_sum_scaled_before_positions_are_added(positions, scale):
    options = {"num_token_types": 2, "embed_norm": True, "embed_dim": 12}
    table = filled(X.Embeddings(config(positions=positions, scale_embeddings=scale, **options)))
    types = torch.tensor([[0, 0, 1, 1, 1]]).expand(B, L)
    x = table.tokens.weight[TOKENS] * (12**0.5 if scale else 1.0) + table.token_types.weight[types]
    if positions == "learned":
        x = x + table.positions.weight[:L]
    if positions == "sinusoidal":
        x = x + P.sinusoidal_encoding(L, 12, dtype=torch.float64)
    x = nn.functional.layer_norm(x, (12,), table.norm.weight, table.norm.bias)
    torch.testing.assert_close(table(TOKENS, types), x)
    torch.testing.assert_close(table(TOKENS[:, 2:], types[:, 2:], offset=2), x[:, 2:])
    torch.testing.assert_close(table(TOKENS), table(TOKENS, torch.zeros_like(TOKENS)))


@half_precisions
def test_positions_inside_attention_are_single_precision_in_a_half_precision_model(dtype):
    x = torch.zeros(B, L, 12, dtype=dtype)
    rotary, alibi = (
        attention_positions(config(positions=positions, embed_dim=12), x, offset=3000)
        for positions in ("rotary", "alibi")
    )
    assert rotary["rotary"].keywords["angles"].dtype == torch.float32
    assert alibi["attn_bias"].dtype == torch.float32


@pytest.mark.parametrize("positions", ["rotary", "alibi"])
def test_positions_inside_attention_are_relative_and_not_for_cross_attention(positions):
    settings = config(positions=positions, embed_dim=12)
    block, x, memory = filled(DecoderBlock(settings)), normal(B, L, 12), normal(B, S, 12)
    here, there = (attention_positions(settings, x, offset=n) for n in (0, 7))
    if positions == "alibi":
        there = {"attn_bias": there["attn_bias"][..., 7:]}
    output = block(x, memory, **here)[0]
    torch.testing.assert_close(output, block(x, memory, **there)[0])
    torch.testing.assert_close(output, block(x, memory.flip(1), **here)[0])
    assert not torch.allclose(output, block(x, memory)[0])


# The config

CHANGES = [
    {"vocab_size": 29}, {"embed_dim": 9}, {"num_heads": 2}, {"num_layers": 1}, {"ffn_dim": 5},
    {"num_kv_heads": 1}, {"norm": "pre"}, {"activation": "relu"}, {"positions": "none"},
    {"max_length": 7}, {"embed_norm": True}, {"dropout": 0.5},
    {"layer_norm_eps": 1.0}, {"packed": True}, {"target_vocab_size": 31},
    {"num_decoder_layers": 1}, {"tie_embeddings": True}, {"scale_embeddings": True},
    {"head_dim": 5}, {"norm": "both"}, {"norm_kind": "rms"}, {"qk_norm": True}, {"gated": True},
    {"bias": False},
]  # fmt: skip
# Of an encoder with rotary positions and windows.
WINDOWS = {"positions": "rotary", "embed_dim": 12, "windows": (None, 2, 3)}
LOCAL_CHANGES = [
    {"rotary_base": 50.0}, {"rotary_scale": 2.0}, {"rotary_scale": (1.0, 2.0)},
    {"rotary_layout": "halves"}, {"windows": None}, {"local_rotary_base": 50.0},
]  # fmt: skip


def fingerprint(settings: X.TransformerConfig) -> tuple:
    """Shapes, and an output in training mode."""
    model = filled(X.Transformer(settings))
    torch.manual_seed(0)
    shapes = {name: tuple(p.shape) for name, p in model.named_parameters()}
    logits, _ = model(TOKENS, torch.tensor([L, 2]), TOKENS)
    return shapes, logits.sum().item()


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
def test_every_field_of_the_config_has_an_effect(change):
    assert fingerprint(config(**change)) != fingerprint(config())


@pytest.mark.parametrize("change", LOCAL_CHANGES, ids=str)
def test_every_field_of_rotation_and_windows_has_an_effect(change):
    outputs = [filled(Encoder(config(**WINDOWS | c)))(TOKENS).output for c in ({}, change)]
    assert not torch.allclose(*outputs)


def test_every_field_of_the_config_is_changed_above():
    fields = {field.name for field in dataclasses.fields(X.TransformerConfig)}
    of_encoders = {"num_token_types"}  # a Transformer has none
    assert {n for change in CHANGES + LOCAL_CHANGES for n in change} == fields - of_encoders


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"windows": (2, 2)}, "windows must be one for each of the 3 blocks, got 2"),
        ({"windows": (2, 0, None)}, "window must be at least 1, got 0"),
        ({"positions": "rotary", "head_dim": 3}, "even for rotary positions, got head_dim = 3"),
        ({"head_dim": 0}, "head_dim must be at least 1, got 0"),
        ({"norm_kind": "batch"}, "norm_kind must be one of"),
    ],
)
def test_a_config_that_cannot_be_is_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        config(**changes)


def test_an_encoder_decoder_has_no_windows():
    with pytest.raises(ValueError, match="windows must be None in an encoder-decoder"):
        X.Transformer(config(windows=(2, 2, 2)))


# Today's blocks


def test_an_rms_norm_is_torchs():
    ours, x = filled(RMSNorm(7, eps=0.1)), normal(B, L, 7)
    theirs = nn.RMSNorm(7, eps=0.1).double()
    theirs.load_state_dict(ours.state_dict())
    assert_same(ours, theirs, x)
    (got,), (expected,) = (gradients(norm(x), [norm.weight]) for norm in (ours, theirs))
    torch.testing.assert_close(got, expected)
    assert not RMSNorm(7)(torch.zeros(7)).any()


def test_an_rms_norm_wants_vectors_of_its_width():
    for width in (1, 8):  # a vector of one number would be stretched to all seven
        words = re.escape(f"x must have shape (..., 7), got x (2, {width})")
        with pytest.raises(ValueError, match=words):
            RMSNorm(7)(torch.ones(2, width))
    with pytest.raises(TypeError, match="x must be floating point"):
        RMSNorm(7)(torch.ones(2, 7, dtype=torch.long))


@half_precisions
@pytest.mark.parametrize("autocast", [False, True])
def test_an_rms_norm_rounds_16_bits_once(dtype, autocast):
    norm, x = filled(RMSNorm(7)).float(), normal(B, L, 7).detach().to(dtype)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        got = norm(x)
    assert got.dtype == dtype
    torch.testing.assert_close(got, norm(x.float()).to(dtype), rtol=0, atol=0)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("activation", ["silu", "gelu_tanh"])
def test_a_gated_network_is_its_formula(bias, activation):
    network, x = filled(X.GatedFeedForward(config(bias=bias, activation=activation))), normal(L, E)
    kind = {"silu": nn.SiLU(), "gelu_tanh": nn.GELU("tanh")}[activation]
    gate, up, down = (
        (lambda x, p=p: nn.functional.linear(x, p.weight, p.bias))
        for p in (network.gate_proj, network.up_proj, network.down_proj)
    )
    torch.testing.assert_close(network(x), down(kind(gate(x)) * up(x)))
    assert (network.down_proj.bias is not None) == bias


def test_a_gated_network_of_two_thirds_the_width_has_as_many_parameters():
    sizes = ({"ffn_dim": 48}, {"ffn_dim": 32, "gated": True})
    blocks = (EncoderBlock(config(embed_dim=12, bias=False, **size)) for size in sizes)
    plain, gated = (sum(p.numel() for p in block.parameters()) for block in blocks)
    assert plain == gated


def test_norms_may_stand_before_and_after_each_sublayer():
    block, x = filled(EncoderBlock(config(norm="both", norm_kind="rms"))), normal(B, L, E)
    y, _ = block.self_attn(block.norm1(x))
    between = x + block.out_norm1(y)
    expected = between + block.out_norm2(block.feed_forward(block.norm2(between)))
    torch.testing.assert_close(block(x)[0], expected)
    assert isinstance(Encoder(config(norm="both", norm_kind="rms")).norm, RMSNorm)


@small.both_paths
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_a_window_reads_only_what_is_near(causal, padded, path):
    """On one side under a causal mask, on both without; padding is not read either way."""
    model = small.on_path(filled(Encoder(config(**WINDOWS))).eval(), path)
    real = padding_mask([9, 4], 9) if padded else torch.ones(B, 1, 9, dtype=torch.bool)
    mask = real if padded else None
    weights = model(ids(B, 9), attn_mask=mask, is_causal=causal, need_weights=True).weights
    i = torch.arange(9)
    distance = i[:, None] - i
    for window, read in zip((9, 2, 3), weights, strict=True):
        near = (distance.abs() < window) & (distance >= 0 if causal else True)
        checks.check_weights(read, (near & real)[:, None])
