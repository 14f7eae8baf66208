"""Blocks and encoder: held against torch's own, and against what must hold of them."""

import dataclasses

import pytest
import torch
from torch import nn

from attn_notes.checks import (
    check_causal,
    check_padding_invariant,
    check_permutation_equivariant,
    check_weights,
)
from attn_notes.masks import causal_mask, padding_mask
from attn_notes.positions import alibi_bias, apply_rotary, rotary_angles, sinusoidal_encoding
from attn_notes.transformer import (
    AddNorm,
    Embeddings,
    Encoder,
    EncoderBlock,
    FeedForward,
    Transformer,
    TransformerConfig,
    attention_positions,
)
from tests.oracles import B, L, assert_same, coin, normal, rng
from tests.torch_blocks import assert_same_dropout, assert_same_gradients, torch_twin

E, H, F, V, N = 6, 3, 17, 23, 3  # width, heads, hidden width, vocabulary, layers
LENGTHS = torch.tensor([L, 2])


def config(**changes) -> TransformerConfig:
    sizes = {"vocab_size": V, "embed_dim": E, "num_heads": H, "ffn_dim": F, "num_layers": N}
    return TransformerConfig(**sizes | {"max_length": 11} | changes)


def ids(*shape: int) -> torch.Tensor:
    return torch.randint(V, shape, generator=rng(3))


def built(module: nn.Module, seed: int = 0) -> nn.Module:
    """Every parameter drawn anew, in float64, so that norms and biases count as well."""
    module = module.double()
    with torch.no_grad():
        for n, parameter in enumerate(module.parameters()):
            parameter.copy_(torch.randn(parameter.shape, generator=rng(seed + n)) / 2)
    return module


# ---- Against torch's own block ----------------------------------------------------------------

MASKS = {
    "none": (None, {}),
    "causal": (causal_mask(L), {"src_mask": ~causal_mask(L)}),
    "padding": (
        padding_mask(LENGTHS, L),
        {"src_key_padding_mask": ~padding_mask(LENGTHS, L)[:, 0]},
    ),
    "both": (
        padding_mask(LENGTHS, L) & causal_mask(L),
        {
            "src_mask": ~causal_mask(L),
            "src_key_padding_mask": ~padding_mask(LENGTHS, L)[:, 0],
        },
    ),
    "by head": (
        coin(B, H, L, L) | torch.eye(L).bool(),
        {"src_mask": ~(coin(B, H, L, L) | torch.eye(L).bool()).flatten(0, 1)},
    ),
}


@pytest.mark.parametrize("backend", ["fused", "explicit"])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("activation", ["gelu", "relu"])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_block_is_torchs_encoder_layer(norm, activation, mask, backend):
    settings = config(norm=norm, activation=activation, backend=backend, layer_norm_eps=0.01)
    block = built(EncoderBlock(settings))
    twin, (attn_mask, theirs) = torch_twin(block, settings), MASKS[mask]
    x = normal(B, L, E)
    assert_same(lambda x: block(x, attn_mask=attn_mask)[0], lambda x: twin(x, **theirs), x)
    assert_same_gradients(block, block(x, attn_mask=attn_mask)[0], twin, twin(x, **theirs))


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_dropout_falls_on_what_torch_drops(norm):
    settings = config(norm=norm, dropout=0.4, backend="fused")
    block = built(EncoderBlock(settings))
    assert_same_dropout(block, torch_twin(block, settings), normal(1, L, E).detach())


def test_dropout_can_be_switched_on_by_itself():
    """As is done to see how sure a trained model is."""
    for module, inputs in (
        (AddNorm(config(dropout=0.5)), 2 * (torch.ones(1, E),)),
        (FeedForward(config(dropout=0.5)), (torch.ones(1, E),)),
    ):
        module.eval()
        plain = module(*inputs)
        module.dropout.train()
        torch.manual_seed(0)
        assert not torch.allclose(module(*inputs), plain)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_encoder_is_embeddings_blocks_and_with_pre_norm_a_last_norm(norm):
    settings = config(norm=norm)
    model = built(Encoder(settings))
    tokens, mask = ids(B, L), padding_mask(LENGTHS, L)
    table = model.embeddings
    x = table.tokens.weight[tokens] + table.positions.weight[:L]
    for block in model.blocks:
        x = torch_twin(block, settings)(x, src_key_padding_mask=~mask[:, 0])
    if norm == "pre":
        x = nn.functional.layer_norm(x, (E,), model.norm.weight, model.norm.bias)
    torch.testing.assert_close(model(tokens, attn_mask=mask).output, x)


# ---- What must hold ---------------------------------------------------------------------------


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_states_and_weights_of_every_layer_are_those_of_its_blocks(norm):
    model = built(Encoder(config(norm=norm)))
    tokens, mask = ids(B, L), padding_mask(LENGTHS, L)
    output, states, weights = model(
        tokens, attn_mask=mask, need_weights=True, need_hidden_states=True
    )
    assert (len(states), len(weights)) == (N + 1, N)
    torch.testing.assert_close(states[0], model.embeddings(tokens))
    for n, block in enumerate(model.blocks):
        after, read = block(states[n], attn_mask=mask, need_weights=True)
        torch.testing.assert_close((states[n + 1], weights[n]), (after, read))
        check_weights(weights[n], mask[:, None])
    torch.testing.assert_close(output, model.norm(states[-1]))


def test_what_is_not_asked_for_is_not_given_and_changes_nothing():
    model = built(Encoder(config()))
    plain = model(ids(B, L))
    assert (plain.hidden_states, plain.weights) == (None, None)
    asked = model(ids(B, L), need_weights=True, need_hidden_states=True)
    torch.testing.assert_close(plain.output, asked.output)


def test_the_weights_returned_are_the_ones_that_the_output_hangs_on():
    model = built(Encoder(config()))
    result = model(ids(B, L), need_weights=True)
    assert all(bool(g.any()) for g in torch.autograd.grad(result.output[0, 0, 0], result.weights))


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_padding_changes_nothing(norm):
    model = built(Encoder(config(norm=norm)))

    def layer(tokens, lengths):
        return model(tokens, attn_mask=padding_mask(lengths, tokens.shape[1])).output

    check_padding_invariant(layer, ids(B, L), LENGTHS)


def test_a_causal_mask_makes_it_causal():
    block = built(EncoderBlock(config(norm="pre")))
    check_causal(lambda x: block(x, is_causal=True)[0], normal(B, L, E).detach())
    check_causal(lambda x: block(x, attn_mask=causal_mask(L))[0], normal(B, L, E).detach())


def test_without_positions_order_says_nothing_and_with_them_it_does():
    model = built(Encoder(config(positions="none")))
    order = torch.tensor([3, 0, 4, 1, 2])
    tokens = ids(B, L)
    torch.testing.assert_close(model(tokens[:, order]).output, model(tokens).output[:, order])
    model = built(Encoder(config()))
    assert not torch.allclose(model(tokens[:, order]).output, model(tokens).output[:, order])
    block = built(EncoderBlock(config()))
    check_permutation_equivariant(lambda x: block(x)[0], normal(B, L, E).detach())


def test_the_feed_forward_network_sees_one_position_at_a_time():
    network = built(FeedForward(config()))
    x = normal(B, L, E).detach()
    torch.testing.assert_close(network(x)[:, 2], network(x[:, 2]))


def test_a_sublayer_reads_the_normalised_stream_only_with_pre_norm():
    x, y = 3 * normal(B, L, E).detach() + 1, normal(B, L, E, seed=1).detach()
    post, pre = (AddNorm(config(norm=norm)).double() for norm in ("post", "pre"))
    torch.testing.assert_close(post.read(x), x)
    torch.testing.assert_close(post(x, y), nn.functional.layer_norm(x + y, (E,)))
    torch.testing.assert_close(pre.read(x), nn.functional.layer_norm(x, (E,)))
    torch.testing.assert_close(pre(x, y), x + y)


def test_embeddings_are_the_sum_of_three_normalised():
    table = built(Embeddings(config(num_token_types=2, embed_norm=True)))
    tokens, types = ids(B, L), torch.tensor([[0, 0, 1, 1, 1]]).expand(B, L)
    x = table.tokens.weight[tokens] + table.positions.weight[:L] + table.token_types.weight[types]
    x = nn.functional.layer_norm(x, (E,), table.norm.weight, table.norm.bias)
    torch.testing.assert_close(table(tokens, types), x)
    torch.testing.assert_close(table(tokens), table(tokens, torch.zeros_like(tokens)))


@pytest.mark.parametrize("positions", ["none", "learned", "sinusoidal", "rotary", "alibi"])
@pytest.mark.parametrize("scale", [False, True])
def test_embeddings_are_scaled_before_positions_are_added(positions, scale):
    settings = config(positions=positions, scale_embeddings=scale, embed_dim=12)
    table, tokens = built(Embeddings(settings)), ids(B, L)
    x = table.tokens.weight[tokens] * (12**0.5 if scale else 1.0)
    if positions == "learned":
        x = x + table.positions.weight[:L]
    if positions == "sinusoidal":
        x = x + sinusoidal_encoding(L, 12, dtype=torch.float64)
    torch.testing.assert_close(table(tokens), x)
    torch.testing.assert_close(table(tokens[:, 2:], offset=2), x[:, 2:])


@pytest.mark.parametrize("positions", ["none", "learned", "sinusoidal"])
def test_positions_that_are_added_say_nothing_to_attention(positions):
    assert attention_positions(config(positions=positions), torch.zeros(B, L, E)) == {}


def test_every_block_of_an_encoder_is_told_the_same_positions():
    for positions in ("rotary", "alibi"):
        model = built(Encoder(config(positions=positions, embed_dim=12)))
        tokens, mask = ids(B, L), padding_mask(LENGTHS, L)
        x = table = model.embeddings(tokens)
        if positions == "rotary":
            angles = rotary_angles(L, 4, dtype=torch.float64)
            told = {"rotary": lambda x: apply_rotary(x, angles)}  # noqa: B023
        else:
            told = {"attn_bias": alibi_bias(H, L, dtype=torch.float64)}
        for block in model.blocks:
            x = block(x, attn_mask=mask, **told)[0]
        torch.testing.assert_close(model(tokens, attn_mask=mask).output, x)
        assert not torch.allclose(x, table)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_told_of_positions_in_single(dtype):
    x = torch.zeros(B, L, 12, dtype=dtype)
    rotary, alibi = (
        attention_positions(config(positions=positions, embed_dim=12), x, offset=3000)
        for positions in ("rotary", "alibi")
    )
    for told in (rotary["rotary"].keywords["angles"], alibi["attn_bias"]):
        assert told.dtype == torch.float32


def test_embeddings_are_dropped_while_training_only():
    table = built(Embeddings(config(dropout=0.5, embed_norm=True)))
    share = (table.train()(ids(30, L)) == 0).double().mean()
    assert 0.4 < share < 0.6
    assert bool((table.eval()(ids(B, L)) != 0).all())


def test_every_norm_takes_the_configs_eps():
    model = Encoder(config(norm="pre", embed_norm=True, layer_norm_eps=0.25))
    eps = [module.eps for module in model.modules() if isinstance(module, nn.LayerNorm)]
    assert eps == [0.25] * (2 + 2 * N)


def test_query_heads_share_key_value_heads():
    block = EncoderBlock(config(embed_dim=8, num_heads=4, num_kv_heads=2))
    assert block.self_attn.k_proj.weight.shape == (4, 8)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_stays_finite_and_near(dtype):
    model = Encoder(config())
    expected = model(ids(B, L)).output
    got = model.to(dtype)(ids(B, L)).output
    assert got.dtype == dtype
    torch.testing.assert_close(got.float(), expected, atol=0.1, rtol=0)


# ---- The config -------------------------------------------------------------------------------

CHANGES = [
    {"vocab_size": 29}, {"embed_dim": 9}, {"num_heads": 2}, {"num_layers": 1}, {"ffn_dim": 5},
    {"num_kv_heads": 1}, {"norm": "pre"}, {"activation": "relu"}, {"positions": "none"},
    {"max_length": 7}, {"embed_norm": True}, {"dropout": 0.5},
    {"layer_norm_eps": 1.0}, {"backend": "explicit"}, {"target_vocab_size": 31},
    {"num_decoder_layers": 1}, {"tie_embeddings": True}, {"scale_embeddings": True},
]  # fmt: skip


def fingerprint(settings: TransformerConfig) -> tuple:
    """Shapes, what comes out, and what torch's random numbers were used for."""
    model = built(Transformer(settings))
    torch.manual_seed(0)
    shapes = {name: tuple(p.shape) for name, p in model.named_parameters()}
    logits, _ = model(ids(B, L) % 5, LENGTHS, ids(B, L) % 5)
    return shapes, logits.sum().item(), model.encoder.blocks[0].self_attn.backend


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
def test_every_field_of_the_config_counts(change):
    assert fingerprint(config(**change)) != fingerprint(config())


def test_every_field_of_the_config_has_its_change_above():
    fields = {field.name for field in dataclasses.fields(TransformerConfig)}
    of_encoders = {"num_token_types"}  # with segments there is no Transformer: see above
    assert {name for change in CHANGES for name in change} == fields - of_encoders


def test_a_config_does_not_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        config().embed_dim = 12
    assert dataclasses.replace(config(), num_heads=2) == config(num_heads=2)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"vocab_size": 0}, "vocab_size must be a whole number, 1 or more, got 0"),
        ({"embed_dim": 0}, "embed_dim must be a whole number, 1 or more, got 0"),
        ({"num_heads": 0}, "num_heads must be a whole number, 1 or more, got 0"),
        ({"num_layers": -1}, "num_layers must be a whole number, 1 or more, got -1"),
        ({"ffn_dim": 2.5}, "ffn_dim must be a whole number, 1 or more, got 2.5"),
        ({"max_length": "9"}, "max_length must be a whole number, 1 or more, got '9'"),
        ({"num_token_types": -1}, "num_token_types must be a whole number, 0 or more, got -1"),
        ({"num_heads": 4}, "num_heads must divide embed_dim, got num_heads = 4 and embed_dim = 6"),
        ({"num_kv_heads": 2}, "num_kv_heads must divide num_heads, got num_kv_heads = 2 and num_h"),
        ({"num_kv_heads": 0}, "num_kv_heads must be a whole number, 1 or more, got 0"),
        ({"num_kv_heads": 1.0}, "num_kv_heads must be a whole number, 1 or more, got 1.0"),
        ({"norm": "first"}, r"norm must be one of \('post', 'pre'\), got 'first'"),
        ({"activation": "tanh"}, "activation must be one of .* got 'tanh'"),
        ({"positions": "rope"}, r"positions must be one of \('none', .*'alibi'\), got 'rope'"),
        ({"positions": "sinusoidal", "embed_dim": 9}, "embed_dim must be even for sinusoidal .* 9"),
        (
            {"positions": "rotary", "embed_dim": 9},
            "head_dim must be even for rotary .* head_dim = 3",
        ),
        ({"target_vocab_size": 0}, "target_vocab_size must be a whole number, 1 or more, got 0"),
        ({"num_decoder_layers": 0}, "num_decoder_layers must be a whole number, 1 or more, got 0"),
        ({"backend": "fast"}, "backend must be one of .* got 'fast'"),
        ({"dropout": 1.5}, "dropout must be a number from 0 to 1, got 1.5"),
        ({"dropout": float("nan")}, "dropout must be a number from 0 to 1, got nan"),
        ({"dropout": "none"}, "dropout must be a number from 0 to 1, got 'none'"),
        ({"layer_norm_eps": 0.0}, "layer_norm_eps must be a number above 0, got 0.0"),
    ],
)
def test_a_config_that_cannot_be_is_refused(change, words):
    with pytest.raises(ValueError, match=words):
        config(**change)


@pytest.mark.parametrize(
    ("arguments", "changes", "words"),
    [
        ((ids(L),), {}, r"tokens must have shape \(B, L\), got \(5,\)"),
        ((ids(2, 12),), {}, r"to max_length - 1 = 10, got offset = 0 and length = 12"),
        (
            (ids(2, 3), ids(2, 3)),
            {},
            r"token_types must be None where num_token_types is 0, got .* \(2, 3\)",
        ),
        (
            (ids(2, 3), ids(2, 4)),
            {"num_token_types": 2},
            r"one shape, got token_types \(2, 4\) and tokens \(2, 3\)",
        ),
    ],
)
def test_tokens_that_do_not_fit_are_refused(arguments, changes, words):
    with pytest.raises(ValueError, match=words):
        Encoder(config(**changes))(*arguments)


def test_the_longest_sequence_is_max_length_and_without_positions_there_is_none():
    assert Encoder(config())(ids(1, 11)).output.shape == (1, 11, E)
    for positions in ("none", "sinusoidal", "alibi"):
        assert Encoder(config(positions=positions))(ids(1, 13)).output.shape == (1, 13, E)


def test_weights_are_not_to_be_had_of_the_fused_kernel():
    with pytest.raises(ValueError, match="backend must be"):
        Encoder(config(backend="fused"))(ids(1, 3), need_weights=True)
