"""Looking inside: activations against a forward pass written by hand, head by head, in float64."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from attn_notes import inside
from attn_notes.decoding import greedy
from attn_notes.inside import Head, effects, find_heads, patch, record
from attn_notes.multihead import MultiHeadAttention
from attn_notes.transformer import DecoderBlock, DecoderOnly, MaskedLanguageModel
from tests import small_models as small
from tests.oracles import B, L, S, filled, half_precisions, normal, rng, stacked
from tests.small_models import BATCH, LENGTHS, SOURCE, config, decoder_only, ids, transformer

TOKENS = ids(B, L)


def assert_exact(got: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(got, expected, atol=1e-12, rtol=0.0)


def grouped(**changes):
    """Six query heads of width 2 on two key-value heads, three blocks."""
    return decoder_only(**{"num_heads": 6, "num_kv_heads": 2} | changes)


# The forward pass by hand


def by_hand(model, tokens: Tensor, change: Callable = lambda place, x: x) -> Tensor:
    """The logits of a decoder-only model; `change` sees every activation, and may replace it."""
    of, sizes = model.state_dict().get, model.config
    pre = sizes.norm == "pre"
    D = sizes.proj_dim // sizes.num_heads
    group = sizes.num_heads // (sizes.num_kv_heads or sizes.num_heads)
    later = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool).triu(1)

    def linear(x, name, rows=slice(None)):
        return x @ of(f"{name}.weight")[rows].T + of(f"{name}.bias")[rows]

    def norm(x, name):
        return nn.functional.layer_norm(x, x.shape[-1:], of(f"{name}.weight"), of(f"{name}.bias"))

    x = of("body.embeddings.tokens.weight")[tokens]
    x = change("body.embeddings", x + of("body.embeddings.positions.weight")[: tokens.shape[1]])
    for n in range(sizes.num_layers):
        block = f"body.blocks.{n}"
        y, layer = norm(x, f"{block}.norm1") if pre else x, f"{block}.self_attn"
        total = of(f"{layer}.out_proj.bias")
        for h in range(sizes.num_heads):
            own, shared = (slice(i * D, i * D + D) for i in (h, h // group))
            first = Head(layer, h // group * group)  # of those that share keys and values
            q = change(Head(layer, h, "query"), linear(y, f"{layer}.q_proj", own))
            k = change(first.at("key"), linear(y, f"{layer}.k_proj", shared))
            v = change(first.at("value"), linear(y, f"{layer}.v_proj", shared))
            scores = (q @ k.mT / math.sqrt(D)).masked_fill(later, -math.inf)
            read = change(Head(layer, h), change(Head(layer, h, "pattern"), scores.softmax(-1)) @ v)
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
    layers = ["encoder.blocks.0.self_attn"]
    for n in (0, 1):
        layers += [f"decoder.blocks.{n}.self_attn", f"decoder.blocks.{n}.cross_attn"]
    assert [*map(str, find_heads(model))] == [f"{layer}.{h}" for layer in layers for h in range(3)]
    encoder, decoder = ["embeddings", "blocks.0"], ["embeddings", "blocks.0", "blocks.1"]
    streams = [f"encoder.{name}" for name in encoder] + [f"decoder.{name}" for name in decoder]
    assert inside.find_streams(model) == streams
    assert inside.find_streams(model.decoder.blocks[0]) == [""]
    assert str(find_heads(MultiHeadAttention(6, 3))[2]) == "2"


@small.both_norms
def test_every_activation_is_that_of_a_forward_pass_by_hand(norm):
    model, expected = grouped(norm=norm), {}

    def keep(place, x):
        expected[place] = x
        return x

    logits = by_hand(model, TOKENS, keep)
    with record(model) as activations, record(model, expected) as everything:
        got = model(TOKENS).logits
    assert_exact(got, logits)
    is_inner = [isinstance(place, Head) and place.part != "output" for place in expected]
    assert list(activations) == [
        p for p, inner in zip(expected, is_inner, strict=True) if not inner
    ]
    assert sum(is_inner) == 3 * (6 + 2 + 2 + 6)
    for place, x in (*activations.items(), *everything.items()):
        assert_exact(x, expected[place])
    sharing = find_heads(model)[2].at("key"), find_heads(model)[0].at("key")
    with record(model, sharing) as found:
        model(TOKENS)
    assert torch.equal(*found.values())


@small.both_norms
def test_every_change_of_every_place_does_what_it_does_by_hand(norm):
    model, places = grouped(norm=norm, num_layers=2), []
    by_hand(model, TOKENS, lambda place, x: (places.append(place), x)[1])
    with record(model, places) as activations, torch.no_grad():
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
    model, block = grouped(), "body.blocks.1"
    a, b, c = (Head(f"{block}.self_attn", n) for n in (0, 3, 5))
    with patch(model, {a: 2.0, b: 3.0}), patch(model, {b: lambda x: x + 1, block: 0.5}):
        with record(model, [a, b, c, block]) as found, patch(model, {c: 0.0}):
            got = model(TOKENS).logits
        outer = model(TOKENS).logits
    change = {a: lambda x: 2 * x, b: lambda x: 3 * x + 1, block: lambda x: x / 2}

    def expected():
        return by_hand(model, TOKENS, lambda place, x: change.get(place, lambda x: x)(x))

    assert_exact(outer, expected())
    change[c] = torch.zeros_like
    assert_exact(got, expected())
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
        for context in (patch, record):
            with pytest.raises(ValueError, match="a place must be"), context(model, places):
                pass
    assert hooks(model) == 0
    assert torch.equal(model(TOKENS).logits, logits)
    assert all(torch.equal(before[name], x) for name, x in model.state_dict().items())


UNVISITED = {
    "a container": "body.blocks",
    "a dropout that the fused path skips": "body.blocks.0.self_attn.dropout",
}


@pytest.mark.parametrize("place", UNVISITED.values(), ids=UNVISITED)
@pytest.mark.parametrize("kind", ["record", "patch"])
def test_a_place_that_the_run_never_visits_is_refused(kind, place):
    model, head = grouped(), find_heads(grouped())[0]
    context = {
        "record": lambda: record(model, [head, place]),
        "patch": lambda: patch(model, {head: 0.0, place: 0.0}),
    }[kind]
    with pytest.raises(ValueError, match=f"the run never visits '{place}'"), context():
        model(TOKENS)
    with pytest.raises(ZeroDivisionError), context():  # an error on its way is not replaced
        1 / 0  # noqa: B018
    assert hooks(model) == 0


def test_a_run_that_is_forgotten_is_refused_for_places_with_names_alone():
    model = transformer()
    with pytest.raises(ValueError, match=r"never visits 'encoder\.embeddings'"):
        effects(model, float, {"encoder.embeddings": 0.0})
    with record(model) as found:  # by default whatever is computed is kept: here no decoder
        model.encoder(SOURCE)
    assert {str(place).partition(".")[0] for place in found} == {"encoder"}
    with record(model, []), patch(model, {}):
        pass


def test_dropouts_are_places_like_any_other():
    model = transformer(norm="post")
    places = [name for name, module in model.named_modules() if isinstance(module, nn.Dropout)]
    places = [name for name in places if "attn" not in name]
    with torch.no_grad():
        untouched = model(*BATCH)[0]
    for place in places:
        with patch(model, {place: 0.5}), torch.no_grad():
            assert not torch.allclose(model(*BATCH)[0], untouched), place


def test_a_model_without_parts_that_are_known_is_refused():
    for look in (find_heads, inside.find_streams, lambda model: record(model).__enter__()):
        with pytest.raises(ValueError, match=r"is known.*, got TransformerEncoderLayer"):
            look(nn.TransformerEncoderLayer(8, 2))


def test_nothing_is_changed_in_place():
    model, value = grouped(), normal(2).detach()
    before, (head, *_, last) = value.clone(), find_heads(model)
    later = ("body.blocks.2.feed_forward", "body.blocks.2")
    with record(model) as clean:
        model(TOKENS)
    copies = {place: x.clone() for place, x in clean.items()}
    with patch(model, clean | {head: value}):
        model(TOKENS)
    assert torch.equal(value, before)
    assert all(torch.equal(x, copies[place]) for place, x in clean.items())
    with torch.no_grad(), record(model) as outside:  # where nothing would forbid it
        with patch(model, {later[1]: 3.0}):
            model(TOKENS)
        assert all(torch.equal(x, copies[place]) for place, x in outside.items())
        with patch(model, {last: -2.0}):
            model(TOKENS)
    assert all(torch.equal(x, copies[p]) != (p in later) for p, x in outside.items())


def test_gradients_flow_through_a_change_and_to_a_recorded_activation():
    model, head = grouped(), Head("body.blocks.0.self_attn", 3)

    def assert_gradient(logits, x):
        (got,) = torch.autograd.grad(logits.cos().sum(), x)
        x = x.detach().requires_grad_()
        logits = changed_by_hand(model, TOKENS, head, lambda _: x)
        torch.testing.assert_close(got, torch.autograd.grad(logits.cos().sum(), x)[0])

    x = normal(B, L, 2)
    with patch(model, {head: x}):
        assert_gradient(model(TOKENS).logits, x)
    with record(model) as found:
        logits = model(TOKENS).logits
    assert_gradient(logits, found[head])


def in_steps(model, source, tokens: Tensor) -> Tensor:
    """The logits (B, 1 + t, V) after a source and after each of the tokens (B, t)."""
    logits, state = model.start(*source)
    steps = [logits]
    for column in tokens.unbind(1):
        logits, state = model.step(column, state)
        steps.append(logits)
    return torch.stack(steps, 1)


HEAD = Head("body.blocks.1.self_attn", 3)
STEPPED = [HEAD, "body.embeddings", "body.blocks.1", "body.blocks.2.norm1"]
STEPPED += [HEAD.at("query"), HEAD.at("key"), HEAD.at("value"), HEAD.at("pattern")]


@pytest.mark.parametrize("positions", ["learned", "rotary"])
@pytest.mark.parametrize("place", STEPPED, ids=str)
def test_steps_with_a_cache_equal_the_parallel_pass_under_a_change(place, positions):
    model, width = grouped(positions=positions), 2 if isinstance(place, Head) else 12
    vector = torch.linspace(-1, 1, width)
    is_pattern = str(place).endswith("pattern")  # in which a vector would open the mask
    for change in (0.0, torch.sin) if is_pattern else (0.0, vector, torch.sin):
        with patch(model, {place: change}):
            found = in_steps(model, [TOKENS[:, :2]], TOKENS[:, 2:])
            assert_exact(found, model(TOKENS).logits[:, 1:])


@small.both_norms
def test_a_transformer_decodes_under_a_change_what_it_computes_in_parallel(norm):
    model = transformer(norm=norm)
    heads, untouched = find_heads(model), model(*BATCH)[0]
    for head in heads:
        with patch(model, {head: 0.0, "encoder.embeddings": 0.7}):
            parallel = model(*BATCH)[0]
            assert_exact(in_steps(model, (SOURCE, LENGTHS), BATCH[2][:, 1:]), parallel)
        assert not torch.allclose(parallel, untouched)
    assert hooks(model) == 0
    with patch(model, dict.fromkeys(heads, 0.0)):
        assert len(greedy(model, SOURCE, LENGTHS, max_length=5).tokens) == B


@pytest.mark.parametrize("positions", ["learned", "rotary", "alibi"])
def test_queries_keys_and_values_are_what_a_head_reads_by(positions):
    model = grouped(positions=positions)
    heads = find_heads(model)
    places = [head.at(part) for head in heads for part in get_args(inside.Part)]
    with record(model, places) as found, torch.no_grad():
        logits, _, weights = model(TOKENS, need_weights=True)
    assert_exact(logits, model(TOKENS).logits)
    for n, head in enumerate(heads):
        pattern = found[head.at("pattern")]
        assert_exact(pattern, weights[n // 6][:, n % 6])
        assert_exact(found[head], pattern @ found[head.at("value")])
        if positions != "alibi":  # which adds a bias
            scores = found[head.at("query")] @ found[head.at("key")].mT / math.sqrt(2)
            scores = scores.masked_fill(torch.ones(L, L).triu(1) > 0, -math.inf)
            assert_exact(scores.softmax(-1), pattern)


def test_parts_of_cross_attention_are_of_both_sides_and_the_weights_returned_are_those_used():
    model = transformer()
    head = Head("decoder.blocks.1.cross_attn", 1)
    places = [head.at(part) for part in ("query", "key", "value", "pattern")]
    even = torch.full((L, S), 1 / S).double()
    with patch(model, {head.at("pattern"): even}), record(model, places) as found:
        weights = model(*BATCH, need_weights=True)[1].cross[1][:, 1]
    assert [tuple(x.shape) for x in map(found.get, places)] == [
        (B, L, 2),
        (B, S, 2),
        (B, S, 2),
        (B, L, S),
    ]
    assert_exact(weights, even.expand(B, L, S))
    with record(model, [*places, head], every_call=True) as found:
        in_steps(model, (SOURCE, LENGTHS), BATCH[2][:, 1:])
    assert [x.shape[1] for x in found[head]] == [1] * L
    assert {x.shape[1] for x in found[head.at("key")]} == {S}
    with record(model, places) as whole:
        model(*BATCH)
    assert_exact(torch.cat(found[head.at("pattern")], 1), whole[head.at("pattern")])


def test_changes_at_chosen_positions_leave_the_others():
    model, place = grouped(), find_heads(grouped())[9]
    with record(model, [place]) as clean:
        model(TOKENS)
    rows = torch.tensor([[True, False, False, True, False], [False] * 5])
    new = normal(B, L, 2)
    for positions, chosen in (
        (1, [1]),
        (-1, [4]),
        ([0, 3], [0, 3]),
        (slice(2, None), [2, 3, 4]),
        (torch.tensor([2, 0]), [2, 0]),
        (rows[0], [0, 3]),
    ):
        expected = clean[place].clone()
        expected[:, chosen] = new[:, chosen]
        with patch(model, {place: new}, positions=positions), record(model, [place]) as found:
            logits = model(TOKENS).logits
        assert torch.equal(found[place], expected)
        got = effects(model, lambda: model(TOKENS).logits, {place: new}, positions=positions)
        assert_exact(got[place], logits - model(TOKENS).logits)
    with patch(model, {place: 0.0}, positions=rows), record(model, [place]) as found:
        model(TOKENS)
    assert (found[place] == 0).all(-1).tolist() == rows.tolist()
    few = patch(model, {place: 0.0}, positions=torch.ones(3) > 0)
    with pytest.raises(ValueError, match=r"positions must broadcast.*got positions \(3,\)"), few:
        model(TOKENS)


@half_precisions
def test_in_half_precision_activations_stay_in_it(dtype):
    model = grouped().to(dtype)
    changes = {find_heads(model)[1]: torch.ones(2), "body.blocks.0": lambda x: x.double()}
    with patch(model, changes), record(model) as found:
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
    layer = filled(MultiHeadAttention(5, 3, qk_proj_dim=6, v_proj_dim=33))
    layer.out_proj = nn.Identity()
    with patch(layer, {Head("", 1): 0.0}):
        heads = layer(normal(B, L, 5))[0].unflatten(-1, (3, 11))
    assert heads.any(-1).any(1).any(0).tolist() == [True, False, True]


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
        assert_exact(effect, without - untouched)
        assert not effect.requires_grad
    assert model.training
    assert not model.body.blocks[1].training
    assert hooks(model) == 0
    numbers = effects(model, lambda: float(model(TOKENS).logits[0, 0, 0]), {heads[0]: 0.0})
    assert isinstance(numbers[heads[0]], float)
    with pytest.raises(ZeroDivisionError):
        effects(model, lambda: 1 / 0, {heads[0]: 0.0})
    assert model.training


class Table(nn.Module):
    """It reads a table that has nothing to do with the batch."""

    def __init__(self):
        super().__init__()
        self.reader = nn.Linear(3, 4)

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.reader(torch.eye(3))


def test_estimates_of_rows_are_refused_for_what_has_none():
    table = Table()
    with pytest.raises(ValueError, match=r"share the batch, got \(3, 4\) at reader and \(5,\)"):
        inside.estimated_effects(table, lambda: table(torch.ones(5, 3)).sum(-1), {"reader": 0.0})


def test_estimates_are_gradients_times_differences_also_in_a_frozen_model_and_in_steps():
    model, (head, other) = grouped(dropout=0.5).train(), find_heads(grouped())[:9:8]
    new = normal(B, L, 2).detach()
    changes = {head: new, other.at("key"): 0.9, "body.blocks.0": torch.sin}

    def measure(reduced=lambda x: x):
        return reduced(model(TOKENS).logits[:, -1].cos().sum(-1))

    found = inside.estimated_effects(model, measure, changes)
    whole = inside.estimated_effects(model, lambda: measure(torch.sum), changes)
    assert model.training
    assert hooks(model) == 0

    def function(x):
        return changed_by_hand(model, TOKENS, head, lambda _: x)[:, -1].cos().sum(-1)

    with record(model.eval(), [head]) as clean:
        model(TOKENS)
    x = clean[head].detach().requires_grad_()
    (slope,) = torch.autograd.grad(function(x).sum(), x)
    assert_exact(found[head], (slope * (new - x)).sum((1, 2)))
    model.requires_grad_(False)
    frozen = inside.estimated_effects(model, measure, changes)
    for place, estimate in found.items():
        assert not estimate.requires_grad
        assert_exact(frozen[place], estimate)
        assert_exact(whole[place], estimate.sum())
    some = inside.estimated_effects(model, measure, {head: new}, positions=[0, 2])
    others = inside.estimated_effects(model, measure, {head: new}, positions=[1, 3, 4])
    assert_exact(some[head] + others[head], found[head])
    for step in (1e-3, 1e-4):  # of a run in steps, whose every call counts
        small = {head: 1 - step, other.at("query"): 1 + step}

        def stepped():
            return in_steps(model, [TOKENS[:, :2]], TOKENS[:, 2:])[:, -1, 3]

        exact = effects(model, stepped, small)
        for place, estimate in inside.estimated_effects(model, stepped, small).items():
            torch.testing.assert_close(estimate, exact[place], rtol=20 * step, atol=0)
    for wrong, got in ((float, "0.0"), (lambda: model(TOKENS).logits, r"\(2, 5, 23\)")):
        with pytest.raises(ValueError, match=rf"never visits|with gradients, got {got}"):
            inside.estimated_effects(model, wrong, {head: 0.0})


# The residual stream


@small.both_norms
def test_the_lens_reads_what_a_model_with_fewer_blocks_predicts(norm):
    model = grouped(norm=norm)
    with record(model) as found:
        logits = model(TOKENS).logits
    for blocks in (1, 2):
        shorter = grouped(norm=norm, num_layers=blocks)
        shorter.load_state_dict(model.state_dict(), strict=False)
        lens = inside.logit_lens(model, found[f"body.blocks.{blocks - 1}"])
        assert_exact(lens, shorter(TOKENS).logits)
        assert not torch.allclose(lens, logits)
    assert torch.equal(inside.logit_lens(model, found["body.blocks.2"]), logits)


@small.both_norms
def test_the_lens_on_the_last_stream_gives_the_logits_of_every_family(norm):
    masked = filled(MaskedLanguageModel(config(norm=norm)))
    translator = transformer(norm=norm)
    runs = ((masked, [TOKENS], "body.blocks.2"), (translator, BATCH, "decoder.blocks.1"))
    for model, batch, last in runs:
        with record(model) as found:
            logits = model(*batch)[0]
        assert torch.equal(inside.logit_lens(model, found[last]), logits)


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
        logits = model(*BATCH if make is transformer else [TOKENS])[0]
    parts = inside.contributions(model, found)
    stack = last.partition(".")[0]
    heads = [head for head in find_heads(model) if head.layer.startswith(stack)]
    layers = {head.layer for head in heads}
    blocks = len(getattr(model, stack).blocks)
    assert len(parts) == 1 + len(heads) + len(layers) + blocks
    assert_exact(sum(parts.values()), found[last])
    W = model.out_proj.weight
    scale = (found[last].var(-1, correction=0) + model.config.layer_norm_eps).sqrt()
    for direction, wanted in (
        (W[7], logits[..., 7]),
        (W[5] - W[11], logits[..., 5] - logits[..., 11]),
        (W[logits.argmax(-1)], logits.max(-1).values),
    ):
        shares = inside.direct_logits(model, parts, direction)
        assert_exact(sum(shares.values()), wanted)
        assert list(shares)[:-1] == list(parts)
        norm = getattr(model, stack).norm
        for place, part in parts.items():
            centred = part - part.mean(-1, keepdim=True)
            expected = (centred / scale[..., None] * norm.weight * direction).sum(-1)
            assert_exact(shares[place], expected)
    with pytest.raises(ValueError, match="what contributions gives, got activations"):
        inside.direct_logits(model, found, W[7])


def test_shares_of_heads_less_their_mean_do_not_depend_on_a_shift_of_the_values():
    """All values of a head move by c, the bias of the projection by what they add: one function."""
    model, (W, shift) = grouped(num_layers=2), (normal(12, seed=3), normal(12, seed=4))

    def shares(centred):
        with record(model) as found, torch.no_grad():
            logits = model(TOKENS).logits
        means = {head: found[head].mean((0, 1)) for head in find_heads(model) if centred}
        parts = inside.contributions(model, found, means=means)
        assert_exact(sum(parts.values()), found["body.blocks.1"])
        return logits, inside.direct_logits(model, parts, W)

    logits, before = shares(centred=True)
    _, raw = shares(centred=False)
    assert before.keys() == raw.keys()
    layer = model.body.blocks[0].self_attn
    with torch.no_grad():  # two key-value heads of width 2, each read by three heads
        layer.v_proj.bias += shift[:4]
        moved = shift[:4].view(2, 1, 2).expand(2, 3, 2).flatten()
        layer.out_proj.bias -= layer.out_proj.weight @ moved
    same, after = shares(centred=True)
    assert_exact(same, logits)
    assert after.keys() == before.keys()
    for place, share in after.items():
        assert_exact(share, before[place])
    head = find_heads(model)[0]
    assert not torch.allclose(shares(centred=False)[1][head], raw[head])


def test_a_constant_is_counted_where_a_projection_has_no_bias():
    model = grouped(num_layers=1)
    layer = model.body.blocks[0].self_attn
    layer.out_proj.bias = None
    with record(model) as found, torch.no_grad():
        model(TOKENS)
    head, name = find_heads(model)[1], "body.blocks.0.self_attn.out_proj.bias"
    assert name not in inside.contributions(model, found)
    mean = found[head].mean((0, 1))
    parts = inside.contributions(model, found, means={head: mean})
    assert_exact(parts[name], (layer.out_proj.weight[:, 2:4] @ mean).expand(B, L, 12))
    assert_exact(sum(parts.values()), found["body.blocks.0"])


def test_contributions_of_another_run_or_of_a_part_of_one_are_refused():
    model = grouped()
    with record(model) as found, torch.no_grad():
        model(TOKENS)
    head = find_heads(model)[3]
    for place in (head, "body.embeddings", "body.blocks.1.feed_forward", "body.blocks.2"):
        fewer = {p: x for p, x in found.items() if p != place}
        with pytest.raises(ValueError, match=f"got none of {place}"):
            inside.contributions(model, fewer)
    with pytest.raises(ValueError, match="must sum to the stream"):
        inside.contributions(model, found | {head: found[head] + 1})
    for place in ("body.blocks.1", "body.blocks.1.feed_forward"):
        with pytest.raises(ValueError, match=f"means must be of heads .*, got {place}"):
            inside.contributions(model, found, means={place: torch.zeros(12)})


def test_what_a_part_of_the_last_block_writes_is_what_is_missing_without_it():
    model = grouped()
    with record(model) as found:
        model(TOKENS)
    parts = inside.contributions(model, found)
    block, network = "body.blocks.2", "body.blocks.2.feed_forward"
    for place in [Head(f"{block}.self_attn", n) for n in range(6)]:
        with patch(model, {place: 0.0, network: 0.0}), record(model) as less:
            model(TOKENS)
        written, expected = found[block] - less[block], parts[place] + parts[network]
        assert_exact(written, expected)


# Scores


def matching_by_loop(weights: Tensor, tokens: list[int]) -> float:
    rows = []
    for t, token in enumerate(tokens):
        cells = [i for i in range(1, t) if tokens[i - 1] == token]
        if cells:
            rows.append(sum(float(weights[t, i]) for i in cells))
    return sum(rows) / len(rows) if rows else math.nan


@given(st.integers(1, 3), st.integers(1, 2), st.integers(1, 7), st.integers(0, 9))
def test_prefix_matching_is_its_definition_in_loops(b, heads, length, seed):
    weights = torch.rand(b, heads, length, length, generator=rng(seed), dtype=torch.float64)
    tokens = torch.randint(3, (b, length), generator=rng(seed))
    got = inside.prefix_matching_score(weights.tril(), tokens)
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
@small.both_norms
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
        assert inside.composition(model, earlier, later) == pytest.approx(expected, abs=1e-12)
        packed = DecoderOnly(replace(model.config, packed=True)).double()
        packed.load_state_dict(stacked(model.state_dict()))
        assert inside.composition(packed, earlier, later) == pytest.approx(expected, abs=1e-12)


@torch.no_grad()
def test_copying_is_its_definition_with_the_whole_matrix_from_tokens_to_logits():
    for model, name in ((decoder_only(num_layers=2), "body"), (transformer(norm="pre"), "decoder")):
        stack, head = model.get_submodule(name), Head(f"{name}.blocks.1.self_attn", 2)
        _, ov = circuits(model, head)
        centre = torch.eye(len(ov), dtype=torch.float64) - 1 / len(ov)
        read = model.out_proj.weight @ stack.norm.weight.diag() @ centre
        values = torch.linalg.eigvals(read @ ov @ stack.embeddings.tokens.weight.T)  # (V,)
        expected = float(values.real.sum() / values.abs().sum())
        assert inside.copying_score(model, head) == pytest.approx(expected, abs=1e-9)


class WithoutDoubles(TorchDispatchMode):
    """The meta device stands for one that has no float64; what leaves it for the CPU is made up."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is torch.ops.aten._to_copy.default and kwargs.get("device") == torch.device("cpu"):
            return torch.rand(args[0].shape, generator=rng(0)).to(kwargs.get("dtype"))
        found = func(*args, **kwargs)
        for x in tree_leaves(found):
            if isinstance(x, Tensor) and x.is_meta and x.dtype in (torch.float64, torch.complex128):
                raise TypeError(f"{func} makes {x.dtype} on a device that has none")
        return found


def test_looking_inside_makes_no_float64_on_the_model_s_device():
    with torch.device("meta"):
        model = DecoderOnly(config(norm="pre", num_kv_heads=1))
        tokens, x = torch.ones(B, L, dtype=torch.long), torch.ones(B, L, 6)
    earlier, later = (Head(f"body.blocks.{n}.self_attn", 1) for n in (0, 2))
    with pytest.raises(TypeError, match="on a device that has none"), WithoutDoubles():
        x.double()
    with WithoutDoubles():
        changes = {earlier: 0.5, "body.blocks.0": lambda x: x.sin(), "body.blocks.1": x}
        with patch(model, changes), record(model) as found:
            weights = model(tokens, need_weights=True).weights
        parts = inside.contributions(model, found)
        shares = inside.direct_logits(model, parts, model.out_proj.weight[3])
        inside.logit_lens(model, sum(parts.values()))
        effects(model, lambda: model(tokens).logits, {later: 0.0})
        inside.rollout(weights)
        inside.prefix_matching_score(weights[0], tokens)
        inside.integrated_gradients(torch.sin, x)
        assert {x.dtype for x in shares.values()} == {torch.float32}
        assert 0 <= inside.composition(model, earlier, later)["k"] <= 1
        assert -1 <= inside.copying_score(model, later) <= 1


# Attribution


def test_rollout_of_two_layers_worked_out_by_hand():
    before = torch.tensor([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    first = torch.stack((before, torch.eye(3)))  # a head reads the token before, and one itself
    second = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]).expand(2, 3, 3)
    # Means over heads, of which half stays: (1, 0, 0), (1/4, 3/4, 0), (0, 1/4, 3/4), and in the
    # second layer (1, 0, 0), (0, 1, 0), (1/2, 0, 1/2). The last row: half of row 0 of the first
    # layer, and half of its row 2.
    expected = torch.tensor([[1.0, 0.0, 0.0], [0.25, 0.75, 0.0], [0.5, 0.125, 0.375]])
    torch.testing.assert_close(inside.rollout([first, second]), expected)
    batch = [layer.expand(B, 2, 3, 3) for layer in (first, second)]
    torch.testing.assert_close(inside.rollout(batch), expected.expand(B, 3, 3))
    assert torch.equal(inside.rollout([torch.zeros(1, 3, 3)]), torch.eye(3))  # of empty rows


def test_integrated_gradients_are_exact_on_a_square_and_start_from_zero_without_gradients():
    x, baseline = normal(B, 3), normal(1, 3, seed=1)

    def square(x):
        return x**2 @ torch.arange(3.0).double()

    got = inside.integrated_gradients(square, x, baseline, steps=1)
    torch.testing.assert_close(got, (x**2 - baseline**2) * torch.arange(3))
    with torch.no_grad():
        got = inside.integrated_gradients(torch.sin, x, steps=100)
    torch.testing.assert_close(got, x.sin().detach(), atol=1e-4, rtol=0)


def test_integrated_gradients_are_complete_on_a_model():
    model = grouped()
    with record(model) as found:
        model(TOKENS)
    x, baseline = found["body.embeddings"], normal(L, 12, seed=5)

    def logit(x):
        with patch(model, {"body.embeddings": x}):
            return model(TOKENS).logits[:, -1, 7]  # a row of the batch each

    wanted, errors = (logit(x) - logit(baseline)).detach(), []
    for steps in (8, 32, 128):
        got = inside.integrated_gradients(logit, x, baseline, steps=steps)
        assert got.shape == x.shape
        assert not got.requires_grad
        errors.append(float((got.sum((1, 2)) - wanted).abs().max()))
    assert errors[2] < 1e-5 < wanted.abs().min()
    assert errors[2] < errors[1] / 8 < errors[0] / 64, "it falls with the square of the steps"
    assert hooks(model) == 0
