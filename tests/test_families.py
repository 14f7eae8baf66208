"""Language models on the encoder's blocks: the next token, and a masked one."""

import copy
from functools import partial

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from attn_notes import checks
from attn_notes.data import END, PAD, START, SpecialTokens
from attn_notes.decoding import beam_search, greedy, sample
from attn_notes.masks import causal_mask, padding_mask
from attn_notes.transformer import DecoderOnly, Encoder, MaskedLanguageModel, TransformerConfig
from tests import small_models as small
from tests.oracles import B, L, S, filled, gradients, rng
from tests.small_models import E, config, decoder_only, ids

LENGTHS, WHOLE = torch.tensor([L, 2]), ids(B, S)
PROMPT = WHOLE[:, :3]

both_families = pytest.mark.parametrize("family", [DecoderOnly, MaskedLanguageModel])


def masked(**changes) -> MaskedLanguageModel:
    return filled(MaskedLanguageModel(config(**changes)))


def endless(**changes) -> DecoderOnly:
    """A model without an END, so that every text reaches the maximum length."""
    model = decoder_only(**changes)
    model.special_tokens = SpecialTokens(end=None)
    return model.eval()


# One set of blocks


@small.every_scheme
@small.both_norms
@pytest.mark.parametrize("training", [True, False])
def test_decoder_only_is_the_causal_encoder_and_an_output_projection(positions, norm, training):
    settings = config(positions=positions, norm=norm, embed_dim=12)
    model, encoder = filled(DecoderOnly(settings)).train(training), Encoder(settings).double()
    encoder.load_state_dict(model.body.state_dict())  # under the same names
    asked = {"need_hidden_states": True, "need_weights": True}
    plain, got = model(WHOLE), model(WHOLE, **asked)
    assert (plain.hidden_states, plain.weights) == (None, None)
    torch.testing.assert_close(plain.logits, got.logits)
    for mask in ({"is_causal": True}, {"attn_mask": causal_mask(S)}):
        read = encoder.train(training)(WHOLE, **mask, **asked)
        torch.testing.assert_close(got[1:], read[1:])
        torch.testing.assert_close(got.logits, read.output @ model.out_proj.weight.T)
    assert not torch.allclose(got.hidden_states[-1], encoder(WHOLE, need_hidden_states=True)[1][-1])


@small.both_norms
@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "relu"])
def test_a_masked_model_is_the_encoder_one_layer_and_a_projection(norm, activation):
    model = masked(norm=norm, activation=activation, num_token_types=2, layer_norm_eps=0.01)
    batch = ids(B, L), torch.tensor([[0, 0, 1, 1, 1]]).expand(B, L)
    asked = {"need_hidden_states": True, "need_weights": True}
    read, got = (
        part(*batch, attn_mask=padding_mask(LENGTHS, L), **asked) for part in (model.body, model)
    )
    torch.testing.assert_close(got[1:], read[1:])
    kinds = {"gelu": F.gelu, "gelu_tanh": partial(F.gelu, approximate="tanh"), "relu": F.relu}
    x = kinds[activation](read.output @ model.transform.weight.T + model.transform.bias)
    x = F.layer_norm(x, (E,), model.norm.weight, model.norm.bias, 0.01)
    torch.testing.assert_close(got.logits, x @ model.out_proj.weight.T + model.out_proj.bias)


GPT2 = {"vocab_size": 50257, "max_length": 1024, "norm": "pre", "activation": "gelu_tanh"}
BERT = {"vocab_size": 30522, "max_length": 512, "num_token_types": 2, "embed_norm": True}


@pytest.mark.parametrize(
    ("family", "settings", "parameters"),
    [(DecoderOnly, GPT2, 124_439_808), (MaskedLanguageModel, BERT, 109_514_298)],
)
def test_published_sizes_have_the_published_numbers_of_parameters(family, settings, parameters):
    """GPT-2 small, and BERT base with its masked-word head."""
    size = {"embed_dim": 768, "num_heads": 12, "num_layers": 12, "ffn_dim": 3072}
    with torch.device("meta"):
        model = family(TransformerConfig(**size, **settings, tie_embeddings=True))
    assert sum(p.numel() for p in model.parameters()) == parameters


@both_families
def test_tied_embeddings_are_one_matrix_and_gather_both_gradients(family):
    model = filled(family(config(tie_embeddings=True)))
    table = model.body.embeddings.tokens.weight
    assert model.out_proj.weight is table
    twin = copy.deepcopy(model)
    assert twin.out_proj.weight is twin.body.embeddings.tokens.weight
    apart = filled(family(config()))
    apart.load_state_dict(model.state_dict())
    tables = [apart.body.embeddings.tokens.weight, apart.out_proj.weight]
    assert tables[0] is not tables[1]
    (tied,) = gradients(model(WHOLE).logits, [table])
    torch.testing.assert_close(tied, sum(gradients(apart(WHOLE).logits, tables)))


@both_families
@pytest.mark.parametrize("tie", [False, True])
@pytest.mark.parametrize("layers", [1, 8])
def test_initial_weights_are_as_published(family, tie, layers):
    torch.manual_seed(0)
    sizes = {"vocab_size": 500, "embed_dim": 128, "num_layers": layers}
    sizes["num_token_types"] = 500 if family is MaskedLanguageModel else 0
    settings = TransformerConfig(**sizes, norm="pre", tie_embeddings=tie, embed_norm=True)
    model = family(settings)
    residual = 0.02 / (2 * layers) ** 0.5 if family is DecoderOnly else 0.02
    for name, parameter in model.named_parameters():
        drawn = parameter.detach()
        if drawn.dim() == 1:
            expected = 1.0 if "norm" in name and name.endswith("weight") else 0.0
            assert bool((drawn == expected).all()), name
            continue
        writes = name.endswith(("self_attn.out_proj.weight", "linear2.weight"))
        std = residual if writes else 0.02
        assert float(drawn.std()) == pytest.approx(std, rel=0.05), name
        assert abs(float(drawn.mean())) < std / 50, name


# Step by step


class Continued:
    """A language model as the checks call it: the source is the prompt, and the inputs are START,
    which stands for the end of the prompt, and the tokens after it."""

    def __init__(self, model: DecoderOnly) -> None:
        self.start, self.step, self.model = model.start, model.step, model

    def __call__(self, source: Tensor, lengths: Tensor, inputs: Tensor) -> tuple[Tensor]:
        whole = torch.cat((source, inputs[:, 1:]), dim=1)
        return (self.model(whole).logits[:, source.shape[1] - 1 :],)


ADDED = ids(B, L, seed=4)
ADDED[1, 1:4] = torch.tensor([END, PAD, START])  # to a step no token is special


TODAY = {
    "norm": "both", "norm_kind": "rms", "qk_norm": True, "gated": True, "bias": False,
    "head_dim": 6, "num_kv_heads": 1, "positions": "rotary", "rotary_layout": "halves",
    "local_rotary_base": 50.0,
}  # fmt: skip


@small.both_paths
@pytest.mark.parametrize("prompt", [1, 2, 4])
@pytest.mark.parametrize("windows", [(2, None, 3), (1, 4, 9)])
@pytest.mark.parametrize("positions", ["rotary", "alibi", "learned"])
def test_steps_of_todays_blocks_equal_the_parallel_pass(positions, windows, prompt, path):
    """Texts end within a window, at its end and beyond it."""
    model = small.on_path(
        decoder_only(**TODAY | {"windows": windows, "positions": positions}), path
    )
    inputs = torch.cat((torch.full((B, 1), START), ADDED), dim=1)
    batch = ids(B, prompt), torch.full((B,), prompt), inputs
    checks.check_step_matches_parallel(Continued(model), *batch, atol=1e-12)


@small.every_scheme
@small.both_norms
@small.both_paths
@pytest.mark.parametrize("kv_heads", [1, None])
@pytest.mark.parametrize("prompt", [1, 4])
def test_steps_equal_the_parallel_pass(positions, norm, path, kv_heads, prompt):
    changes = {"positions": positions, "norm": norm, "num_kv_heads": kv_heads}
    also = dict.fromkeys(("embed_norm", "scale_embeddings", "tie_embeddings"), True)
    model = small.on_path(decoder_only(**changes, **also), path)
    inputs = torch.cat((torch.full((B, 1), START), ADDED), dim=1)
    batch = ids(B, prompt), torch.full((B,), prompt), inputs
    checks.check_step_matches_parallel(Continued(model), *batch, atol=1e-12)
    checks.check_step_matches_parallel(Continued(model.float()), *batch, atol=1e-5)


def test_the_prompt_is_read_once_and_a_step_reads_one_token(monkeypatch):
    model, read = endless(), []
    embed = model.body.embeddings.forward

    def counted(tokens, *rest, **offset):
        read.append(tokens.shape[1])
        return embed(tokens, *rest, **offset)

    monkeypatch.setattr(model.body.embeddings, "forward", counted)
    greedy(model, PROMPT, max_length=5)
    assert read == [3, 1, 1, 1, 1]


# Decoded

DECODINGS = {
    "greedy": greedy,
    "beam": beam_search,
    "sample": lambda *batch, max_length: sample(*batch, max_length=max_length, generator=rng(0)),
}


@small.every_scheme
@pytest.mark.parametrize("way", DECODINGS)
@pytest.mark.parametrize("grad", [False, True])
def test_a_returned_state_can_be_continued(positions, way, grad):
    model = endless(positions=positions)
    found = DECODINGS[way](model, PROMPT, max_length=3)
    with torch.set_grad_enabled(grad):
        logits, state = model.step(found.tokens[:, -1], found.state)
        again, _ = model.step(logits.argmax(-1), state)
    whole = torch.cat((PROMPT, found.tokens, logits.argmax(-1, keepdim=True)), dim=1)
    expected = model(whole).logits
    torch.testing.assert_close((logits, again), (expected[:, -2], expected[:, -1]))
    if grad:
        again.sum().backward()


# In other precisions


@both_families
def test_every_parameter_gets_a_gradient_under_autocast(family):
    model = family(config(norm="pre", embed_dim=12, tie_embeddings=True))
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(WHOLE).logits
    F.cross_entropy(logits.float().flatten(0, 1), WHOLE.flatten()).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert bool(parameter.grad.isfinite().all()), name
