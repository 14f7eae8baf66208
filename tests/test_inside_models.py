"""Looking inside models of the reference library, with random weights, as they are."""

import copy
import re
from functools import cache, partial
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from attn_notes import inside
from attn_notes.inside import Head, contributions, effects, find_heads, find_streams, patch, record
from tests.oracles import filled, normal, rng
from tests.small_models import ids

V, B, L = 31, 2, 5
TOKENS = ids(B, L, below=V)
SIZES = {"vocab_size": V, "hidden_size": 24, "intermediate_size": 37, "num_hidden_layers": 3}
SIZES |= {"num_attention_heads": 4, "max_position_embeddings": 32}
GROUPED = {**SIZES, "num_key_value_heads": 2}
WIDE = {**GROUPED, "head_dim": 10}
MODELS = {
    "GPT2LMHeadModel": ("GPT2Config", {"vocab_size": V, "n_embd": 24, "n_layer": 3, "n_head": 4}),
    "LlamaForCausalLM": ("LlamaConfig", GROUPED),
    "Qwen3ForCausalLM": ("Qwen3Config", WIDE),
    "GemmaForCausalLM": ("GemmaConfig", WIDE),
    "Gemma2ForCausalLM": ("Gemma2Config", {**WIDE, "sliding_window": 3}),
    "Gemma3ForCausalLM": ("Gemma3TextConfig", {**WIDE, "sliding_window": 3}),
    "BertForMaskedLM": ("BertConfig", SIZES),
}
GENERATING = [name for name in MODELS if name != "BertForMaskedLM"]
PARTS = ("query", "key", "value", "pattern")
ROUNDING = {"atol": 1e-5, "rtol": 0.0}  # the library rounds norms and weights to 32 bits

every_model = pytest.mark.parametrize("kind", MODELS)
every_generating = pytest.mark.parametrize("kind", GENERATING)


@cache
def made(library, kind: str) -> nn.Module:
    config, sizes = MODELS[kind]
    return filled(getattr(library, kind)(getattr(library, config)(**sizes))).eval()


@pytest.fixture
def model(transformers, kind):
    found = made(transformers, kind)
    chosen, before = found.config._attn_implementation, copy.deepcopy(found.state_dict())
    yield found
    assert found.config._attn_implementation == chosen
    assert not inside.taps.SEEN
    hooks = [
        h
        for m in found.modules()
        for h in (*m._forward_hooks.values(), *m._forward_pre_hooks.values())
    ]
    assert not [h for h in hooks if getattr(h, "func", h).__module__.startswith("attn_notes")]
    assert all(torch.equal(before[name], x) for name, x in found.state_dict().items())


def last_logit(model: nn.Module) -> Tensor:
    return model(TOKENS).logits[:, -1, 7]  # (B,)


def layer_of(model: nn.Module, head: Head) -> nn.Module:
    return model.get_submodule(head.layer)


def output_projection(layer: nn.Module) -> nn.Module:
    return getattr(layer, "o_proj", None) or getattr(layer, "c_proj", None) or layer.output.dense


# Heads and their parts


@every_model
def test_heads_and_streams_are_found(model, kind):
    heads, streams = find_heads(model), find_streams(model)
    assert len({*heads}) == 12
    assert len(streams) == 4
    with record(model) as found, torch.no_grad():
        states = model(TOKENS, output_hidden_states=True).hidden_states
    assert {*heads, *streams} < {*found}
    for stream, state in zip(streams[:-1], states, strict=False):
        assert torch.equal(found[stream], state)
    assert not isinstance(found[streams[-1]], tuple)


@every_model
def test_a_removed_head_is_one_whose_columns_of_the_projection_are_zero(model, kind):
    for head in find_heads(model)[3::4]:
        other = copy.deepcopy(model)
        weight = output_projection(layer_of(other, head)).weight
        weight = weight if kind.startswith("GPT2") else weight.T  # (H * D, E)
        with torch.no_grad():
            weight.unflatten(0, (4, -1))[head.index] = 0
            with patch(model, {head: 0.0}):
                got = model(TOKENS).logits
            torch.testing.assert_close(got, other(TOKENS).logits, **ROUNDING)
            assert not torch.allclose(got, model(TOKENS).logits, **ROUNDING)


@every_model
def test_a_value_is_that_of_the_whole_group(model, kind):
    head = find_heads(model)[6]  # of block 1, the third
    other, scale = copy.deepcopy(model), 1.7
    layer = layer_of(other, head)
    if kind.startswith("GPT2"):
        rows = [
            x[..., 48:].unflatten(-1, (4, -1))[..., 2, :]
            for x in (layer.c_attn.weight, layer.c_attn.bias)
        ]
    else:
        value = layer.self.value if kind.startswith("Bert") else layer.v_proj
        groups = 4 if kind.startswith("Bert") else 2
        rows = [x.unflatten(0, (groups, -1))[2 * groups // 4] for x in value.parameters()]
    with torch.no_grad():
        for row in rows:
            row.mul_(scale)
        with patch(model, {head.at("value"): scale}):
            got = model(TOKENS).logits
        torch.testing.assert_close(got, other(TOKENS).logits, **ROUNDING)
        assert not torch.allclose(got, model(TOKENS).logits, **ROUNDING)


@every_model
def test_the_pattern_is_what_the_open_attention_gives_and_mixes_the_values(model, kind):
    heads = find_heads(model)
    places = [head.at(part) for head in heads for part in ("output", *PARTS)]
    chosen = model.config._attn_implementation
    with torch.no_grad():
        untouched = model(TOKENS).logits
        with record(model, places) as found:
            torch.testing.assert_close(model(TOKENS).logits, untouched, **ROUNDING)
        model.set_attn_implementation("eager")
        weights = model(TOKENS, output_attentions=True).attentions
        model.config._attn_implementation = chosen
    for n, head in enumerate(heads):
        parts = {part: found[head.at(part)] for part in ("output", *PARTS)}
        torch.testing.assert_close(parts["pattern"], weights[n // 4][:, n % 4], **ROUNDING)
        mixed = parts["pattern"] @ parts["value"]
        torch.testing.assert_close(parts["output"], mixed, **ROUNDING)
        assert parts["query"].shape == parts["key"].shape == parts["value"].shape
        if not kind.startswith("Gemma"):  # which have scales and caps of their own
            scores = parts["query"] @ parts["key"].mT / parts["query"].shape[-1] ** 0.5
            if not kind.startswith("Bert"):
                scores = scores.masked_fill(torch.ones(L, L).triu(1) > 0, -torch.inf)
            torch.testing.assert_close(scores.softmax(-1), parts["pattern"], **ROUNDING)


@every_model
def test_a_changed_pattern_query_or_key_is_what_the_head_then_reads_by(model, kind):
    head = find_heads(model)[5]
    even = torch.ones(L, L).tril().double()
    even = even / even.sum(-1, keepdim=True)
    places = [head.at(part) for part in ("output", "value", "pattern")]
    for change in ({head.at("pattern"): even}, {head.at("query"): 0.0}, {head.at("key"): 0.0}):
        with patch(model, change), record(model, places) as found, torch.no_grad():
            model(TOKENS)
        values = found[head.at("value")]
        if kind.startswith(("Gemma2", "Gemma3", "Bert")) and head.at("pattern") not in change:
            seen = found[head.at("pattern")] > 0  # in a window, or on both sides
            assert (seen.sum(-1) == seen.sum(-1)[0]).all()
            expected = seen / seen.sum(-1, keepdim=True).double()
        else:
            expected = even.expand(B, L, L)
        torch.testing.assert_close(found[head.at("pattern")], expected, **ROUNDING)
        torch.testing.assert_close(found[head], expected @ values, **ROUNDING)


@every_model
def test_weights_of_a_head_are_what_one_token_meets(transformers, kind):
    """At position 0 nothing is rotated, and the token reads itself alone."""
    model = copy.deepcopy(made(transformers, kind))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.zero_()
    heads, stream = find_heads(model), find_streams(model)
    for n, head in ((2, heads[2]), (7, heads[7])):
        own = inside.head_weights(model, head)
        places = [head.at(part) for part in ("query", "key", "value")]
        with record(model) as kept, record(model, places) as found, torch.no_grad():
            model(TOKENS[:, :1])
        x = kept[stream[n // 4]][:, 0]  # (B, E)
        for place in places:
            got = found[place][:, 0]
            wanted = x @ getattr(own, place.part).T
            one = nn.functional.cosine_similarity(got, wanted)
            torch.testing.assert_close(one, torch.ones_like(one), **ROUNDING)
        if kind in GENERATING:
            part = contributions(model, kept)[head][:, 0]
            one = nn.functional.cosine_similarity(part, x @ own.value.T @ own.output.T)
            torch.testing.assert_close(one, torch.ones_like(one), **ROUNDING)
    scores = inside.composition(model, heads[1], heads[6])
    assert all(0 < score < 1 for score in scores.values())


def test_a_mask_for_the_fused_kernel_is_understood(transformers):
    model = made(transformers, "LlamaForCausalLM")
    layer, head = model.model.layers[1].self_attn, Head("", 2)
    x, earlier = normal(B, L, 24), torch.ones(1, 1, L, L).tril() > 0
    rotation = (torch.ones(1, L, 6).double(), torch.zeros(1, L, 6).double())
    with torch.no_grad():
        expected = layer(x, position_embeddings=rotation, attention_mask=earlier)[0]
        with record(layer, [head.at("pattern")]) as found:
            got = layer(x, position_embeddings=rotation, attention_mask=earlier)[0]
    torch.testing.assert_close(got, expected, **ROUNDING)
    assert not found[head.at("pattern")].triu(1).any()


# The residual stream


@every_generating
def test_contributions_sum_to_the_stream_and_shares_to_the_logits(model, kind):
    with record(model) as found, torch.no_grad():
        logits = model(TOKENS).logits
    streams, heads = find_streams(model), find_heads(model)
    means = {place: found[place].mean((0, 1)) for place in (heads[5], heads[9])}
    direction = model.get_output_embeddings().weight[11]
    cap = getattr(model.config, "final_logit_softcapping", None)
    for given in (None, means):
        parts = contributions(model, found, means=given)
        torch.testing.assert_close(sum(parts.values()), found[streams[-1]], **ROUNDING)
        shares = inside.direct_logits(model, parts, direction)
        total = sum(shares.values())
        total = total if cap is None else cap * (total / cap).tanh()
        torch.testing.assert_close(total, logits[..., 11], **ROUNDING)
    assert torch.equal(inside.logit_lens(model, found[streams[-1]]), logits)
    with pytest.raises(ValueError, match="got activations"):
        inside.direct_logits(model, found, direction)
    with pytest.raises(ValueError, match="must sum to the stream"):
        contributions(model, found | {heads[0]: found[heads[0]] + 1})
    assert -1 <= inside.copying_score(model, heads[5]) <= 1


@every_generating
def test_what_the_last_layer_writes_is_what_is_missing_without_it(model, kind):
    """Norms behind a sublayer are linear if nothing but the head writes there."""
    heads, last = find_heads(model)[8:], find_streams(model)[-1]
    network = f"{last}.mlp"
    others = {network: 0.0} | dict.fromkeys(heads[1:], 0.0)
    with patch(model, others), record(model) as found, torch.no_grad():
        model(TOKENS)
    parts = contributions(model, found)
    written = found[last] - found[find_streams(model)[-2]]
    bias = parts.get(f"{heads[0].layer}.c_proj.bias", 0.0)
    torch.testing.assert_close(parts[heads[0]] + bias, written, **ROUNDING)


@pytest.mark.parametrize("kind", ["BertForMaskedLM"])
def test_a_post_norm_model_has_a_lens_and_no_contributions(model, kind):
    with record(model) as found, torch.no_grad():
        logits = model(TOKENS).logits
    assert torch.equal(inside.logit_lens(model, found[find_streams(model)[-1]]), logits)
    with pytest.raises(ValueError, match="must be pre-norm, got BertForMaskedLM"):
        contributions(model, found)
    with pytest.raises(TypeError, match="got BertForMaskedLM"):  # a layer stands between
        inside.copying_score(model, find_heads(model)[0])


# Effects


@every_model
def test_estimates_are_effects_to_first_order(model, kind):
    heads = find_heads(model)[2::4]
    places = [head.at(part) for head in heads for part in ("output", *PARTS)]
    places.append(find_streams(model)[1])
    step = 0.02
    up, down = (dict.fromkeys(places, 1 + way * step) for way in (1, -1))
    more = effects(model, lambda: last_logit(model), up)
    less = effects(model, lambda: last_logit(model), down)
    found = inside.estimated_effects(model, lambda: last_logit(model), up)
    straight = {place: (more[place] - less[place]) / 2 for place in places}
    for place, effect in straight.items():
        largest = float(effect.abs().max())
        torch.testing.assert_close(found[place], effect, atol=0.01 * largest + 1e-6, rtol=0)
    assert all(effect.abs().max() > 0 for effect in found.values())


@every_generating
def test_a_generated_text_is_recorded_step_by_step(model, kind):
    head = find_heads(model)[6]
    places = [head, head.at("pattern"), head.at("key")]
    with record(model, places, every_call=True) as steps:
        text = model.generate(TOKENS[:1], max_new_tokens=3, do_sample=False, eos_token_id=None,
                              pad_token_id=0)  # fmt: skip
    with record(model, places) as whole, torch.no_grad():
        model(text[:, :-1])
    assert [x.shape[1] for x in steps[head]] == [L, 1, 1]
    torch.testing.assert_close(torch.cat(steps[head], 1), whole[head], **ROUNDING)
    row = steps[head.at("pattern")][-1]  # of the last step; a window keeps the last keys alone
    torch.testing.assert_close(
        row[0, 0], whole[head.at("pattern")][0, -1, -row.shape[-1] :], **ROUNDING
    )
    keys = steps[head.at("key")][-1]
    torch.testing.assert_close(keys, whole[head.at("key")][:, -keys.shape[1] :], **ROUNDING)


def test_the_lines_of_the_api_page_run_and_split_the_lead(transformers, monkeypatch):
    small = partial(transformers.GPT2Config, **MODELS["GPT2LMHeadModel"][1] | {"vocab_size": 50})
    monkeypatch.setattr(transformers, "GPT2Config", small)
    page = (Path(__file__).parents[1] / "book" / "api" / "inside.md").read_text(encoding="utf-8")
    found = {}
    torch.manual_seed(0)
    for block in re.findall("```python\n(.*?)```", page, re.DOTALL):
        exec(block, found)
    total = sum(found["shares"].values())[:, -1]
    torch.testing.assert_close(total, found["lead"](), atol=1e-5, rtol=0)
    assert not torch.allclose(found["without"], found["lead"](), atol=1e-6)
    assert not torch.equal(found["through_queries"], found["lead"]())
    with (
        patch(found["model"], found["unread"]),
        record(found["model"], [found["best"].at("pattern")]) as seen,
    ):
        found["lead"]()
    assert not seen[found["best"].at("pattern")][..., 3].any()


# What is refused


def test_what_is_not_known_is_refused_in_words(transformers):
    t5 = transformers.T5Config(vocab_size=9, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2)
    for look in (find_heads, find_streams, lambda model: record(model).__enter__()):
        with pytest.raises(ValueError, match=r"attention that is known \(.*\), got T5Model"):
            look(transformers.T5Model(t5))
    model = made(transformers, "LlamaForCausalLM")
    with record(model.model) as found, torch.no_grad():
        model.model(TOKENS)
    parts = contributions(model.model, found)
    with pytest.raises(
        TypeError, match="causal language modelling in transformers, got LlamaModel"
    ):
        inside.direct_logits(model.model, parts, torch.ones(24))
    layer, x = model.model.layers[0].self_attn, torch.ones(B, L, 24).double()
    rotation = (torch.ones(1, L, 6).double(), torch.zeros(1, L, 6).double())
    with pytest.raises(ValueError, match="run by its model"), record(layer, [Head("", 0, "query")]):
        layer(x, position_embeddings=rotation)
    head = find_heads(model)[0]
    same = {head.at("key"): 0.5, Head(head.layer, 1, "key"): 0.5}
    with pytest.raises(ValueError, match="one head of each key-value head"), patch(model, same):
        pass
    with pytest.raises(ValueError, match="a place must be"), patch(model, {head.at("scores"): 0.0}):
        pass


def test_a_run_that_visits_nothing_is_no_empty_answer(transformers):
    model = made(transformers, "LlamaForCausalLM")
    with pytest.raises(ValueError, match=r"never visits 'model.embed_tokens'"), record(model):
        pass


def test_a_function_that_writes_into_its_argument_changes_no_more_than_it_should(transformers):
    model = made(transformers, "LlamaForCausalLM")
    head = find_heads(model)[5]
    for write in (lambda x: x.mul_(0.99), lambda x: x * 0.99):
        estimates = inside.estimated_effects(model, lambda: last_logit(model), {head: write})
        found = effects(model, lambda: last_logit(model), {head: write})
        torch.testing.assert_close(estimates[head], found[head], rtol=0.1, atol=1e-6)
        with patch(model, {head: write}, positions=-1), record(model, [head]) as seen:
            model(TOKENS)
        with record(model, [head]) as plain:
            model(TOKENS)
        torch.testing.assert_close(seen[head][:, :-1], plain[head][:, :-1])
    for nothing in (lambda x: None, "0", None):
        with pytest.raises(TypeError, match=r"self_attn.1 must be a number, .*, got"):
            effects(model, lambda: last_logit(model), {head: nothing})


@pytest.mark.parametrize("kind", ["BertForMaskedLM"])
def test_positions_of_what_has_none_are_refused(model, kind):
    flat = nn.Sequential(model.bert, _First())
    refused = pytest.raises(ValueError, match=r"positions .* got \(2, 24\) at 1")
    with refused, patch(flat, {"1": 0.0}, positions=0):
        flat(TOKENS)


class _First(nn.Module):
    """The vector of the first token."""

    def forward(self, output):
        return output.last_hidden_state[:, 0]


def test_checkpoints_that_would_run_back_without_the_change_are_refused(transformers):
    model = copy.deepcopy(made(transformers, "LlamaForCausalLM")).train()
    layer_of(model, find_heads(model)[0]).gradient_checkpointing = True
    head = find_heads(model)[5]
    with pytest.raises(ValueError, match="gradient checkpointing"), patch(model, {head: 0.0}):
        pass
    exact = effects(model, lambda: last_logit(model), {head: 0.99})[head]  # in evaluation mode
    estimate = inside.estimated_effects(model, lambda: last_logit(model), {head: 0.99})[head]
    torch.testing.assert_close(estimate, exact, rtol=0.1, atol=1e-6)


def test_some_of_the_parts_alone_are_refused(transformers):
    """The norm divides by the scale of the whole stream."""
    model = made(transformers, "LlamaForCausalLM")
    with record(model, every_call=True) as steps, torch.no_grad():
        model(TOKENS)
    with pytest.raises(ValueError, match=r"of one run, got several of model.embed_tokens"):
        contributions(model, steps)
    with record(model) as found, torch.no_grad():
        model(TOKENS)
    parts, row = contributions(model, found), model.lm_head.weight[3]
    for left_out in (find_heads(model)[4], "model.embed_tokens", "model.layers.2.mlp"):
        some = {place: x for place, x in parts.items() if place != left_out}
        with pytest.raises(
            ValueError, match=f"all that contributions gives, got none of {left_out}"
        ):
            inside.direct_logits(model, some, row)


@pytest.mark.parametrize(
    ("kind", "config", "sizes"),
    [
        ("GraniteForCausalLM", "GraniteConfig", {**GROUPED, "logits_scaling": 4.0}),
        ("CohereForCausalLM", "CohereConfig", {**GROUPED, "logit_scale": 0.25}),
    ],
)
def test_logits_that_are_scaled_are_refused(transformers, kind, config, sizes):
    model = filled(getattr(transformers, kind)(getattr(transformers, config)(**sizes))).eval()
    with record(model) as found, torch.no_grad():
        model(TOKENS)
    with pytest.raises(TypeError, match="whose logits are scaled"):
        inside.logit_lens(model, found[find_streams(model)[-1]])
    with pytest.raises((TypeError, ValueError), match=r"scaled|must be LayerNorm"):
        inside.direct_logits(model, contributions(model, found), torch.ones(24))


@pytest.mark.parametrize("kind", ["Olmo2", "Glm4", "Apertus", "StableLm", "DiffLlama"])
def test_weights_behind_a_norm_that_is_not_known_are_refused(transformers, kind):
    config = getattr(transformers, f"{kind}Config")(
        **GROUPED, head_dim=6, pad_token_id=0, qk_layernorm=True
    )
    model = filled(getattr(transformers, f"{kind}ForCausalLM")(config)).eval()
    with pytest.raises(ValueError, match=r"must have norms that are known, got .*norm"):
        inside.composition(model, *find_heads(model)[2:8:5])


def test_a_norm_that_is_neither_kind_is_refused():
    class ScaleNorm(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.eps = nn.Parameter(torch.rand(5, generator=rng(0))), 1e-5

        def forward(self, x):
            return self.weight * x / (x.abs().sum(-1, keepdim=True) + self.eps)

    class OneMore(nn.LayerNorm):
        def forward(self, x):
            return nn.functional.layer_norm(x, x.shape[-1:], 1 + self.weight, self.bias)

    class Bare(nn.Module):
        def forward(self, x):
            return nn.functional.layer_norm(x, (5,))

    for norm in (ScaleNorm(), OneMore(5), Bare()):
        with pytest.raises(ValueError, match=f"LayerNorm or RMSNorm, got {type(norm).__name__}"):
            inside.streams.read_norm(norm)
    norm = nn.RMSNorm(5, eps=0.1)
    with torch.no_grad():
        norm.weight.copy_(torch.rand(5, generator=rng(1)) - 0.5)
    torch.testing.assert_close(inside.streams.read_norm(norm).gain, norm.weight)
