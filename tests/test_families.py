"""Decoder only and encoder only with a head: the encoder's blocks, a mask, and a map on top."""

import copy
import itertools
import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from attn_notes.cache import KVCache
from attn_notes.checks import (
    check_cache_matches_parallel,
    check_padding_invariant,
    check_pieces_match_whole,
    check_step_matches_parallel,
    check_weights,
)
from attn_notes.data import END, PAD, START, SpecialTokens
from attn_notes.decoding import beam_search, greedy, sample
from attn_notes.masks import causal_mask, padding_mask
from attn_notes.transformer import (
    DecoderOnly,
    Encoder,
    MaskedLanguageModel,
    TransformerConfig,
)
from tests.oracles import B, L, S, gradients, rng
from tests.test_decoder import (
    SCHEMES,
    assert_gradients_by_step,
    both_norms,
    both_paths,
    every_scheme,
    ids,
)
from tests.test_transformer import E, N, V, built, config
from tests.torch_blocks import torch_twin

LENGTHS = torch.tensor([L, 2])
PROMPT, WHOLE = torch.tensor([3, 3]), ids(B, S)


def decoder(**changes) -> DecoderOnly:
    return built(DecoderOnly(config(**{"norm": "pre", "embed_dim": 12} | changes)))


def masked(**changes) -> MaskedLanguageModel:
    return built(MaskedLanguageModel(config(**changes)))


# ---- One set of blocks --------------------------------------------------------------------------


@every_scheme
@both_norms
@both_paths
def test_a_decoder_is_the_encoder_under_a_causal_mask_and_a_map_to_the_vocabulary(
    positions, norm, backend
):
    settings = config(positions=positions, norm=norm, backend=backend, embed_dim=12)
    model, encoder = built(DecoderOnly(settings)), Encoder(settings).double()
    encoder.load_state_dict(model.body.state_dict())  # the same names, one by one
    got = model(WHOLE, need_hidden_states=True)
    for mask in ({"is_causal": True}, {"attn_mask": causal_mask(S)}):
        read = encoder(WHOLE, **mask, need_hidden_states=True)
        torch.testing.assert_close(got.hidden_states, read.hidden_states)
        torch.testing.assert_close(got.logits, read.output @ model.out_proj.weight.T)
    assert not torch.allclose(got.hidden_states[-1], encoder(WHOLE, need_hidden_states=True)[1][-1])


@both_norms
@both_paths
def test_a_mask_and_the_causal_rule_mean_both(norm, backend):
    model = built(Encoder(config(norm=norm, backend=backend)))
    # In the second row only the last keys: its first queries have none at all.
    late = padding_mask(torch.tensor([S, 3]), S).flip(-1)
    both = model(WHOLE, attn_mask=late, is_causal=True).output
    torch.testing.assert_close(both, model(WHOLE, attn_mask=late & causal_mask(S)).output)
    for mask in ({"attn_mask": late}, {"is_causal": True}):
        assert not torch.allclose(both, model(WHOLE, **mask).output)


@both_norms
def test_a_decoder_is_torchs_encoder_layers_under_a_causal_mask(norm):
    model = decoder(norm=norm)
    table = model.body.embeddings
    x = table.tokens.weight[WHOLE] + table.positions.weight[:S]
    for block in model.body.blocks:
        x = torch_twin(block, model.config)(x, src_mask=~causal_mask(S))
    torch.testing.assert_close(model(WHOLE).logits, model.body.norm(x) @ model.out_proj.weight.T)


@both_norms
@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "relu"])
def test_a_masked_model_is_the_encoder_one_layer_and_a_map_to_the_vocabulary(norm, activation):
    model = masked(norm=norm, activation=activation, num_token_types=2, layer_norm_eps=0.01)
    tokens, types = ids(B, L), torch.tensor([[0, 0, 1, 1, 1]]).expand(B, L)
    mask = padding_mask(LENGTHS, L)
    read = model.body(tokens, types, attn_mask=mask, need_hidden_states=True, need_weights=True)
    got = model(tokens, types, attn_mask=mask, need_hidden_states=True, need_weights=True)
    torch.testing.assert_close(got[1:], read[1:])
    function = {
        "gelu": F.gelu,
        "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
        "relu": F.relu,
    }[activation]
    x = function(read.output @ model.transform.weight.T + model.transform.bias)
    x = F.layer_norm(x, (E,), model.norm.weight, model.norm.bias, 0.01)
    torch.testing.assert_close(got.logits, x @ model.out_proj.weight.T + model.out_proj.bias)


@pytest.mark.parametrize(
    ("family", "settings", "parameters"),
    [
        # GPT-2's smallest, and BERT's base with its head for hidden words, as published
        (
            DecoderOnly,
            {"vocab_size": 50257, "max_length": 1024, "norm": "pre", "activation": "gelu_tanh"},
            124_439_808,
        ),
        (
            MaskedLanguageModel,
            {"vocab_size": 30522, "max_length": 512, "num_token_types": 2, "embed_norm": True},
            109_514_298,
        ),
    ],
)
def test_the_published_sizes_have_the_published_numbers_of_parameters(family, settings, parameters):
    size = {"embed_dim": 768, "num_heads": 12, "num_layers": 12, "ffn_dim": 3072}
    with torch.device("meta"):
        model = family(TransformerConfig(**size, **settings, tie_embeddings=True))
    assert sum(p.numel() for p in model.parameters()) == parameters


@pytest.mark.parametrize("family", [DecoderOnly, MaskedLanguageModel])
def test_tied_embeddings_are_one_matrix_and_gather_both_gradients(family):
    model = built(family(config(tie_embeddings=True)))
    table = model.body.embeddings.tokens.weight
    assert model.out_proj.weight is table
    twin = copy.deepcopy(model)
    assert twin.out_proj.weight is twin.body.embeddings.tokens.weight
    apart = built(family(config()))
    assert apart.out_proj.weight is not apart.body.embeddings.tokens.weight
    apart.load_state_dict(model.state_dict())
    both = gradients(
        apart(WHOLE).logits, [apart.body.embeddings.tokens.weight, apart.out_proj.weight]
    )
    (tied,) = gradients(model(WHOLE).logits, [table])
    torch.testing.assert_close(tied, sum(both))


# ---- How they begin -----------------------------------------------------------------------------


@pytest.mark.parametrize("family", [DecoderOnly, MaskedLanguageModel])
@pytest.mark.parametrize("tie", [False, True])
@pytest.mark.parametrize("layers", [1, 8])
def test_weights_begin_as_published(family, tie, layers):
    torch.manual_seed(0)
    model = family(
        TransformerConfig(
            vocab_size=500, embed_dim=128, num_layers=layers, norm="pre",
            num_token_types=500 if family is MaskedLanguageModel else 0,
            tie_embeddings=tie, embed_norm=True,
        )
    )  # fmt: skip
    into_stream = 0.02 / (2 * layers) ** 0.5 if family is DecoderOnly else 0.02
    for name, drawn in model.named_parameters():
        parameter = drawn.detach()
        if parameter.dim() == 1:
            expected = 1.0 if "norm" in name and name.endswith("weight") else 0.0
            assert bool((parameter == expected).all()), name
            continue
        writes = name.endswith(("self_attn.out_proj.weight", "linear2.weight"))
        std = into_stream if writes else 0.02
        assert float(parameter.std()) == pytest.approx(std, rel=0.05), name
        assert abs(float(parameter.mean())) < std / 50, name


def test_at_first_every_token_is_about_as_likely_as_any_other():
    torch.manual_seed(0)
    model = DecoderOnly(TransformerConfig(vocab_size=V, norm="pre", num_layers=6, max_length=S))
    with torch.no_grad():
        logits = model(WHOLE).logits[:, :-1]
    loss = F.cross_entropy(logits.flatten(0, 1), WHOLE[:, 1:].flatten())
    assert float(loss) == pytest.approx(math.log(V), abs=0.1)


# ---- What a position knows ----------------------------------------------------------------------


@every_scheme
@both_norms
@both_paths
def test_later_tokens_change_nothing_said_before_them(positions, norm, backend):
    model = decoder(positions=positions, norm=norm, backend=backend)
    for mode, n in itertools.product((True, False), range(1, S)):
        other = WHOLE.clone()
        other[:, n:] = (other[:, n:] + 1) % V
        model.train(mode)
        a, b = (model(x, need_hidden_states=True) for x in (WHOLE, other))
        for x, y in zip((a.logits, *a.hidden_states), (b.logits, *b.hidden_states), strict=True):
            torch.testing.assert_close(x[:, :n], y[:, :n], atol=1e-12, rtol=0.0)
        assert not torch.allclose(a.logits[:, n:], b.logits[:, n:])


def test_every_earlier_token_changes_what_is_said():
    model = decoder()
    for n in range(S):
        other = WHOLE.clone()
        other[:, n] = (other[:, n] + 1) % V
        change = (model(other).logits - model(WHOLE).logits).abs().amax((0, 2))  # (S,)
        assert bool((change[n:] > 1e-6).all())


def test_a_masked_model_reads_both_sides():
    model = masked()
    for n in range(S):
        other = WHOLE.clone()
        other[:, n] = (other[:, n] + 1) % V
        change = (model(other).logits - model(WHOLE).logits).abs().amax((0, 2))  # (S,)
        assert bool((change > 1e-6).all())


@every_scheme
def test_padding_on_the_right_needs_no_mask(positions):
    model = decoder(positions=positions)
    check_padding_invariant(lambda tokens, lengths: model(tokens).logits, ids(B, L), LENGTHS)
    longer = F.pad(WHOLE, (0, 3), value=PAD)
    torch.testing.assert_close(model(longer).logits[:, :S], model(WHOLE).logits)


def test_a_masked_model_does_not_read_padding_that_is_masked():
    model = masked()

    def layer(tokens, lengths):
        return model(tokens, attn_mask=padding_mask(lengths, tokens.shape[1])).logits

    check_padding_invariant(layer, ids(B, L), LENGTHS)


@every_scheme
@both_norms
def test_the_weights_are_those_of_the_blocks_and_causal(positions, norm):
    model = decoder(positions=positions, norm=norm)
    plain = model(WHOLE)
    assert (plain.hidden_states, plain.weights) == (None, None)
    asked = model(WHOLE, need_weights=True, need_hidden_states=True)
    torch.testing.assert_close(plain.logits, asked.logits)
    assert (len(asked.hidden_states), len(asked.weights)) == (N + 1, N)
    for weights in asked.weights:
        check_weights(weights, causal_mask(S))


# ---- Step by step -------------------------------------------------------------------------------


class Continued:
    """A decoder as the checks want it: the source is the prompt, the inputs what is said after.

    The first of the inputs is START, which a decoder does not read: nothing has been said yet.
    """

    def __init__(self, model: DecoderOnly) -> None:
        self.start, self.step, self.model = model.start, model.step, model

    def __call__(self, source: Tensor, lengths: Tensor, inputs: Tensor) -> tuple[Tensor]:
        whole = torch.cat((source, inputs[:, 1:]), dim=1)
        return (self.model(whole).logits[:, source.shape[1] - 1 :],)


SAID = ids(B, L, seed=4)
SAID[:, 0] = START


@every_scheme
@both_norms
@both_paths
@pytest.mark.parametrize("kv_heads", [1, None])
@pytest.mark.parametrize("prompt", [1, 4])
def test_step_by_step_is_all_at_once(positions, norm, backend, kv_heads, prompt):
    model = decoder(
        positions=positions, norm=norm, backend=backend, num_kv_heads=kv_heads,
        embed_norm=True, scale_embeddings=True, tie_embeddings=True,
    )  # fmt: skip
    batch = ids(B, prompt), torch.full((B,), prompt), SAID
    check_step_matches_parallel(Continued(model), *batch, atol=1e-12)
    check_cache_matches_parallel(Continued(model), *batch, atol=1e-12)
    check_cache_matches_parallel(Continued(model.float()), *batch, atol=1e-5)


@every_scheme
def test_a_text_can_be_read_in_pieces(positions):
    model, caches = decoder(positions=positions), {}

    def layer(tokens, cache):
        if cache is None:
            return model(tokens).logits
        if id(cache) not in caches:
            caches.clear()
            caches[id(cache)] = tuple(KVCache() for _ in model.body.blocks)
        return model(tokens, caches=caches[id(cache)]).logits

    check_pieces_match_whole(layer, WHOLE, atol=1e-12)


@every_scheme
def test_gradients_step_by_step_are_those_of_all_at_once(positions):
    model = decoder(positions=positions)
    parallel = model(torch.cat((WHOLE[:, :3], SAID[:, 1:]), dim=1)).logits[:, 2:]
    assert_gradients_by_step(model, model.start(WHOLE[:, :3], PROMPT), SAID, parallel)


def test_the_first_step_says_what_follows_the_prompt_whatever_it_is_given():
    model = decoder()
    state = model.start(WHOLE, torch.full((B,), S))
    expected = model(WHOLE).logits[:, -1]
    for token in (START, PAD, V - 1):
        torch.testing.assert_close(model.step(torch.full((B,), token), state)[0], expected)


@both_norms
def test_a_state_keeps_the_weights_of_all_that_was_read(norm):
    model = decoder(norm=norm)
    state = model.start(WHOLE[:, :3], PROMPT, need_weights=True)
    assert [tuple(each.shape) for each in state.weights] == [(B, 3, 3, 3)] * N
    for tokens in SAID.unbind(1):
        _, state = model.step(tokens, state)
    whole = torch.cat((WHOLE[:, :3], SAID[:, 1:]), dim=1)
    torch.testing.assert_close(state.weights, model(whole, need_weights=True).weights)
    turned = state.select(torch.tensor([1, 0, 1]))
    torch.testing.assert_close(turned.weights[0], state.weights[0][[1, 0, 1]])
    assert model.start(WHOLE, torch.full((B,), S)).weights is None


def test_a_step_leaves_its_state_as_it_was():
    model = decoder().eval()
    with torch.no_grad():
        state = model.start(WHOLE[:, :3], PROMPT)
        _, state = model.step(SAID[:, 0], state)
        first, after = model.step(SAID[:, 1], state)
        model.step(SAID[:, 2], after)
        model.step(SAID[:, 3], state)  # another branch
        again, _ = model.step(SAID[:, 1], state)
    torch.testing.assert_close(first, again)
    assert (state.caches[0].length, after.caches[0].length) == (3, 4)


def test_a_step_reads_one_position_and_the_prompt_is_read_once(monkeypatch):
    model, read = decoder().eval(), []
    embed = model.body.embeddings.forward
    monkeypatch.setattr(
        model.body.embeddings,
        "forward",
        lambda tokens, *rest, **offset: (
            read.append(tokens.shape[1]) or embed(tokens, *rest, **offset)
        ),
    )
    model.special_tokens = SpecialTokens(end=None)
    greedy(model, WHOLE[:, :3], PROMPT, max_length=5)
    assert read == [3, 1, 1, 1, 1]


# ---- Decoded ------------------------------------------------------------------------------------

DECODINGS = {
    "greedy": greedy,
    "beam": beam_search,
    "sample": lambda *batch, max_length: sample(*batch, max_length=max_length, generator=rng(0)),
}


@every_scheme
@pytest.mark.parametrize("way", DECODINGS)
def test_what_is_said_is_what_it_scored(positions, way):
    model = decoder(positions=positions, dropout=0.5)  # which is off while it speaks
    prompt = WHOLE[:, :3]
    found = DECODINGS[way](model, prompt, PROMPT, max_length=8)
    model.eval()
    whole = torch.cat((prompt, found.tokens[:, :-1]), dim=1)
    logits = model(whole).logits[:, 2:]
    logits[..., [PAD, START]] = -torch.inf
    each = logits.log_softmax(-1).gather(-1, found.tokens[..., None])[..., 0]
    total = each.masked_fill(found.tokens == PAD, 0.0).sum(1)
    torch.testing.assert_close(found.log_probs.double(), total, atol=1e-5, rtol=0.0)
    if way == "greedy":
        assert (found.tokens == logits.argmax(-1))[found.tokens != PAD].all()


@torch.no_grad()
def test_a_beam_that_drops_nothing_finds_the_best_of_all_texts():
    words = range(END, 6)  # END, UNKNOWN and two more
    for seed in range(6):
        model = built(DecoderOnly(config(vocab_size=6)), seed)
        prompt, length = torch.tensor([[4, 5]]), torch.tensor([2])
        found = beam_search(model, prompt, length, max_length=3, beam_size=64, length_penalty=0.0)
        totals = {}
        for three in itertools.product(words, repeat=3):
            text = three[: three.index(END) + 1] if END in three else three
            logits = model(torch.tensor([[4, 5, *text[:-1]]])).logits[0, 1:]
            logits[:, [PAD, START]] = -torch.inf
            totals[text] = float(logits.log_softmax(-1)[range(len(text)), text].sum())
        best = max(totals, key=totals.get)
        assert tuple(t for t in found.tokens[0].tolist() if t != PAD) == best
        assert float(found.log_probs) == pytest.approx(totals[best], abs=1e-5)


@pytest.mark.parametrize("positions", SCHEMES)
def test_a_text_that_is_broken_off_goes_on_as_if_it_had_not_been(positions):
    model = decoder(positions=positions)
    model.special_tokens = SpecialTokens(end=None)
    at_once = greedy(model, WHOLE[:, :3], PROMPT, max_length=6).tokens
    first = greedy(model, WHOLE[:, :3], PROMPT, max_length=2).tokens
    prompt = torch.cat((WHOLE[:, :3], first), dim=1)
    rest = greedy(model, prompt, torch.tensor([5, 5]), max_length=4).tokens
    assert torch.equal(torch.cat((first, rest), dim=1), at_once)


@every_scheme
@pytest.mark.parametrize("way", DECODINGS)
@pytest.mark.parametrize("grad", [False, True])
def test_the_state_of_what_was_said_can_be_gone_on_from(positions, way, grad):
    model = decoder(positions=positions).eval()
    model.special_tokens = SpecialTokens(end=None)
    found = DECODINGS[way](model, WHOLE[:, :3], PROMPT, max_length=3)
    with torch.set_grad_enabled(grad):
        logits, state = model.step(found.tokens[:, -1], found.state)
        again, _ = model.step(logits.argmax(-1), state)
    whole = torch.cat((WHOLE[:, :3], found.tokens, logits.argmax(-1, keepdim=True)), dim=1)
    expected = model(whole).logits
    torch.testing.assert_close((logits, again), (expected[:, -2], expected[:, -1]))
    if grad:
        again.sum().backward()


@pytest.mark.parametrize("way", ["greedy", "beam"])  # a draw hangs on how many rows there are
def test_prompts_in_a_batch_go_on_as_each_by_itself(way):
    model = decoder()
    together = DECODINGS[way](model, WHOLE, torch.full((B,), S), max_length=4).tokens
    for row, prompt in zip(together, WHOLE, strict=True):
        alone = DECODINGS[way](model, prompt[None], torch.tensor([S]), max_length=4).tokens[0]
        assert torch.equal(row[: len(alone)], alone)
        assert bool((row[len(alone) :] == PAD).all())


def test_learned_positions_can_be_filled_to_the_last():
    model = decoder(max_length=9)
    model.special_tokens = SpecialTokens(end=None)
    tokens = greedy(model, WHOLE, torch.full((B,), S), max_length=3).tokens  # 7 + 3 - 1 are read
    assert tokens.shape == (B, 3)
    with pytest.raises(ValueError, match="from 0 to max_length - 1 = 8, got offset = 9"):
        greedy(model, WHOLE, torch.full((B,), S), max_length=4)


# ---- In other precisions ------------------------------------------------------------------------


@every_scheme
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_says_nearly_the_same(positions, dtype):
    model = decoder(positions=positions, num_kv_heads=1).eval()
    exact = model(WHOLE).logits.detach()
    half = copy.deepcopy(model).to(dtype)
    logits = half(WHOLE).logits
    assert logits.dtype == dtype
    # A rounding in each of some ten sums, against logits of this size.
    size = float(exact.abs().max())
    torch.testing.assert_close(
        logits.double(), exact, rtol=0.0, atol=size * 16 * torch.finfo(dtype).eps
    )
    for way in DECODINGS.values():
        found = way(half, WHOLE[:, :3], PROMPT, max_length=5)
        assert found.log_probs.dtype == torch.float32
        assert bool(found.log_probs.isfinite().all())


@pytest.mark.parametrize("family", [DecoderOnly, MaskedLanguageModel])
def test_autocast_trains_every_parameter(family):
    model = family(config(norm="pre", embed_dim=12, tie_embeddings=True))
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(WHOLE).logits
    F.cross_entropy(logits.float().flatten(0, 1), WHOLE.flatten()).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert bool(parameter.grad.isfinite().all()), name


def test_a_decoder_learns_a_text_by_heart():
    torch.manual_seed(0)
    settings = {"vocab_size": 9, "embed_dim": 16, "num_heads": 2, "ffn_dim": 32}
    model = DecoderOnly(TransformerConfig(**settings, norm="pre", max_length=16))
    text = torch.tensor([[START, 4, 5, 4, 6, 4, 5, 4, 7, 8, END]])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(120):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(text[:, :-1]).logits[0], text[0, 1:])
        loss.backward()
        optimizer.step()
    said = greedy(model, text[:, :1], torch.tensor([1]), max_length=20).tokens
    assert torch.equal(said, text[:, 1:])
