"""The recurrent encoder-decoder: padding, steps, weights, and its state."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attn_notes import checks
from attn_notes.masks import padding_mask
from attn_notes.seq2seq import AttentionDecoder, RNNDecoder, RNNEncoder, Seq2Seq
from tests.oracles import SCORES

V, E, H = 11, 5, 6  # vocabulary, embedding, state of the encoder in each direction
LENGTHS = torch.tensor([3, 7, 1])
SOURCE = torch.tensor([[4, 5, 6, 0, 0, 0, 0], [7, 8, 9, 10, 4, 5, 6], [9, 0, 0, 0, 0, 0, 0]])
INPUTS = torch.tensor([[1, 4, 5, 6], [1, 7, 0, 0], [1, 8, 9, 10]])
BATCH = SOURCE, LENGTHS, INPUTS


def build(kind="additive", *, bidirectional=True, layers=1, seed=0):
    """A model in float64; `kind` is a score, or "fixed"."""
    torch.manual_seed(seed)
    encoder = RNNEncoder(V, E, H, layers, bidirectional=bidirectional)
    K = encoder.output_dim
    Q = K if kind in ("dot", "scaled", "gaussian") else 7
    if kind == "fixed":
        decoder = RNNDecoder(V, E, Q, K, layers)
    else:
        decoder = AttentionDecoder(V, E, Q, K, layers, score=SCORES[kind](Q, K))
    return Seq2Seq(encoder, decoder).double().eval()


EVERY_KIND = pytest.mark.parametrize("kind", ["fixed", *SCORES])
SHAPES = [(False, 1), (True, 1), (True, 2)]
EVERY_ENCODER = pytest.mark.parametrize(("bidirectional", "layers"), SHAPES)


@EVERY_KIND
@EVERY_ENCODER
def test_a_sentence_gets_the_same_logits_alone_and_in_a_batch(kind, bidirectional, layers):
    model = build(kind, bidirectional=bidirectional, layers=layers)
    checks.check_batch_invariant(model, *BATCH, atol=1e-12)


@EVERY_KIND
@EVERY_ENCODER
def test_steps_equal_the_parallel_pass(kind, bidirectional, layers):
    model = build(kind, bidirectional=bidirectional, layers=layers)
    checks.check_step_matches_parallel(model, *BATCH, atol=1e-12)


@EVERY_ENCODER
def test_the_encoder_never_reads_padding(bidirectional, layers):
    encoder = build(bidirectional=bidirectional, layers=layers).encoder
    checks.check_padding_invariant(lambda x, n: encoder(x, n)[0], SOURCE, LENGTHS, atol=1e-12)
    outputs, _ = encoder(SOURCE, LENGTHS)
    assert not outputs[~padding_mask(LENGTHS, 7)[:, 0]].any()


@EVERY_ENCODER
def test_the_final_state_is_forward_at_the_last_token_and_backward_at_the_first(
    bidirectional, layers
):
    encoder = build(bidirectional=bidirectional, layers=layers).encoder
    outputs, final = encoder(SOURCE, LENGTHS)
    assert final.shape == (layers, 3, encoder.output_dim)
    for n, length in enumerate(LENGTHS):
        torch.testing.assert_close(final[-1, n, :H], outputs[n, length - 1, :H])
        if bidirectional:
            torch.testing.assert_close(final[-1, n, H:], outputs[n, 0, H:])


@settings(max_examples=25)
@given(lengths=st.lists(st.integers(1, 6), min_size=1, max_size=4), kind=st.sampled_from([*SCORES]))
def test_the_weights_of_every_step_sum_to_one_over_the_real_tokens(lengths, kind):
    lengths = torch.tensor(lengths)
    S = int(lengths.max())
    source = torch.randint(4, V, (len(lengths), S)).where(padding_mask(lengths, S)[:, 0], 0)
    _, weights = build(kind)(source, lengths, INPUTS[:1].expand(len(lengths), -1))
    assert weights.shape == (len(lengths), 4, S)
    checks.check_weights(weights, padding_mask(lengths, S))


def test_the_query_is_the_top_layers_state_before_the_step():
    model = build("bilinear", layers=2)
    state = model.initial_state(SOURCE, LENGTHS)
    outputs, _ = model.encoder(SOURCE, LENGTHS)
    score = model.decoder.attention.score
    expected = score(state.hidden[-1][:, None], outputs)
    expected = expected.masked_fill(~padding_mask(LENGTHS, 7), -torch.inf).softmax(-1)
    _, after = model.start(SOURCE, LENGTHS)
    torch.testing.assert_close(after.weights, expected)


def test_a_fixed_context_is_attention_to_a_memory_of_one_vector():
    fixed, free = build("fixed"), build("additive")
    free.decoder.load_state_dict(fixed.decoder.state_dict(), strict=False)
    state = fixed.initial_state(SOURCE, LENGTHS)
    assert state.memory.shape == (3, 1, fixed.encoder.output_dim)
    torch.testing.assert_close(fixed.decoder(INPUTS, state)[0], free.decoder(INPUTS, state)[0])


@EVERY_KIND
def test_every_parameter_gets_a_gradient(kind):
    model = build(kind, layers=2)
    model(*BATCH)[0].square().mean().backward()
    without = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert without == []


def test_a_step_adds_a_row_of_weights_and_leaves_the_earlier_state_unchanged():
    model = build()
    state = model.initial_state(SOURCE, LENGTHS)
    kept = state.hidden.clone(), state.memory.clone(), state.mask.clone(), state.steps
    assert model.step(INPUTS[:, 0], state)[1].weights.shape == (3, 1, 7)
    torch.testing.assert_close((state.hidden, state.memory, state.mask, state.steps), kept)


def of_another_encoder(m):
    return Seq2Seq(RNNEncoder(V, E, H, 2), m.decoder).double()


WRONG = [
    (lambda m: m(SOURCE, torch.tensor([3, 8, 1]), INPUTS), r"from 1 to 7, got \[3, 8, 1\]"),
    (lambda m: m(SOURCE, LENGTHS[:2], INPUTS), r"\(B,\), got source \(3, 7\) and lengths \(2,\)"),
    (lambda m: of_another_encoder(m)(*BATCH), r"final states .* \(1, B, 12\), .* \(2, 3, 6\)"),
    (lambda m: m(SOURCE + V, LENGTHS, INPUTS), f"source must be ids from 0 to {V - 1}, got ids"),
    (lambda m: m(SOURCE, LENGTHS, INPUTS[:2]), r"\(3, L\), got inputs \(2, 4\)"),
    (lambda m: m.step(INPUTS, m.initial_state(*BATCH[:2])), r"tokens .* \(B,\), .*, got \(3, 4\)"),
]


@pytest.mark.parametrize(("call", "words"), WRONG)
def test_wrong_input_is_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call(build())
