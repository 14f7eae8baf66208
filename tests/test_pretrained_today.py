"""Llama, Mistral, Qwen3 and Gemma 3 in our blocks: the reference library's logits, and no others.

The library rounds norms, angles and the softmax to float32 in a model of any dtype. To compare in
64 bits, `in_64_bits` lets float32 mean float64 while the library builds or runs its model.
"""

import dataclasses
import re
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from tokenizers import pre_tokenizers

from attn_notes import inside
from attn_notes.data import SpecialTokens
from attn_notes.decoding import beam_search, greedy
from attn_notes.pretrained import WeightsNotFound, load_decoder
from attn_notes.transformer import DecoderOnly
from attn_widgets import show_attention
from tests.oracles import rng
from tests.published import reconfigure, rewrite, same_weights, saved

pytestmark = pytest.mark.slow  # the reference library takes seconds to load

SIZES = {
    "vocab_size": 101, "hidden_size": 48, "intermediate_size": 53, "num_hidden_layers": 3,
    "num_attention_heads": 6, "num_key_value_heads": 2, "max_position_embeddings": 61,
    "initializer_range": 0.3, "eos_token_id": 100, "bos_token_id": 1, "pad_token_id": 0,
}  # fmt: skip
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 1000.0, "factor": 8.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0, "original_max_position_embeddings": 32,
}  # fmt: skip
YARN = {"rope_type": "yarn", "rope_theta": 1000.0, "factor": 4.0}
YARN |= {"original_max_position_embeddings": 32, "beta_fast": 8.0}
BASES = {
    "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 5000.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 700.0},
}
GEMMA = {"head_dim": 14, "query_pre_attn_scalar": 23, "sliding_window": 5}
KINDS = ["sliding_attention", "full_attention", "sliding_attention"]
# A kind of the reference library, and what differs from a small one of its defaults.
VARIANTS = {
    "llama": ("Llama", {"rms_norm_eps": 1e-3}),
    "llama with a scale by turns": ("Llama", {"rope_parameters": LLAMA3, "head_dim": 14}),
    "llama tied": ("Llama", {"tie_word_embeddings": True, "hidden_act": "gelu"}),
    "mistral": ("Mistral", {"sliding_window": 5, "num_key_value_heads": 6}),
    "mistral without a window": ("Mistral", {"sliding_window": None, "num_key_value_heads": 1}),
    "qwen3": ("Qwen3", {"head_dim": 14, "rms_norm_eps": 1e-3}),
    "qwen3 with yarn and windows": ("Qwen3", {
        "head_dim": 14, "rope_parameters": YARN, "use_sliding_window": True, "sliding_window": 4,
        "max_window_layers": 2,
    }),
    "gemma3": ("Gemma3", GEMMA | {"rope_parameters": BASES, "layer_types": KINDS}),
    "gemma3 untied": ("Gemma3", GEMMA | {"tie_word_embeddings": False}),
}  # fmt: skip
TOKENS = torch.randint(101, (2, 23), generator=rng())
every_variant = pytest.mark.parametrize("variant", VARIANTS)


@contextmanager
def in_64_bits():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "float32", torch.float64)
        patch.setattr(torch, "float", torch.float64)
        patch.setattr(torch.Tensor, "float", torch.Tensor.double)
        yield


@pytest.fixture(autouse=True)
def double():
    """Models are loaded into torch's default dtype."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def made(transformers, variant):
    """The reference library's model, with norms that differ from entry to entry."""
    kind, changes = VARIANTS[variant]
    config = getattr(transformers, {"Gemma3": "Gemma3TextConfig"}.get(kind, f"{kind}Config"))
    torch.manual_seed(0)
    make = getattr(transformers, f"{kind}ForCausalLM")._from_config
    with in_64_bits():
        model = make(config(**SIZES | changes), attn_implementation="eager", dtype=torch.float64)
    generator = rng()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                drawn = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
                parameter.add_(0.3 * drawn)
    return model.eval()


@pytest.fixture
def reference(variant, transformers):
    return made(transformers, variant)


@pytest.fixture
def folder(reference, tmp_path) -> Path:
    return saved(tmp_path, reference)


@torch.no_grad()
def logits_of(reference, tokens):
    with in_64_bits():
        return reference(tokens, use_cache=False).logits


@torch.no_grad()
def error(model, reference, tokens=TOKENS) -> float:
    return (model(tokens).logits - logits_of(reference, tokens)).abs().max().item()


@every_variant
@torch.no_grad()
def test_a_random_model_predicts_what_the_reference_library_predicts(variant, reference, folder):
    model, tokenizer = load_decoder(folder)
    assert not model.training
    assert tokenizer.get_vocab_size() == 100
    assert model.special_tokens == SpecialTokens(pad=100, start=None, end=100)
    tied = reference.config.tie_word_embeddings
    assert (model.out_proj.weight is model.body.embeddings.tokens.weight) == tied
    assert len(model.state_dict()) >= len(reference.state_dict())
    for length in (1, 4, 5, 6, 23):  # within the windows, as long, and beyond
        assert error(model, reference, TOKENS[:, :length]) < 1e-11, length
    asked = {"need_weights": True, "need_hidden_states": True}
    got = model(TOKENS, **asked)
    with in_64_bits():
        theirs = reference(TOKENS, output_attentions=True, output_hidden_states=True)
    torch.testing.assert_close(got.weights, theirs.attentions, atol=1e-11, rtol=0)
    states = (*got.hidden_states[:-1], model.body.norm(got.hidden_states[-1]))
    torch.testing.assert_close(states, theirs.hidden_states, atol=1e-11, rtol=0)


# What the comparison above would not forgive: a variant, and a mistake in our config.
MISTAKES = {
    "eps": ("llama", {"layer_norm_eps": 1e-6}),
    "eps of queries and keys too": ("qwen3", {"layer_norm_eps": 1e-6}),
    "kind of norm": ("llama", {"norm_kind": "layer"}),
    "pairs": ("llama", {"rotary_layout": "pairs"}),
    "base": ("llama", {"rotary_base": 9000.0}),
    "no scale": ("llama with a scale by turns", {"rotary_scale": 1.0}),
    "one scale": ("llama with a scale by turns", {"rotary_scale": 8.0}),
    "no yarn": ("qwen3 with yarn and windows", {"rotary_scale": 1.0}),
    "no norm on queries and keys": ("qwen3", {"qk_norm": False}),
    "activation": ("llama", {"activation": "gelu"}),
    "window + 1": ("mistral", {"windows": (6, 6, 6)}),
    "window - 1": ("mistral", {"windows": (4, 4, 4)}),
    "no window": ("mistral", {"windows": None}),
    "another layer's window": ("gemma3", {"windows": (5, 5, None)}),
    "one base": ("gemma3", {"local_rotary_base": None}),
    "no scale of the full layers": ("gemma3", {"rotary_scale": 1.0}),
    "norms before alone": ("gemma3", {"norm": "pre"}),
    "embeddings not scaled": ("gemma3", {"scale_embeddings": False}),
    "exact gelu": ("gemma3", {"activation": "gelu"}),
}


@pytest.mark.parametrize(("variant", "mistake"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_in_the_config_is_seen(variant, mistake, reference, folder):
    model, _ = load_decoder(folder)
    config = dataclasses.replace(model.config, **mistake)
    wrong = DecoderOnly(config).eval()
    wrong.load_state_dict(model.state_dict(), strict=False)
    assert error(wrong, reference) > 1e-5


# What is folded into the weights, changed in the file: the logits must move.
FOLDED = [
    ("gemma3", {"query_pre_attn_scalar": 14}),
    ("qwen3 with yarn and windows", {"rope_parameters": YARN | {"attention_factor": 1.0}}),
    ("qwen3 with yarn and windows", {"rope_parameters": YARN | {"beta_slow": 0.2}}),
    ("gemma3", {"rope_parameters": BASES | {"full_attention": BASES["sliding_attention"]}}),
]


@pytest.mark.parametrize(("variant", "changes"), FOLDED)
def test_what_goes_into_the_weights_counts(variant, changes, reference, folder):
    reconfigure(folder, **changes)
    assert error(load_decoder(folder)[0], reference) > 1e-5


@every_variant
@torch.no_grad()
def test_steps_equal_the_parallel_pass(variant, folder):
    model, _ = load_decoder(folder)
    expected = model(TOKENS).logits
    for prompt in (1, 4, 9):
        logits, state = model.start(TOKENS[:, :prompt])
        steps = [logits]
        for n in range(prompt, TOKENS.shape[1]):
            logits, state = model.step(TOKENS[:, n], state)
            steps.append(logits)
        got = torch.stack(steps, dim=1)
        torch.testing.assert_close(got, expected[:, prompt - 1 :], atol=1e-11, rtol=0)


@pytest.mark.parametrize("variant", ["mistral", "gemma3"])
def test_it_generates_what_the_reference_library_generates(variant, reference, folder):
    prompts = TOKENS[:, :3]
    keywords = {"max_new_tokens": 20, "do_sample": False, "attention_mask": prompts * 0 + 1}
    with in_64_bits():
        endless = reference.generate(prompts, pad_token_id=0, eos_token_id=100, **keywords)
        ends = [endless[0, 9].item(), endless[1, 12].item()]  # each ends one of the texts
        keywords |= {"pad_token_id": ends[0], "eos_token_id": ends}
        expected = reference.generate(prompts, **keywords)[:, 3:]
    reconfigure(folder, eos_token_id=ends)
    model, _ = load_decoder(folder)
    assert model.special_tokens == SpecialTokens(ends[0], None, tuple(ends))
    got = greedy(model, prompts, max_length=20)
    assert torch.equal(got.tokens, expected)
    assert torch.equal(beam_search(model, prompts, beam_size=1, max_length=20).tokens, expected)


# Files as they are published


# The same model by the keys of older files; "-": the key is not there.
OLDER = [
    ("llama", {"rope_parameters": "-", "rope_theta": 10000.0, "rope_scaling": None}),
    ("llama", {"rope_parameters": "-", "head_dim": "-", "attention_bias": "-", "mlp_bias": "-"}),
    ("llama with a scale by turns", {
        "rope_parameters": "-", "rope_theta": 1000.0,
        "rope_scaling": {k: v for k, v in LLAMA3.items() if k != "rope_theta"},
    }),
    ("llama with a scale by turns", {
        "original_max_position_embeddings": 32,
        "rope_parameters": LLAMA3 | {"original_max_position_embeddings": 16},
    }),
    ("qwen3 with yarn and windows", {
        "rope_parameters": "-", "rope_theta": 1000.0, "layer_types": "-",
        "rope_scaling": {("type" if k == "rope_type" else k): v for k, v in YARN.items()},
    }),
    ("gemma3", {
        "rope_parameters": "-", "rope_theta": 5000.0, "rope_local_base_freq": 700.0,
        "layer_types": "-", "sliding_window_pattern": 2, "tie_word_embeddings": "-",
        "rope_scaling": {"rope_type": "linear", "factor": 8.0},
    }),
    ("gemma3 untied", {"rope_parameters": "-", "layer_types": "-", "hidden_activation": "-"}),
]  # fmt: skip


@pytest.mark.parametrize(("variant", "keys"), OLDER)
def test_older_keys_describe_the_same_model(variant, keys, folder):
    expected, _ = load_decoder(folder)
    reconfigure(folder, **keys)
    got, _ = load_decoder(folder)
    assert got.config == expected.config
    assert same_weights(got, expected)


@pytest.mark.parametrize("variant", ["mistral without a window"])
def test_a_window_of_null_is_none_and_a_missing_one_is_the_default(variant, folder):
    """Mistral 7B says null since its version 0.2; its version 0.1 had the default of 4096."""
    assert load_decoder(folder)[0].config.windows is None
    reconfigure(folder, sliding_window="-")
    assert load_decoder(folder)[0].config.windows == (4096, 4096, 4096)


@pytest.mark.parametrize("variant", ["llama tied"])
def test_weights_in_several_files_are_read(variant, reference, folder, tmp_path):
    expected, _ = load_decoder(folder)
    shards = saved(tmp_path / "shards", reference)
    reference.save_pretrained(shards, max_shard_size="60KB")
    (shards / "model.safetensors").unlink()
    files = sorted(shards.glob("model-*.safetensors"))
    assert len(files) > 2
    assert same_weights(load_decoder(shards)[0], expected)
    files[1].unlink()
    with pytest.raises(WeightsNotFound, match=re.escape(files[1].name)):
        load_decoder(shards)
    index = shards / "model.safetensors.index.json"
    for text in ("{}", "[]", '{"weight_map": {"x": "../model.safetensors"}}', "{"):
        index.write_text(text)
        with pytest.raises(ValueError, match=re.escape(str(index))):
            load_decoder(shards)


@pytest.mark.parametrize("variant", ["llama", "gemma3"])
def test_16_bits_are_loaded_into_the_default_dtype(variant, folder):
    """Gemma's 1 + weight is not rounded to 16 bits again."""
    exact, _ = load_decoder(folder)
    rewrite(folder, lambda tensors: {name: t.bfloat16() for name, t in tensors.items()})
    torch.set_default_dtype(torch.float32)
    got, _ = load_decoder(folder)
    assert {p.dtype for p in got.parameters()} == {torch.float32}
    norm = "body.blocks.1.norm1.weight"
    one = 1.0 if variant == "gemma3" else 0.0
    rounded = (exact.state_dict()[norm] - one).bfloat16().float() + one
    assert torch.equal(got.state_dict()[norm], rounded)


@pytest.mark.parametrize("variant", ["llama"])
def test_the_files_may_change_after_loading(variant, folder):
    model, _ = load_decoder(folder)
    before = model(TOKENS).logits
    rewrite(folder, lambda tensors: {name: t * 0 for name, t in tensors.items()})
    torch.testing.assert_close(model(TOKENS).logits, before)


LINEAR = {"rope_type": "linear", "factor": 2.0, "rope_theta": 1.0}
REFUSED = [
    ("llama", {"model_type": "gpt_oss"}, "model_type must be one of gpt2, llama, mistral, qwen3"),
    ("llama", {"model_type": ["llama"]}, "model_type must be one of"),
    ("llama", {"num_local_experts": 8}, "num_local_experts must not be set, got 8"),
    ("qwen3", {"num_experts": 4}, "num_experts must not be set, got 4"),
    ("qwen3", {"quantization_config": {"bits": 4}}, "quantization_config must not be set"),
    ("gemma3", {"attn_logit_softcapping": 50.0}, "attn_logit_softcapping must not be set, got 50"),
    ("gemma3", {"final_logit_softcapping": 30.0}, "final_logit_softcapping must not be set"),
    ("gemma3", {"use_bidirectional_attention": True}, "use_bidirectional_attention must not be"),
    ("gemma3", {"rope_parameters": {**BASES, "sliding_attention": LINEAR}}, "must not be scaled"),
    ("gemma3", {"rope_parameters": LINEAR}, "full_attention"),
    ("gemma3", {"query_pre_attn_scalar": 0}, "query_pre_attn_scalar must be a positive number"),
    ("gemma3", {"layer_types": ["chunked_attention"] * 3}, "got 'chunked_attention'"),
    ("gemma3", {"layer_types": KINDS[:2]}, "one for each of the 3 blocks, got 2"),
    ("mistral", {"layer_types": KINDS}, "mistral has the same attention in all layers"),
    ("llama", {"sliding_window": 4}, "llama has the same attention in all layers, got 4"),
    ("mistral", {"sliding_window": -1}, "window must be at least 1, got -1"),
    ("gemma3", {"sliding_window": None}, "must have a sliding_window, got None"),
    ("qwen3", {"layer_types": KINDS}, "must have a sliding_window, got None"),
    ("llama", {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0}}, "got 'dynamic'"),
    ("llama", {"rope_scaling": {"type": "longrope"}}, "got 'longrope'"),
    ("llama", {"rope_parameters": YARN | {"truncate": False}}, "by the plain rule"),
    ("llama", {"rope_parameters": YARN | {"mscale": 0.7}}, "by the plain rule"),
    ("llama", {"partial_rotary_factor": 0.5}, "all of a head must be rotated"),
    ("llama", {"rope_parameters": LINEAR | {"factor": 0}}, "factor must be a positive number"),
    ("llama", {"rms_norm_eps": 0}, "layer_norm_eps must be a positive number"),
    ("llama", {"rope_parameters": LLAMA3 | {"low_freq_factor": 4.0}}, "the smaller first"),
    ("llama", {"rope_parameters": {"rope_type": "linear"}}, "KeyError('factor')"),
    ("llama", {"hidden_act": "xielu"}, "got 'xielu'"),
    ("llama", {"num_key_value_heads": 4}, "num_kv_heads must divide num_heads"),
    ("llama", {"num_key_value_heads": 3}, "size mismatch"),
    ("llama", {"num_hidden_layers": 2}, "layers.2."),
    ("llama", {"attention_bias": True}, "attention_bias must not be set, got True"),
    ("llama", {"eos_token_id": [5, 101]}, "eos_token_id must be an id, or a list of ids"),
    ("llama", {"eos_token_id": []}, "eos_token_id must be an id, or a list of ids"),
    ("llama", {"eos_token_id": None}, "eos_token_id must be an id, or a list of ids"),
]  # fmt: skip


@pytest.mark.parametrize(("variant", "changes", "words"), REFUSED)
def test_another_computation_is_refused_in_words(variant, changes, words, folder):
    reconfigure(folder, **changes)
    with pytest.raises(ValueError, match=re.escape(words)) as raised:
        load_decoder(folder)
    assert str(folder) in str(raised.value)


@pytest.mark.parametrize("variant", ["llama"])
def test_tensors_that_the_model_lacks_are_refused(variant, folder):
    sinks = "model.layers.0.self_attn.sinks"
    rewrite(folder, lambda tensors: tensors.update({sinks: torch.ones(6)}))
    with pytest.raises(ValueError, match=re.escape("layers.0.self_attn.sinks")):
        load_decoder(folder)


# Looked at

TEXT = "word3 word7 word7 word9 word2 word11 word8 word5"


@pytest.mark.parametrize("variant", ["llama", "qwen3 with yarn and windows", "gemma3"])
def test_its_heads_can_be_shown_recorded_and_removed(variant, folder):
    model, tokenizer = load_decoder(folder)
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    view = show_attention(model, tokenizer, TEXT)
    assert "3 layers x 6 heads" in repr(view)
    tokens = torch.tensor([tokenizer.encode(TEXT).ids])
    with torch.no_grad(), inside.record(model) as activations:
        output = model(tokens)
    parts = inside.contributions(model, activations)
    stream = activations["body.blocks.2"]
    torch.testing.assert_close(sum(parts.values()), stream, atol=1e-10, rtol=0)
    shares = inside.direct_logits(model, parts, model.out_proj.weight[4])
    torch.testing.assert_close(sum(shares.values()), output.logits[..., 4], atol=1e-10, rtol=0)
    lens = inside.logit_lens(model, stream)
    torch.testing.assert_close(lens, output.logits)
    heads = inside.find_heads(model)
    assert len(heads) == 18
    removed = dict.fromkeys(heads, 0.0)
    effects = inside.effects(model, lambda: float(model(tokens).logits[0, -1, 4]), removed)
    assert len({*effects.values()}) == 18
    head = heads[7]
    named = [head.at(part) for part in ("query", "key", "pattern")]
    with torch.no_grad(), inside.record(model, named) as found:
        model(tokens)
    q, k, pattern = (found[place] for place in named)
    scores = q @ k.mT / q.shape[-1] ** 0.5
    closed = pattern == 0
    torch.testing.assert_close(scores.masked_fill(closed, -torch.inf).softmax(-1), pattern)
    window = (model.config.windows or (None,) * 3)[1] or tokens.shape[1]
    assert closed[0, -1].sum() == tokens.shape[1] - min(window, tokens.shape[1])
