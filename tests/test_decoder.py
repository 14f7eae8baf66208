"""Decoder and encoder-decoder: held against torch's own, and against what must hold of them."""

import dataclasses
import itertools

import pytest
import torch
from torch import nn

from attn_notes.cache import KVCache
from attn_notes.checks import (
    CheckFailed,
    check_batch_invariant,
    check_cache_matches_parallel,
    check_causal,
    check_pieces_match_whole,
    check_step_matches_parallel,
    check_weights,
)
from attn_notes.data import PAD, START
from attn_notes.decoding import beam_search, greedy
from attn_notes.masks import causal_mask, padding_mask
from attn_notes.multihead import MultiHeadAttention
from attn_notes.transformer import (
    Decoder,
    DecoderBlock,
    Transformer,
    TransformerConfig,
    TransformerWeights,
    attention_positions,
)
from tests.oracles import B, L, S, assert_same, coin, gradients, normal, rng
from tests.test_transformer import E, F, H, N, V, built, config
from tests.torch_blocks import assert_same_dropout, assert_same_gradients, torch_twin

VT, M = 19, 2  # the target's vocabulary, the decoder's layers
SCHEMES = ("none", "learned", "sinusoidal", "rotary", "alibi")
LENGTHS = torch.tensor([S, 3])

every_scheme = pytest.mark.parametrize("positions", SCHEMES)
both_norms = pytest.mark.parametrize("norm", ["post", "pre"])
both_paths = pytest.mark.parametrize("backend", ["fused", "explicit"])


def ids(*shape: int, below: int = V, seed: int = 3) -> torch.Tensor:
    return torch.randint(4, below, shape, generator=rng(seed))


def model_of(**changes) -> Transformer:
    sizes = {"target_vocab_size": VT, "num_decoder_layers": M}
    return built(Transformer(config(**sizes | changes)))


SOURCE, INPUTS = ids(B, S), ids(B, L, below=VT, seed=4)
INPUTS[:, 0] = START
BATCH = SOURCE, LENGTHS, INPUTS

# ---- Against torch's own -----------------------------------------------------------------------

TARGET_REAL = padding_mask([L, 3], L)
BY_HEAD = coin(B, H, L, L) | torch.eye(L).bool()
CAUSAL = {"tgt_mask": ~causal_mask(L)}
PADDED = {"memory_key_padding_mask": ~padding_mask(LENGTHS, S)[:, 0]}
MASKS = {
    "causal": ({}, CAUSAL),
    "memory padding": ({"memory_mask": padding_mask(LENGTHS, S)}, CAUSAL | PADDED),
    "both paddings": (
        {"memory_mask": padding_mask(LENGTHS, S), "attn_mask": TARGET_REAL},
        CAUSAL | PADDED | {"tgt_key_padding_mask": ~TARGET_REAL[:, 0]},
    ),
    "by head": (
        {"attn_mask": BY_HEAD, "memory_mask": coin(L, S) | torch.eye(L, S).bool()},
        {
            "tgt_mask": ~(BY_HEAD & causal_mask(L)).flatten(0, 1),
            "memory_mask": ~(coin(L, S) | torch.eye(L, S).bool()),
        },
    ),
}


@both_paths
@both_norms
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_a_block_is_torchs_decoder_layer(norm, activation, mask, backend):
    settings = config(norm=norm, activation=activation, backend=backend, layer_norm_eps=0.01)
    block = built(DecoderBlock(settings))
    twin, (ours, theirs) = torch_twin(block, settings), MASKS[mask]
    x, memory = normal(B, L, E), normal(B, S, E, seed=1)
    assert_same(
        lambda x, memory: block(x, memory, **ours)[0],
        lambda x, memory: twin(x, memory, **theirs),
        x,
        memory,
    )
    assert_same_gradients(block, block(x, memory, **ours)[0], twin, twin(x, memory, **theirs))


@both_norms
def test_dropout_falls_on_what_torch_drops(norm):
    settings = config(norm=norm, dropout=0.4, backend="fused")
    block = built(DecoderBlock(settings))
    twin = torch_twin(block, settings)
    assert_same_dropout(block, twin, normal(1, L, E), normal(1, S, E), **CAUSAL)


def whole_twin(model: Transformer) -> nn.Transformer:
    """Torch's, but for the norm that it puts on top of post-norm blocks and the paper does not."""
    encoder, decoder, settings = model.encoder, model.decoder, model.config
    layer = torch_twin(encoder.blocks[0], settings)
    twin = nn.Transformer(
        E,
        H,
        custom_encoder=nn.TransformerEncoder(layer, N, encoder.norm, enable_nested_tensor=False),
        custom_decoder=nn.TransformerDecoder(layer, M, decoder.norm),
        batch_first=True,
    )  # which draws all matrices anew, so that ours come after it
    twin.encoder.layers = nn.ModuleList(torch_twin(block, settings) for block in encoder.blocks)
    twin.decoder.layers = nn.ModuleList(torch_twin(block, settings) for block in decoder.blocks)
    return twin


@both_norms
@pytest.mark.parametrize("scaled", [False, True])
def test_the_whole_is_torchs_transformer_between_embeddings_and_logits(norm, scaled):
    model = model_of(norm=norm, positions="sinusoidal", scale_embeddings=scaled)
    twin = whole_twin(model)
    (source, lengths, inputs), embeddings = (
        BATCH,
        [x.embeddings for x in (model.encoder, model.decoder)],
    )
    padding = ~padding_mask(lengths, S)[:, 0]
    x = twin(
        embeddings[0](source), embeddings[1](inputs), **CAUSAL,
        src_key_padding_mask=padding, memory_key_padding_mask=padding,
    )  # fmt: skip
    logits, weights = model(*BATCH)
    assert weights is None
    expected = x @ model.out_proj.weight.T
    torch.testing.assert_close(logits, expected)
    tables = [table.tokens.weight for table in embeddings]  # at the far end of both
    torch.testing.assert_close(gradients(logits, tables), gradients(expected, tables))


# ---- One causal rule ---------------------------------------------------------------------------


@every_scheme
@both_norms
@both_paths
def test_no_position_sees_a_later_one_in_training_or_evaluation(positions, norm, backend):
    decoder = built(Decoder(config(positions=positions, norm=norm, backend=backend)))
    memory = normal(1, S, E).detach()
    for mode in (True, False):
        decoder.train(mode)
        told = attention_positions(decoder.config, memory[:, :L])

        def layer(x):
            for block in decoder.blocks:
                x = block(x, memory.expand(len(x), -1, -1), **told)[0]  # noqa: B023
            return x

        check_causal(layer, normal(1, L, E).detach())


@every_scheme
@pytest.mark.parametrize("need_weights", [False, True])
def test_later_tokens_change_no_logits_and_no_weights(positions, need_weights):
    model = model_of(positions=positions)
    for mode, n in itertools.product((True, False), range(1, L)):
        other = INPUTS.clone()
        other[:, n:] = ids(B, L - n, below=VT, seed=9)
        model.train(mode)
        (a, read), (b, read_other) = (
            model(SOURCE, LENGTHS, x, need_weights=need_weights) for x in (INPUTS, other)
        )
        torch.testing.assert_close(a[:, :n], b[:, :n], atol=1e-12, rtol=0.0)
        assert not torch.allclose(a[:, n:], b[:, n:])
        if need_weights:
            for kind in ("decoder", "cross"):
                for x, y in zip(getattr(read, kind), getattr(read_other, kind), strict=True):
                    torch.testing.assert_close(x[:, :, :n], y[:, :, :n], atol=1e-12, rtol=0.0)


def test_a_caller_cannot_switch_the_rule_off():
    block = built(DecoderBlock(config()))
    x, memory = normal(B, L, E), normal(B, S, E)
    everything = torch.ones(L, L, dtype=torch.bool)
    torch.testing.assert_close(block(x, memory, attn_mask=everything)[0], block(x, memory)[0])
    with pytest.raises(TypeError, match="is_causal"):
        block(x, memory, is_causal=False)


# ---- With a cache ------------------------------------------------------------------------------


@every_scheme
@both_norms
@both_paths
@pytest.mark.parametrize("kv_heads", [1, None])
def test_step_by_step_is_all_at_once(positions, norm, backend, kv_heads):
    model = model_of(
        positions=positions, norm=norm, backend=backend, num_kv_heads=kv_heads, embed_dim=12,
        embed_norm=True, scale_embeddings=True,
    )  # fmt: skip
    check_step_matches_parallel(model, *BATCH, atol=1e-12)
    check_cache_matches_parallel(model, *BATCH, atol=1e-12)
    check_cache_matches_parallel(model.float(), *BATCH, atol=1e-5)


def assert_gradients_by_step(model: nn.Module, state, inputs, parallel: torch.Tensor) -> None:
    """In every parameter: of the steps from `state` on, and of the same logits all at once."""
    steps = []
    for tokens in inputs.unbind(1):
        logits, state = model.step(tokens, state)
        steps.append(logits)
    parameters = [*model.parameters()]
    got = gradients(torch.stack(steps, dim=1), parameters)
    torch.testing.assert_close(got, gradients(parallel, parameters))


@every_scheme
def test_gradients_step_by_step_are_those_of_all_at_once(positions):
    model = model_of(positions=positions, embed_dim=12)
    assert_gradients_by_step(model, model.start(SOURCE, LENGTHS), INPUTS, model(*BATCH)[0])


@every_scheme
def test_a_prefix_can_be_read_at_once_and_the_rest_step_by_step(positions):
    decoder = built(Decoder(config(positions=positions, embed_dim=12)))
    memory, mask = normal(B, S, 12).detach(), padding_mask(LENGTHS, S)
    caches = {}

    def layer(tokens, cache):
        if cache is None:
            return decoder(tokens, memory, memory_mask=mask).output
        if id(cache) not in caches:
            caches.clear()
            caches[id(cache)] = [(KVCache(), KVCache()) for _ in decoder.blocks]
        held = caches[id(cache)]
        unread = memory[:, held[0][1].length :]
        return decoder(tokens, unread, memory_mask=mask, caches=held).output

    check_pieces_match_whole(layer, INPUTS, atol=1e-12)


@pytest.mark.parametrize("positions", ["rotary", "alibi", "none"])
def test_one_layer_of_attention_goes_on_where_its_cache_ends(positions):
    settings = config(positions=positions, embed_dim=12)
    layer = built(MultiHeadAttention(12, H))

    def attend(x, cache, slip=0):
        told = attention_positions(settings, x, offset=cache.length - slip if cache else 0)
        return layer(x, is_causal=True, cache=cache, **told)[0]

    x = normal(B, L, 12).detach()
    check_pieces_match_whole(attend, x, atol=1e-12)
    if positions == "rotary":  # an offset that begins at 0 anew
        with pytest.raises(CheckFailed, match="in pieces of 1, 1, 1, 1, 1 the output at position"):
            check_pieces_match_whole(lambda x, cache: attend(x, cache, cache and cache.length), x)


@every_scheme
@pytest.mark.parametrize("beam_size", [1, 3])
def test_what_a_search_says_is_what_it_scored(positions, beam_size):
    model = model_of(positions=positions, embed_dim=12).eval()
    found = beam_search(model, SOURCE, LENGTHS, max_length=9, beam_size=beam_size)
    if beam_size == 1:
        assert found.tokens.equal(greedy(model, SOURCE, LENGTHS, max_length=9).tokens)
    said = found.tokens
    inputs = torch.cat((torch.full((B, 1), START), said[:, :-1]), dim=1)
    logits = model(SOURCE, LENGTHS, inputs)[0]
    logits[..., [PAD, START]] = -torch.inf
    each = logits.log_softmax(-1).gather(-1, said[..., None])[..., 0]
    total = each.masked_fill(said == PAD, 0.0).sum(1)
    torch.testing.assert_close(found.log_probs.double(), total, atol=1e-5, rtol=0.0)
    if beam_size == 1:
        assert (said == logits.argmax(-1))[said != PAD].all()


def test_a_step_costs_one_position_and_projects_the_memory_once(monkeypatch):
    model, lengths = model_of().eval(), []
    project = nn.functional.linear
    monkeypatch.setattr(
        nn.functional, "linear", lambda x, *args: lengths.append(x.shape[1:-1]) or project(x, *args)
    )
    state = model.start(SOURCE, LENGTHS)
    lengths.clear()
    _, state = model.step(INPUTS[:, 0], state)
    assert {*lengths} == {(1,), (S,), ()}
    assert lengths.count((S,)) == 2 * M  # keys and values of the memory in each block
    lengths.clear()
    model.step(INPUTS[:, 1], state)
    assert {*lengths} == {(1,), (0,), ()}


# ---- Padding -----------------------------------------------------------------------------------


@every_scheme
@both_norms
def test_padding_changes_nothing(positions, norm):
    model = model_of(positions=positions, norm=norm, embed_dim=12)
    inputs = INPUTS.clone()
    inputs[1, 3:] = PAD
    check_batch_invariant(model, SOURCE, LENGTHS, inputs, atol=1e-12)
    other = SOURCE.clone()
    other[1, 3:] = 5
    torch.testing.assert_close(model(other, LENGTHS, inputs)[0], model(SOURCE, LENGTHS, inputs)[0])


def test_an_empty_source_gives_finite_logits():
    model = model_of()
    logits = model(SOURCE, torch.tensor([0, S]), INPUTS)[0]
    assert logits.isfinite().all()
    assert all(x.isfinite().all() for x in gradients(logits, [*model.parameters()]))


# ---- Weights -----------------------------------------------------------------------------------


@every_scheme
def test_weights_of_every_layer_come_where_they_are_asked_for(positions):
    model = model_of(positions=positions, embed_dim=12)
    logits, weights = model(*BATCH, need_weights=True)
    torch.testing.assert_close(logits, model(*BATCH)[0])
    real = padding_mask(LENGTHS, S)[:, None]
    for kind, layers, mask in zip(
        TransformerWeights._fields, (N, M, M), (real, causal_mask(L), real), strict=True
    ):
        found = getattr(weights, kind)
        assert len(found) == layers
        for layer in found:
            check_weights(layer, mask)
    assert [x[0].shape[2:] for x in weights] == [(S, S), (L, L), (L, S)]
    hangs_on = torch.autograd.grad(logits[0, -1, 0], [x for kind in weights for x in kind])
    assert all(bool(g.any()) for g in hangs_on)


@every_scheme
@pytest.mark.parametrize("reorder", [False, True])
def test_a_state_keeps_the_weights_that_all_at_once_gives(positions, reorder):
    model = model_of(positions=positions, embed_dim=12)
    expected = model(*BATCH, need_weights=True)[1]
    state = model.start(SOURCE, LENGTHS, need_weights=True)
    order = torch.arange(B)
    for tokens in INPUTS.unbind(1):
        _, state = model.step(tokens[order], state)
        if reorder:
            order, state = order.flip(0), state.select(torch.tensor([1, 0]))
    for got, wanted in zip(state.weights, expected, strict=True):
        torch.testing.assert_close(got, tuple(layer[order] for layer in wanted))


def test_what_is_not_asked_for_is_not_computed(monkeypatch):
    model = model_of().eval()
    monkeypatch.setattr("attn_notes.multihead.attention_weights", None)
    assert model(*BATCH)[1] is None
    state = model.start(SOURCE, LENGTHS)
    assert model.step(INPUTS[:, 0], state)[1].weights is None
    assert greedy(model, SOURCE, LENGTHS, max_length=3).state.weights is None


# ---- Positions ---------------------------------------------------------------------------------


def test_rotary_and_alibi_say_nothing_to_the_attention_to_the_memory():
    for positions in ("rotary", "alibi"):
        block = built(DecoderBlock(config(positions=positions, embed_dim=12)))
        x, memory = normal(B, L, 12), normal(B, S, 12)
        told = attention_positions(block_config(positions), x)
        shuffled = memory[:, torch.randperm(S, generator=rng(1))]
        torch.testing.assert_close(block(x, memory, **told)[0], block(x, shuffled, **told)[0])
        assert not torch.allclose(block(x, memory, **told)[0], block(x, memory)[0])


def block_config(positions: str) -> TransformerConfig:
    return config(positions=positions, embed_dim=12)


@pytest.mark.parametrize("positions", ["rotary", "alibi"])
def test_a_shift_of_all_positions_changes_nothing_in_attention(positions):
    block = built(DecoderBlock(block_config(positions)))
    x, memory = normal(B, L, 12), normal(B, S, 12)
    here, there = (attention_positions(block_config(positions), x, offset=n) for n in (0, 7))
    if positions == "alibi":
        there = {"attn_bias": there["attn_bias"][..., 7:]}
    torch.testing.assert_close(block(x, memory, **here)[0], block(x, memory, **there)[0])


@pytest.mark.parametrize("positions", SCHEMES)
def test_the_encoder_knows_order_unless_it_is_told_none(positions):
    encoder = model_of(positions=positions, embed_dim=12).encoder
    order = torch.randperm(S, generator=rng(1))
    same = torch.allclose(encoder(SOURCE[:, order]).output, encoder(SOURCE).output[:, order])
    assert same == (positions == "none")


def test_a_target_longer_than_learned_positions_is_refused_at_its_step():
    model = model_of(max_length=S).eval()
    state = model.start(SOURCE, LENGTHS)
    for _ in range(S):
        _, state = model.step(INPUTS[:, 0], state)
    with pytest.raises(ValueError, match="max_length - 1 = 6, got offset = 7 and length = 1"):
        model.step(INPUTS[:, 0], state)


# ---- The config, the parameters ----------------------------------------------------------------


@pytest.mark.parametrize("target_vocab_size", [VT, None])
def test_tied_embeddings_are_one_matrix_that_learns_from_both_ends(target_vocab_size):
    model = model_of(tie_embeddings=True, target_vocab_size=target_vocab_size)
    plain = model_of(target_vocab_size=target_vocab_size)
    matrix = model.out_proj.weight
    assert matrix is model.decoder.embeddings.tokens.weight
    assert (matrix is model.encoder.embeddings.tokens.weight) == (target_vocab_size is None)
    copies = 1 if target_vocab_size else 2
    sizes = [sum(p.numel() for p in m.parameters()) for m in (plain, model)]
    assert sizes[0] - sizes[1] == copies * matrix.numel()
    for untied in (
        plain.out_proj,
        plain.decoder.embeddings.tokens,
        plain.encoder.embeddings.tokens,
    ):
        assert untied.weight is not plain.out_proj.weight or untied is plain.out_proj
    again = Transformer(model.config).double()
    again.load_state_dict(model.state_dict())
    torch.testing.assert_close(again(*BATCH)[0], model(*BATCH)[0])
    assert again.out_proj.weight is again.decoder.embeddings.tokens.weight


def test_one_vocabulary_does_not_tie_by_itself():
    model = model_of(target_vocab_size=None)
    assert model(*BATCH)[0].shape == (B, L, V)
    assert model.encoder.embeddings.tokens.weight is not model.decoder.embeddings.tokens.weight


@pytest.mark.parametrize("change", [{}, {"tie_embeddings": True}, {"scale_embeddings": True}])
@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
def test_it_begins_as_the_docstring_says(change, positions):
    wide = {"embed_dim": 64, "num_heads": 4, "vocab_size": 400, "ffn_dim": 100}
    model = Transformer(config(**wide, max_length=300, positions=positions, **change))
    quiet = 1.0 if not change else 1 / 8
    for half in (model.encoder, model.decoder):
        tokens = half.embeddings.tokens.weight
        assert tokens.std().item() == pytest.approx(quiet, rel=0.05)
        if positions == "learned":
            entering = quiet * (8 if "scale_embeddings" in change else 1)
            weight = half.embeddings.positions.weight
            assert weight.std().item() == pytest.approx(entering, rel=0.05)
    for module in model.modules():
        if isinstance(module, nn.Linear) and module.bias is not None:
            assert not module.bias.any()
            bound = (6 / sum(module.weight.shape)) ** 0.5
            assert 0.9 * bound < module.weight.abs().max() <= bound
    if not change.get("tie_embeddings"):
        assert model.out_proj.weight.abs().max() <= (6 / (400 + 64)) ** 0.5


@both_norms
def test_every_parameter_gets_a_gradient(norm):
    model = model_of(norm=norm)
    loss = model(*BATCH)[0].log_softmax(-1)[..., 5].sum()
    loss.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        if "k_proj.bias" in name:  # one number more for all keys: the softmax does not see it
            assert parameter.grad.abs().max() < 1e-9
        else:
            assert parameter.grad.any(), name


def test_the_number_of_parameters_is_the_formula():
    for tied, norm in itertools.product((False, True), ("post", "pre")):
        model = model_of(tie_embeddings=tied, norm=norm, positions="sinusoidal")
        attention, feed_forward = 4 * E * E + 4 * E, 2 * E * F + F + E
        blocks = N * (attention + feed_forward + 4 * E) + M * (2 * attention + feed_forward + 6 * E)
        wanted = blocks + E * (V + (1 if tied else 2) * VT) + (4 * E if norm == "pre" else 0)
        assert sum(p.numel() for p in model.parameters()) == wanted


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@every_scheme
def test_half_precision_stays_finite_and_near(dtype, positions):
    torch.manual_seed(0)
    model = Transformer(config(positions=positions, embed_dim=12, target_vocab_size=VT))
    expected = model(*BATCH)[0]
    got = model.to(dtype)(*BATCH)[0]
    assert got.dtype == dtype
    torch.testing.assert_close(got.float(), expected, atol=0.1, rtol=0.0)
    state = model.eval().start(SOURCE, LENGTHS)
    assert model.step(INPUTS[:, 0], state)[0].dtype == dtype


def test_it_learns_to_copy():
    """Both norms, tied or not, from the parameters it begins with."""
    for norm, tied in itertools.product(("post", "pre"), (False, True)):
        torch.manual_seed(0)
        small = {"vocab_size": 9, "embed_dim": 32, "ffn_dim": 64, "positions": "sinusoidal"}
        choices = {"norm": norm, "tie_embeddings": tied, "scale_embeddings": tied}
        model = Transformer(TransformerConfig(**small, **choices))
        optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
        for step in range(100):
            source = torch.randint(4, 9, (32, 5), generator=rng(step))
            inputs = torch.cat((torch.full((32, 1), START), source[:, :-1]), dim=1)
            logits, _ = model(source, torch.full((32,), 5), inputs)
            loss = nn.functional.cross_entropy(logits.mT, source)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        assert loss < 0.6, (norm, tied, loss)


def test_the_state_is_not_to_be_changed():
    state = model_of().start(SOURCE, LENGTHS)
    with pytest.raises(dataclasses.FrozenInstanceError):
        state.memory = None
