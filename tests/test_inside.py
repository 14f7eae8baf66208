"""Looking inside: activations against a forward pass written by hand, head by head, in float64."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from attn_notes.data import SpecialTokens
from attn_notes.decoding import greedy
from attn_notes.inside import (
    Head,
    composition,
    contributions,
    copying_score,
    direct_logits,
    effects,
    find_heads,
    find_streams,
    integrated_gradients,
    logit_lens,
    patch,
    prefix_matching_score,
    record,
    rollout,
)
from attn_notes.multihead import MultiHeadAttention
from attn_notes.pretrained import SentenceEncoder, load_decoder, load_encoder, minilm_folder
from attn_notes.transformer import DecoderBlock, DecoderOnly, MaskedLanguageModel
from tests.oracles import B, L, S, filled, normal, rng, stacked
from tests.published import random_gpt2, saved
from tests.small_models import (
    BATCH,
    LENGTHS,
    SOURCE,
    both_half_precisions,
    both_norms,
    config,
    decoder_only,
    ids,
    transformer,
)

TOKENS = ids(B, L)
exact = {"atol": 1e-12, "rtol": 0.0}


def grouped(**changes):
    """Six query heads of width 2 on two key-value heads, three blocks."""
    return decoder_only(**{"num_heads": 6, "num_kv_heads": 2} | changes)


# The forward pass by hand


def normalised(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight + bias


def by_hand(model, tokens: Tensor, change: Callable = lambda place, x: x) -> Tensor:
    """The logits of a decoder-only model; `change` sees every activation, and may replace it."""
    of, sizes = model.state_dict().get, model.config
    pre = sizes.norm == "pre"
    D, group = sizes.head_dim, sizes.num_heads // (sizes.num_kv_heads or sizes.num_heads)
    later = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool).triu(1)

    def linear(x, name, rows=slice(None)):
        return x @ of(f"{name}.weight")[rows].T + of(f"{name}.bias")[rows]

    def norm(x, name):
        return normalised(x, of(f"{name}.weight"), of(f"{name}.bias"))

    x = of("body.embeddings.tokens.weight")[tokens]
    x = change("body.embeddings", x + of("body.embeddings.positions.weight")[: tokens.shape[1]])
    for n in range(sizes.num_layers):
        block = f"body.blocks.{n}"
        y, layer = norm(x, f"{block}.norm1") if pre else x, f"{block}.self_attn"
        total = of(f"{layer}.out_proj.bias")
        for h in range(sizes.num_heads):
            own, shared = (slice(i * D, i * D + D) for i in (h, h // group))
            q = linear(y, f"{layer}.q_proj", own)
            k, v = (linear(y, f"{layer}.{name}_proj", shared) for name in "kv")
            scores = (q @ k.mT / math.sqrt(D)).masked_fill(later, -math.inf)
            read = change(Head(layer, h), scores.softmax(-1) @ v)
            total = total + read @ of(f"{layer}.out_proj.weight")[:, own].T
        x = x + total if pre else norm(x + total, f"{block}.norm1")
        y = norm(x, f"{block}.norm2") if pre else x
        y = linear(y, f"{block}.feed_forward.linear1")
        y = y * (1 + torch.erf(y / math.sqrt(2))) / 2  # gelu
        y = change(f"{block}.feed_forward", linear(y, f"{block}.feed_forward.linear2"))
        x = change(block, x + y if pre else norm(x + y, f"{block}.norm2"))
    return (norm(x, "body.norm") if pre else x) @ of("out_proj.weight").T


def changed_by_hand(model, tokens, place, change: Callable[[Tensor], Tensor]) -> Tensor:
    return by_hand(model, tokens, lambda here, x: change(x) if here == place else x)


def hooks(model: nn.Module) -> int:
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


# Reading and changing activations


def test_heads_and_streams_are_listed_in_the_order_of_computation():
    model = transformer(num_layers=1)
    assert [str(head) for head in find_heads(model)] == [
        f"{layer}.{h}"
        for layer in (
            "encoder.blocks.0.self_attn",
            "decoder.blocks.0.self_attn",
            "decoder.blocks.0.cross_attn",
            "decoder.blocks.1.self_attn",
            "decoder.blocks.1.cross_attn",
        )
        for h in range(3)
    ]
    assert find_streams(model) == [
        "encoder.embeddings",
        "encoder.blocks.0",
        "decoder.embeddings",
        "decoder.blocks.0",
        "decoder.blocks.1",
    ]
    assert find_streams(model.decoder.blocks[0]) == [""]
    assert str(find_heads(MultiHeadAttention(6, 3))[2]) == "2"


@both_norms
def test_every_activation_is_that_of_a_forward_pass_by_hand(norm):
    model, expected = grouped(norm=norm), {}

    def keep(place, x):
        expected[place] = x
        return x

    logits = by_hand(model, TOKENS, keep)
    with record(model) as activations:
        got = model(TOKENS).logits
    torch.testing.assert_close(got, logits, **exact)
    assert list(activations) == list(expected)
    for place, x in activations.items():
        torch.testing.assert_close(x, expected[place], **exact)


@both_norms
def test_every_change_of_every_place_does_what_it_does_by_hand(norm):
    model = grouped(norm=norm, num_layers=2)
    with record(model) as activations, torch.no_grad():
        untouched = model(TOKENS).logits
    for n, (place, x) in enumerate(activations.items()):
        one, all_ = normal(x.shape[-1], seed=n), normal(*x.shape, seed=n)
        for change, function in (
            (0, lambda x: 0 * x),
            (-1.5, lambda x: -1.5 * x),
            (one, lambda x, one=one: one.expand_as(x)),
            (all_, lambda x, all_=all_: all_),
            (x.roll(1, 0), lambda _, x=x: x.roll(1, 0)),
            (lambda x: x.cos() + 1, lambda x: x.cos() + 1),
            (lambda x: x[:1], lambda x: x[:1].expand_as(x)),
        ):
            with patch(model, {place: change}):
                got = model(TOKENS).logits
            torch.testing.assert_close(got, changed_by_hand(model, TOKENS, place, function))
            assert not torch.allclose(got, untouched)


def test_several_heads_of_a_layer_and_nested_contexts_change_it_together():
    model = grouped()
    a, b, c = (Head("body.blocks.1.self_attn", n) for n in (0, 3, 5))
    with patch(model, {a: 2.0, b: 3.0}), patch(model, {b: lambda x: x + 1, "body.blocks.1": 0.5}):
        with record(model, [a, b, c, "body.blocks.1"]) as found, patch(model, {c: 0.0}):
            got = model(TOKENS).logits
        outer = model(TOKENS).logits
    change = {a: lambda x: 2 * x, b: lambda x: 3 * x + 1, "body.blocks.1": lambda x: x / 2}
    expected = by_hand(model, TOKENS, lambda place, x: change.get(place, lambda x: x)(x))
    torch.testing.assert_close(outer, expected, **exact)
    change[c] = torch.zeros_like
    expected = by_hand(model, TOKENS, lambda place, x: change.get(place, lambda x: x)(x))
    torch.testing.assert_close(got, expected, **exact)
    assert found[c].any()  # the patch of c was entered after the record, and is not seen
    assert not torch.equal(found[a], found[b])


def test_the_model_is_as_before_after_the_context_and_after_an_error():
    model = grouped()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    logits = model(TOKENS).logits
    head = find_heads(model)[4]
    with patch(model, {head: 0.0}), record(model):
        model(TOKENS)
    with pytest.raises(ZeroDivisionError), patch(model, {head: 0.0}), record(model):
        1 / 0  # noqa: B018
    with pytest.raises(ValueError, match="broadcast"), patch(model, {head: torch.zeros(7)}):
        model(TOKENS)
    for places in ({head: 0.0, "nowhere": 0.0}, {Head("body.blocks.0", 0): 0.0}):
        with pytest.raises(ValueError, match="a place must be"), patch(model, places):
            pass
        with pytest.raises(ValueError, match="a place must be"), record(model, places):
            pass
    assert hooks(model) == 0
    assert torch.equal(model(TOKENS).logits, logits)
    assert all(torch.equal(before[name], x) for name, x in model.state_dict().items())


def test_nothing_is_changed_in_place():
    model, value = grouped(), normal(2).detach()
    head = find_heads(model)[2]
    with record(model) as clean:
        model(TOKENS)
    copies, before = {place: x.clone() for place, x in clean.items()}, value.clone()
    with patch(model, clean | {head: value}):
        model(TOKENS)
    last, later = find_heads(model)[-1], ("body.blocks.2.feed_forward", "body.blocks.2")
    with torch.no_grad(), record(model) as outside:  # where nothing would forbid it
        with patch(model, {later[1]: 3.0}):
            model(TOKENS)
        assert all(torch.equal(x, copies[place]) for place, x in outside.items())
        with patch(model, {last: -2.0}):
            model(TOKENS)
    assert all(torch.equal(x, copies[p]) != (p in later) for p, x in outside.items())
    assert torch.equal(value, before)
    assert all(torch.equal(x, copies[place]) for place, x in clean.items())


def test_gradients_flow_through_a_change_and_to_a_recorded_activation():
    model, head = grouped(), Head("body.blocks.0.self_attn", 3)
    x = normal(B, L, 2)
    with patch(model, {head: x}):
        (got,) = torch.autograd.grad(model(TOKENS).logits.cos().sum(), x)
    logits = changed_by_hand(model, TOKENS, head, lambda _: x)
    torch.testing.assert_close(got, torch.autograd.grad(logits.cos().sum(), x)[0])
    with record(model) as found:
        logits = model(TOKENS).logits
    (got,) = torch.autograd.grad(logits.cos().sum(), found[head])
    x = found[head].detach().requires_grad_()
    logits = changed_by_hand(model, TOKENS, head, lambda _: x)
    torch.testing.assert_close(got, torch.autograd.grad(logits.cos().sum(), x)[0])


@pytest.mark.parametrize("place", [3, "body.embeddings", "body.blocks.1", "body.blocks.2.norm1"])
def test_steps_with_a_cache_equal_the_parallel_pass_under_a_change(place):
    model = grouped()
    place = find_heads(model)[place] if place == 3 else place
    for change in (0.0, torch.linspace(-1, 1, 2 if isinstance(place, Head) else 12), torch.sin):
        with patch(model, {place: change}):
            parallel = model(TOKENS).logits
            logits, state = model.start(TOKENS[:, :2])
            stepped = [logits]
            for n in range(2, L):
                logits, state = model.step(TOKENS[:, n], state)
                stepped.append(logits)
        torch.testing.assert_close(torch.stack(stepped, 1), parallel[:, 1:], **exact)


@both_norms
def test_a_transformer_decodes_under_a_change_what_it_computes_in_parallel(norm):
    model = transformer(norm=norm)
    heads = find_heads(model)
    untouched = model(*BATCH)[0]
    for head in heads:
        with patch(model, {head: 0.0, find_streams(model)[0]: 0.7}):
            parallel = model(*BATCH)[0]
            logits, state = model.start(SOURCE, LENGTHS)
            stepped = [logits]
            for n in range(1, L):
                logits, state = model.step(BATCH[2][:, n], state)
                stepped.append(logits)
        torch.testing.assert_close(torch.stack(stepped, 1), parallel, **exact)
        assert not torch.allclose(parallel, untouched)
    assert hooks(model) == 0
    with patch(model, dict.fromkeys(heads, 0.0)):
        found = greedy(model, SOURCE, LENGTHS, max_length=5)
    assert found.tokens.shape[0] == B


@both_half_precisions
def test_in_half_precision_activations_stay_in_it(dtype):
    model = grouped().to(dtype)
    head = find_heads(model)[1]
    with (
        patch(model, {head: torch.ones(2), "body.blocks.0": lambda x: x.double()}),
        record(model) as found,
    ):
        logits = model(TOKENS).logits
    assert {x.dtype for x in found.values()} == {logits.dtype} == {dtype}
    assert logits.isfinite().all()


def test_outputs_with_names_keep_them_and_blocks_and_bare_layers_are_places_too():
    model = grouped()
    with patch(model, {"body": 0.0}):
        output = model(TOKENS, need_weights=True, need_hidden_states=True)
    assert not output.logits.any()
    assert len(output.weights) == len(output.hidden_states) - 1 == 3
    block = filled(DecoderBlock(config()))
    x, memory = normal(B, L, 6), normal(B, S, 6)
    with patch(block, {Head("cross_attn", 2): 0.0}), record(block) as found:
        out, weights, cross_weights = block(x, memory, need_weights=True)
    assert torch.equal(found[""], out)
    assert weights.shape[-1] == L
    assert cross_weights.shape[-1] == S
    layer = filled(MultiHeadAttention(5, 3, qk_proj_dim=6, v_proj_dim=33, out_proj=False))
    with patch(layer, {Head("", 1): 0.0}):
        heads = layer(normal(B, L, 5))[0].unflatten(-1, (3, 11))
    assert heads.any(-1).any(1).any(0).tolist() == [True, False, True]


@given(
    st.integers(1, 3), st.integers(1, 4), st.integers(1, 5), st.integers(1, 3), st.integers(1, 3)
)
def test_sizes_of_any_kind(b, length, head_dim, groups, per_group):
    H = groups * per_group
    sizes = {"embed_dim": H * head_dim, "num_heads": H, "num_kv_heads": groups, "num_layers": 1}
    model, tokens = decoder_only(**sizes), ids(b, length)
    head = Head("body.blocks.0.self_attn", H - 1)
    with patch(model, {head: 0.25}), record(model) as found:
        logits = model(tokens).logits
    assert found[head].shape == (b, length, head_dim)
    torch.testing.assert_close(logits, changed_by_hand(model, tokens, head, lambda x: x / 4))
    shares = direct_logits(model, found, model.out_proj.weight[5])
    torch.testing.assert_close(sum(shares.values()), logits[..., 5], **exact)


# Effects


def test_effects_are_differences_without_dropout_and_without_gradients():
    model = grouped(dropout=0.5).train()
    model.body.blocks[1].eval()  # a frozen part stays so
    heads = find_heads(model)
    untouched = by_hand(model, TOKENS)[:, -1]
    found = effects(model, lambda: model(TOKENS).logits[:, -1], dict.fromkeys(heads, 0.0))
    assert list(found) == heads
    for head, effect in found.items():
        without = changed_by_hand(model, TOKENS, head, torch.zeros_like)[:, -1]
        torch.testing.assert_close(effect, without - untouched, **exact)
        assert not effect.requires_grad
    assert model.training
    assert not model.body.blocks[1].training
    assert hooks(model) == 0
    numbers = effects(model, lambda: float(model(TOKENS).logits[0, 0, 0]), {heads[0]: 0.0})
    assert isinstance(numbers[heads[0]], float)
    with pytest.raises(ZeroDivisionError):
        effects(model, lambda: 1 / 0, {heads[0]: 0.0})
    assert model.training


def test_mean_and_resample_ablation_are_changes_made_of_recorded_heads():
    model = grouped()
    with record(model, find_heads(model)) as clean, torch.no_grad():
        model(TOKENS)
    assert list(clean) == find_heads(model)

    def measure():
        return model(TOKENS).logits.square().sum((1, 2))

    for change in (lambda x: x.mean((0, 1)), lambda x: x.roll(1, 0), lambda x: x):
        found = effects(model, measure, {head: change(x) for head, x in clean.items()})
        for head, effect in found.items():
            by = changed_by_hand(model, TOKENS, head, lambda x, c=change: c(x).expand_as(x))
            expected = by.square().sum((1, 2)) - measure().detach()
            torch.testing.assert_close(effect, expected, atol=1e-10, rtol=0)
    assert max(abs(effect).max() for effect in found.values()) < 1e-10  # its own output: no effect


# The residual stream


@both_norms
def test_the_lens_reads_what_a_model_with_fewer_blocks_predicts(norm):
    model = grouped(norm=norm)
    with record(model) as found:
        logits = model(TOKENS).logits
    for blocks in (1, 2):
        shorter = grouped(norm=norm, num_layers=blocks)
        shorter.load_state_dict(model.state_dict(), strict=False)
        lens = logit_lens(model, found[f"body.blocks.{blocks - 1}"])
        torch.testing.assert_close(lens, shorter(TOKENS).logits, **exact)
        assert not torch.allclose(lens, logits)
    assert torch.equal(logit_lens(model, found["body.blocks.2"]), logits)


@both_norms
def test_the_lens_on_the_last_stream_gives_the_logits_of_every_family(norm):
    masked = filled(MaskedLanguageModel(config(norm=norm)))
    with record(masked) as found:
        logits = masked(TOKENS).logits
    assert torch.equal(logit_lens(masked, found["body.blocks.2"]), logits)
    model = transformer(norm=norm)
    with record(model) as found:
        logits = model(*BATCH)[0]
    assert torch.equal(logit_lens(model, found["decoder.blocks.1"]), logits)


PRE_NORM = {
    "grouped": (grouped, {}, "body.blocks.2"),
    "rotary": (decoder_only, {"positions": "rotary", "layer_norm_eps": 0.1}, "body.blocks.2"),
    "tied": (transformer, {"norm": "pre", "tie_embeddings": True}, "decoder.blocks.1"),
    "scaled": (transformer, {"norm": "pre", "scale_embeddings": True}, "decoder.blocks.1"),
}


@pytest.mark.parametrize("kind", PRE_NORM)
def test_contributions_sum_to_the_stream_and_shares_to_the_logits(kind):
    make, changes, last = PRE_NORM[kind]
    model = make(**changes)
    with record(model) as found, torch.no_grad():
        logits = model(*BATCH)[0] if make is transformer else model(TOKENS).logits
    parts = contributions(model, found)
    stack = last.partition(".")[0]
    heads = [head for head in find_heads(model) if head.layer.startswith(stack)]
    layers = {head.layer for head in heads}
    blocks = len(getattr(model, stack).blocks)
    assert len(parts) == 1 + len(heads) + len(layers) + blocks
    torch.testing.assert_close(sum(parts.values()), found[last], **exact)
    W = model.out_proj.weight
    scale = (found[last].var(-1, correction=0) + model.config.layer_norm_eps).sqrt()
    for direction, wanted in (
        (W[7], logits[..., 7]),
        (W[5] - W[11], logits[..., 5] - logits[..., 11]),
        (W[logits.argmax(-1)], logits.max(-1).values),
    ):
        shares = direct_logits(model, found, direction)
        torch.testing.assert_close(sum(shares.values()), wanted, **exact)
        assert list(shares)[:-1] == list(parts)
        norm = getattr(model, stack).norm
        for place, part in parts.items():
            centred = part - part.mean(-1, keepdim=True)
            expected = (centred / scale[..., None] * norm.weight * direction).sum(-1)
            torch.testing.assert_close(shares[place], expected, **exact)


def test_what_a_part_of_the_last_block_writes_is_what_is_missing_without_it():
    model = grouped()
    with record(model) as found:
        model(TOKENS)
    parts = contributions(model, found)
    for place in [*[Head("body.blocks.2.self_attn", n) for n in range(6)]]:
        with patch(model, {place: 0.0, "body.blocks.2.feed_forward": 0.0}), record(model) as less:
            model(TOKENS)
        written = found["body.blocks.2"] - less["body.blocks.2"]
        expected = parts[place] + parts["body.blocks.2.feed_forward"]
        torch.testing.assert_close(written, expected, **exact)


# Scores


def matching_by_loop(weights: Tensor, tokens: list[int]) -> float:
    rows = []
    for t, token in enumerate(tokens):
        cells = [i for i in range(1, t) if tokens[i - 1] == token]
        if cells:
            rows.append(sum(float(weights[t, i]) for i in cells))
    return sum(rows) / len(rows) if rows else math.nan


def test_prefix_matching_on_a_map_made_by_hand():
    tokens = torch.tensor([[3, 5, 3, 5, 5], [1, 2, 3, 4, 5]])
    weights = torch.zeros(2, 3, 5, 5)
    weights[0, 0, 2, 1] = 1.0  # the second 3 reads the 5 that followed the first
    weights[0, 0, 3, 2] = 0.5  # the second 5 reads the 3 that followed the first
    weights[0, 0, 4, 2] = 0.25  # the last 5: after the first 5 came 3, after the second itself
    weights[0, 1, 4, 4] = 1.0  # itself does not count
    weights[0, 2, 0, 0] = weights[0, 2, 2, 0] = 1.0  # nor does the twin
    got = prefix_matching_score(weights, tokens)
    torch.testing.assert_close(got[0], torch.tensor([1.75 / 3, 0.0, 0.0]))
    assert got[1].isnan().all()  # no token twice


@given(st.integers(1, 3), st.integers(1, 2), st.integers(1, 7), st.integers(0, 9))
def test_prefix_matching_is_its_definition_in_loops(b, heads, length, seed):
    weights = torch.rand(b, heads, length, length, generator=rng(seed), dtype=torch.float64)
    tokens = torch.randint(3, (b, length), generator=rng(seed))
    got = prefix_matching_score(weights.tril(), tokens)
    expected = [
        [matching_by_loop(w, tokens[n].tolist()) for w in weights[n].tril()] for n in range(b)
    ]
    expected = torch.tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(got, expected, equal_nan=True)


def circuits(model, head: Head, norm_first: bool = True) -> tuple[Tensor, Tensor]:
    """Query-key and output-value matrices (E, E) of a head behind its norm, entry by entry."""
    block = model.get_submodule(head.layer.removesuffix(".self_attn"))
    layer, E = block.self_attn, block.self_attn.q_proj.in_features
    D = E // layer.num_heads
    own, h = slice(head.index * D, (head.index + 1) * D), head.index
    g = h // (layer.num_heads // layer.num_kv_heads)
    shared = slice(g * D, (g + 1) * D)
    centre = torch.eye(E, dtype=torch.float64) - 1 / E
    fold = block.norm1.weight.diag() @ centre if norm_first else torch.eye(E, dtype=torch.float64)
    q, k = layer.q_proj.weight[own] @ fold, layer.k_proj.weight[shared] @ fold
    v, o = layer.v_proj.weight[shared] @ fold, layer.out_proj.weight[:, own]
    return q.T @ k, o @ v


@torch.no_grad()
@both_norms
def test_composition_is_its_definition_with_whole_matrices(norm):
    model = grouped(norm=norm)
    for a, b in ((0, 4), (5, 2)):
        earlier, later = Head("body.blocks.0.self_attn", a), Head("body.blocks.2.self_attn", b)
        _, written = circuits(model, earlier, norm == "pre")
        qk, ov = circuits(model, later, norm == "pre")
        size = torch.linalg.matrix_norm
        expected = {
            "q": size(qk.T @ written) / size(qk) / size(written),
            "k": size(qk @ written) / size(qk) / size(written),
            "v": size(ov @ written) / size(ov) / size(written),
        }
        expected = {name: float(value) for name, value in expected.items()}
        assert composition(model, earlier, later) == pytest.approx(expected, abs=1e-12)
        packed = DecoderOnly(replace(model.config, packed=True)).double()
        packed.load_state_dict(stacked(model))
        assert composition(packed, earlier, later) == pytest.approx(expected, abs=1e-12)


@torch.no_grad()
def test_composition_is_0_for_heads_that_do_not_meet_and_1_over_root_e_for_a_random_turn():
    model = decoder_only(norm="post", num_heads=2)
    E, heads = 12, (Head("body.blocks.0.self_attn", 0), Head("body.blocks.1.self_attn", 1))
    first, second = (model.body.blocks[n].self_attn for n in (0, 1))
    first.out_proj.weight[6:] = 0  # writes to one half of the stream
    for projection, halves in ((second.q_proj, 0.0), (second.k_proj, 1.0), (second.v_proj, 1.0)):
        projection.weight[:, :6] *= halves
    found = composition(model, *heads)
    assert found["q"] == 0
    assert min(found["k"], found["v"]) > 0.1
    squares, weight = [], first.out_proj.weight.clone()
    for seed in range(400):
        noise = torch.randn(E, E, generator=rng(seed), dtype=torch.float64)
        first.out_proj.weight.copy_(torch.linalg.qr(noise)[0] @ weight)
        squares.append([value**2 for value in composition(model, *heads).values()])
    mean = torch.tensor(squares).mean(0)
    torch.testing.assert_close(mean, torch.full((3,), 1 / E), rtol=0.15, atol=0, check_dtype=False)


@torch.no_grad()
def test_a_head_that_copies_scores_1_its_negative_minus_1_and_others_their_eigenvalues():
    model = decoder_only(num_heads=1, num_layers=2, tie_embeddings=True)
    head = Head("body.blocks.1.self_attn", 0)
    layer, norms = model.body.blocks[1].self_attn, (model.body.blocks[1].norm1, model.body.norm)
    expected = eigenvalue_score(model, head, *norms)
    assert copying_score(model, head) == pytest.approx(expected, abs=1e-9)
    for norm in norms:
        norm.weight.fill_(1.0)
    layer.v_proj.weight.copy_(torch.eye(12))
    for sign in (1, -1):
        layer.out_proj.weight.copy_(sign * torch.eye(12))
        assert copying_score(model, head) == pytest.approx(sign, abs=1e-9)
    both = transformer(norm="pre", num_heads=3)
    head = Head("decoder.blocks.1.self_attn", 2)
    expected = eigenvalue_score(both, head, both.decoder.blocks[1].norm1, both.decoder.norm)
    assert copying_score(both, head) == pytest.approx(expected, abs=1e-9)


def eigenvalue_score(model, head: Head, before: nn.LayerNorm, last: nn.LayerNorm) -> float:
    """From the whole matrix (V, V) from the token read to the logits."""
    stack = model.get_submodule(head.layer.partition(".")[0])
    _, ov = circuits(model, head)
    E = len(ov)
    centre = torch.eye(E, dtype=torch.float64) - 1 / E
    embed, unembed = stack.embeddings.tokens.weight, model.out_proj.weight
    values = torch.linalg.eigvals(unembed @ last.weight.diag() @ centre @ ov @ embed.T)
    return float(values.real.sum() / values.abs().sum())


# Attribution


def test_rollout_of_two_layers_worked_out_by_hand():
    first = torch.tensor([[[1.0, 0.0], [0.5, 0.5]], [[1.0, 0.0], [0.0, 1.0]]])  # two heads
    second = torch.tensor([[[1.0, 0.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]]])
    # means over heads: rows (1, 0), (1/4, 3/4), then (1, 0), (1/2, 1/2); half of each stays:
    # (1, 0), (1/8, 7/8), then (1, 0), (1/4, 3/4). Product: 1/4 + 3/4 · 1/8 = 11/32, and 21/32.
    expected = torch.tensor([[1.0, 0.0], [11 / 32, 21 / 32]])
    torch.testing.assert_close(rollout([first, second]), expected)
    batch = [layer.expand(B, 2, 2, 2) for layer in (first, second)]
    torch.testing.assert_close(rollout(batch), expected.expand(B, 2, 2))


def test_rollout_begins_with_the_first_layer():
    first = torch.tensor([[[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])  # the token before
    second = torch.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]])
    # the last row: half of row 0, (1, 0, 0), and half of row 2 of the first, (0, 1/2, 1/2)
    expected = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.5, 0.25, 0.25]])
    torch.testing.assert_close(rollout([first, second]), expected)


def test_rollout_of_a_model_stays_a_distribution_and_empty_rows_keep_themselves():
    weights = grouped()(TOKENS, need_weights=True).weights
    got = rollout(weights)
    torch.testing.assert_close(got.sum(-1), torch.ones(B, L, dtype=torch.float64))
    assert not got.triu(1).any()
    assert torch.equal(rollout([torch.zeros(1, 3, 3)]), torch.eye(3))


def test_integrated_gradients_are_exact_on_a_square_and_complete_on_a_model():
    x, baseline = normal(B, 3), normal(1, 3, seed=1)
    got = integrated_gradients(lambda x: x**2 @ torch.arange(3.0).double(), x, baseline, steps=1)
    torch.testing.assert_close(got, (x**2 - baseline**2) * torch.arange(3))
    model = grouped()
    with record(model) as found:
        model(TOKENS)
    x = found["body.embeddings"]

    def logit(x):
        with patch(model, {"body.embeddings": x}):
            return model(TOKENS).logits[:, -1, 7]  # a row of the batch each

    baseline = normal(L, 12, seed=5)
    wanted = (logit(x) - logit(baseline)).detach()
    errors = []
    for steps in (16, 64, 256):
        got = integrated_gradients(logit, x, baseline, steps=steps)
        assert got.shape == x.shape
        assert not got.requires_grad
        errors.append(float((got.sum((1, 2)) - wanted).abs().max()))
    assert errors[2] < 1e-4 < wanted.abs().min()
    assert errors[2] < errors[1] / 8 < errors[0] / 64, "it falls with the square of the steps"
    assert hooks(model) == 0


def test_integrated_gradients_run_where_gradients_are_off_and_start_from_zero():
    x = normal(4)
    with torch.no_grad():
        got = integrated_gradients(torch.sin, x, steps=100)
    torch.testing.assert_close(got, x.sin().detach(), atol=1e-4, rtol=0)


# The reader's own model


def test_which_heads_of_the_published_encoder_matter_takes_ten_lines():
    sentences = SentenceEncoder(*load_encoder(minilm_folder()))

    def similarity():
        a, b = sentences.encode(["A cat sleeps.", "The kitten naps."])
        return float(a @ b)

    zeros = dict.fromkeys(find_heads(sentences.encoder), 0.0)
    found = effects(sentences.encoder, similarity, zeros)
    ranked = sorted(found, key=lambda head: -abs(found[head]))

    assert len(ranked) == 72
    head, weight = ranked[0], sentences.encoder.get_submodule(ranked[0].layer).out_proj.weight
    assert abs(found[head]) > 0.01 > abs(found[ranked[60]])
    untouched = similarity()
    with torch.no_grad():  # the same without hooks: the head's columns of the projection are 0
        weight[:, head.index * 32 : head.index * 32 + 32] = 0
    assert similarity() - untouched == pytest.approx(found[head], abs=1e-5)


def test_a_published_decoder_takes_the_same_lines(transformers, tmp_path):
    model, _ = load_decoder(saved(tmp_path, random_gpt2(transformers)))
    tokens = torch.tensor([[5, 6, 7, 5]])

    def log_probability():
        return float(model(tokens).logits[0, -1].log_softmax(-1)[6])

    found = effects(model, log_probability, dict.fromkeys(find_heads(model), 0.0))

    assert len(found) == 6
    assert min(map(abs, found.values())) > 0
    assert model.special_tokens == SpecialTokens(pad=100, start=None, end=100)
    with record(model) as activations, torch.no_grad():
        logits = model(tokens).logits
    shares = direct_logits(model, activations, model.out_proj.weight[6])
    torch.testing.assert_close(sum(shares.values()), logits[..., 6], atol=1e-4, rtol=0)
