"""Published decoders in our blocks: the reference library's states, logits and text."""

from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from attn_notes.checks import check_weights
from attn_notes.data import SpecialTokens
from attn_notes.decoding import greedy
from attn_notes.masks import causal_mask, padding_mask
from attn_notes.pretrained import load_decoder
from tests.oracles import rng
from tests.published import (
    assert_refused,
    random_gpt2,
    reconfigure,
    rewrite,
    same_weights,
    saved,
)

LENGTHS = torch.tensor([7, 1, 4])
TOKENS = torch.randint(101, (3, 7), generator=rng())
REAL = padding_mask(LENGTHS, 7)[:, 0]  # (B, L)

VARIANTS = {
    "odd": {},
    "one head": {"n_head": 1, "n_embd": 13, "n_layer": 3},
    "narrow heads": {"n_head": 11, "n_embd": 11, "n_layer": 1},
    "inside four times as wide": {"n_inner": None},
    "inside as wide": {"n_inner": 33},
    "gelu": {"activation_function": "gelu"},
    "gelu by torch's tanh": {"activation_function": "gelu_pytorch_tanh"},
    "relu": {"activation_function": "relu"},
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
    theirs = (
        expected.logits,
        *expected.hidden_states[:-1],
        blocks[0],
        expected.hidden_states[-1],
        *expected.attentions,
    )
    assert len(ours) == 3 + 2 * model.config.num_layers
    both = zip(ours, theirs, strict=True)
    return [tuple(x.transpose(1, -2)[real] for x in pair) for pair in both]  # queries' axis first


def assert_equal_layers(model, reference, tokens, real) -> None:
    """To 1e-5 in 32 bits, to 1e-11 in 64."""
    for got, expected in pairs(model, reference, tokens, real):
        torch.testing.assert_close(got, expected, atol=1e-5, rtol=0)
    for got, expected in pairs(model.double(), reference.double(), tokens, real):
        torch.testing.assert_close(got, expected, atol=1e-11, rtol=0)


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
    if reference.config.reorder_and_upcast_attn:  # the reference itself then leaves 64 bits
        for got, expected in pairs(model, reference, TOKENS, REAL):
            torch.testing.assert_close(got, expected, atol=1e-5, rtol=0)
    else:
        assert_equal_layers(model, reference, TOKENS, REAL)


def test_the_fused_kernel_gives_the_same_logits(transformers, tmp_path):
    reference = random_gpt2(transformers)
    model, _ = load_decoder(saved(tmp_path, reference))
    with torch.no_grad():
        got, expected = model(TOKENS).logits, reference(TOKENS).logits
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=0)


def test_it_says_what_the_reference_library_generates(transformers, tmp_path):
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
        got = greedy(model, prompts, torch.full((5,), 3), max_length=30).tokens
        assert torch.equal(got, expected[:, 3:])
    assert (got[0, 6:] == said).all()
    assert (got != said).sum(1).unique().numel() > 1


def test_what_is_read_back_by_the_reference_library_says_the_same(transformers, tmp_path):
    folder = saved(tmp_path, random_gpt2(transformers))
    reference = transformers.GPT2LMHeadModel.from_pretrained(folder, attn_implementation="eager")
    assert_equal_layers(load_decoder(str(folder))[0], reference.eval(), TOKENS, REAL)


def test_bytes_of_text_go_in_and_come_out(transformers, tmp_path):
    folder = saved(tmp_path, random_gpt2(transformers, vocab_size=300, eos_token_id=299))
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pairs_of_bytes = Tokenizer(models.BPE({c: n for n, c in enumerate(alphabet)}, []))
    pairs_of_bytes.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    pairs_of_bytes.decoder = decoders.ByteLevel()
    pairs_of_bytes.save(str(folder / "tokenizer.json"))
    _, tokenizer = load_decoder(folder)
    ids = tokenizer.encode("naïve 数").ids
    assert len(ids) == len("naïve 数".encode())
    assert tokenizer.decode(ids) == "naïve 数"


@pytest.fixture
def folder(transformers, tmp_path) -> Path:
    return saved(tmp_path, random_gpt2(transformers))


# ---- Names and layouts of other years ---------------------------------------------------------

WTE, HEAD = "transformer.wte.weight", "lm_head.weight"
FUSED, PROJECTION = "transformer.h.1.attn.c_attn.weight", "transformer.h.1.mlp.c_fc.weight"


def older(tensors):
    """As the files of 2019 have it: no prefix, and the causal mask as a buffer."""
    plain = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}
    for i in range(2):
        plain[f"h.{i}.attn.bias"] = torch.ones(29, 29).tril()[None, None]
        plain[f"h.{i}.attn.masked_bias"] = torch.tensor(-1e4)
    return plain


REWRITTEN = {
    "older": older,
    "with the tied head": lambda t: {HEAD: t[WTE].clone(), **t},
    "older, with the tied head": lambda t: {HEAD: t[WTE].clone(), **older(t)},
    "the embedding under the head's name": lambda t: {HEAD if n == WTE else n: t[n] for n in t},
    "with another head beside": lambda t: {
        "multiple_choice_head.summary.weight": torch.ones(1, 33), **t
    },
}  # fmt: skip


@pytest.mark.parametrize("change", REWRITTEN)
def test_a_file_that_holds_the_same_otherwise_gives_the_same(change, folder):
    expected, _ = load_decoder(folder)
    rewrite(folder, REWRITTEN[change])
    assert same_weights(load_decoder(folder)[0], expected)


def test_a_decoder_saved_without_its_head_is_whole(transformers, tmp_path):
    whole = random_gpt2(transformers)
    expected, _ = load_decoder(saved(tmp_path / "whole", whole))
    got, _ = load_decoder(saved(tmp_path / "bare", whole.transformer))
    assert same_weights(got, expected)


def test_a_decoder_with_two_heads_is_read_with_the_one_that_predicts(transformers, tmp_path):
    reference = random_gpt2(transformers, "GPT2DoubleHeadsModel", tie_word_embeddings=False)
    model, _ = load_decoder(saved(tmp_path, reference))
    assert torch.equal(model.out_proj.weight, reference.lm_head.weight)


def test_what_an_older_config_does_not_say_is_so(transformers, tmp_path):
    folder = saved(tmp_path, random_gpt2(transformers, n_inner=None))
    expected, _ = load_decoder(folder)
    later = (
        "model_type", "n_inner", "activation_function", "scale_attn_weights", "add_cross_attention",
        "scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn", "tie_word_embeddings",
    )  # fmt: skip
    reconfigure(folder, **dict.fromkeys(later, "-"))
    got, _ = load_decoder(folder)
    assert got.config == expected.config
    assert same_weights(got, expected)


# ---- What cannot be read ----------------------------------------------------------------------


def turn(tensors, *names: str) -> None:
    tensors.update({name: tensors[name].T.contiguous() for name in names})


WRONG = {
    "a tensor missing": (
        lambda f: rewrite(f, lambda t: {n: t[n] for n in t if n != FUSED}),
        "model.safetensors: h.1.attn.c_attn.weight must be there, and is missing",
    ),
    "the embeddings missing": (
        lambda f: rewrite(f, lambda t: {n: t[n] for n in t if n != WTE}),
        "model.safetensors: wte.weight must be there, and is missing",
    ),
    "a tensor too many": (
        lambda f: rewrite(f, lambda t: t.update({"transformer.h.0.adapter": torch.ones(1)})),
        "model.safetensors: h.0.adapter is no tensor of the model",
    ),
    "a tensor under two names": (
        lambda f: rewrite(f, lambda t: t.update({"wte.weight": t[WTE] + 1})),
        "model.safetensors: wte.weight must be there once, and wte.weight is it again",
    ),
    "the three projections the other way round": (
        lambda f: rewrite(f, lambda t: turn(t, FUSED)),
        "model.safetensors: h.1.attn.c_attn.weight must have shape (33, 99), got (99, 33)",
    ),
    "the feed-forward network the other way round": (
        lambda f: rewrite(f, lambda t: turn(t, PROJECTION)),
        "model.safetensors: h.1.mlp.c_fc.weight must have shape (33, 47), got (47, 33)",
    ),
    "a wider model's config": (
        lambda f: reconfigure(f, n_embd=36),
        "model.safetensors: wte.weight must have shape (101, 36), got (101, 33)",
    ),
    "a feed-forward network of another width": (
        lambda f: reconfigure(f, n_inner=None),
        "model.safetensors: h.0.mlp.c_fc.weight must have shape (33, 132), got (33, 47)",
    ),
    "another number of positions": (
        lambda f: reconfigure(f, n_positions=30),
        "model.safetensors: wpe.weight must have shape (30, 33), got (29, 33)",
    ),
    "a deeper model's config": (
        lambda f: reconfigure(f, n_layer=3),
        "model.safetensors: h.2.ln_1.weight must be there, and is missing",
    ),
    "a shallower model's config": (
        lambda f: reconfigure(f, n_layer=1),
        "model.safetensors: h.1.attn.c_attn.bias is no tensor of the model",
    ),
    "a tied head with a matrix of its own": (
        lambda f: rewrite(f, lambda t: t.update({HEAD: t[WTE] + 1})),
        "lm_head.weight must be equal to wte.weight where tie_word_embeddings is true, got other",
    ),
    "an untied head without a matrix": (
        lambda f: reconfigure(f, tie_word_embeddings=False),
        "model.safetensors: lm_head.weight must be there, and is missing",
    ),
    "a NaN": (
        lambda f: rewrite(f, lambda t: t.update({FUSED: t[FUSED] / 0 * 0})),
        "model.safetensors: h.1.attn.c_attn.weight must be numbers, got NaN",
    ),
    "whole numbers": (
        lambda f: rewrite(f, lambda t: t.update({FUSED: t[FUSED].to(torch.int8)})),
        "model.safetensors: h.1.attn.c_attn.weight must be floating point, got torch.int8",
    ),
    "scores divided by the layer's number": (
        lambda f: reconfigure(f, scale_attn_by_inverse_layer_idx=True),
        "config.json: scale_attn_by_inverse_layer_idx must be False, got True",
    ),
    "scores that are not divided": (
        lambda f: reconfigure(f, scale_attn_weights=False),
        "config.json: scale_attn_weights must be True, got False",
    ),
    "another family": (
        lambda f: reconfigure(f, model_type="bert"),
        "config.json: model_type must be 'gpt2', got 'bert'",
    ),
    "another activation": (
        lambda f: reconfigure(f, activation_function="silu"),
        "config.json: activation_function must be one of ('gelu', 'relu', 'gelu_new', ",
    ),
    "a norm of no eps": (
        lambda f: reconfigure(f, layer_norm_epsilon=0),
        "config.json: layer_norm_eps must be a number above 0, got 0",
    ),
    "no width": (
        lambda f: reconfigure(f, n_embd="-", n_head="-"),
        "config.json: n_embd, n_head must be there, and is missing",
    ),
    "a width of null": (
        lambda f: reconfigure(f, n_embd=None, n_inner=None),
        "config.json: embed_dim must be a whole number, 1 or more, got None",
    ),
    "heads that do not divide": (
        lambda f: reconfigure(f, n_head=4),
        "config.json: num_heads must divide embed_dim",
    ),
    "an end of text beyond the vocabulary": (
        lambda f: reconfigure(f, eos_token_id=50256),
        "config.json: eos_token_id must be an id below vocab_size = 101, got 50256",
    ),
    "several ends of text": (
        lambda f: reconfigure(f, eos_token_id=[5, 6]),
        "config.json: eos_token_id must be an id below vocab_size = 101, got [5, 6]",
    ),
    "no end of text": (
        lambda f: reconfigure(f, eos_token_id="-"),
        "config.json: eos_token_id must be an id below vocab_size = 101, got None",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_file_that_does_not_fit_is_named(what, folder):
    assert_refused(load_decoder, folder, *WRONG[what])
