"""Attention with a state: every form against a loop over single numbers, pieces, gradients."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attn_notes.linear import (
    decay_mask,
    delta_chunks,
    delta_recurrence,
    elu_plus_one,
    linear_attention,
    linear_chunks,
    linear_recurrence,
)
from attn_notes.masks import padding_mask
from tests.oracles import DV, B, D, H, L, S, assert_same, coin, normal

LENGTH = 11  # of the chunks below, some divide it and some leave a rest
CHUNKS = [1, 2, 4, LENGTH, 64]
TIGHT = {"rtol": 1e-12, "atol": 1e-12}


def tokens(*lead, length=LENGTH):
    """Query, key of length below 1, value, beta and gate."""
    q, k, v = (normal(*lead, length, w, seed=n).detach() for n, w in enumerate((D, D, DV)))
    beta, gate = (normal(*lead, length, seed=n).detach().sigmoid() for n in (3, 4))
    return q, k / k.norm(dim=-1, keepdim=True), v, beta, gate


def by_loop(q, k, v, beta, gate, *, erases):
    """Entry by entry, for one sequence: what each token adds, and what is left of it later."""
    length, width, values = len(q), q.shape[1], v.shape[1]
    state = [[0.0] * values for _ in range(width)]
    outputs = []
    for t in range(length):
        state = [[gate[t] * x for x in row] for row in state]
        held = [sum(k[t, d] * state[d][e] for d in range(width)) for e in range(values)]
        for d in range(width):
            for e in range(values):
                new = v[t, e] - held[e] if erases else v[t, e]
                state[d][e] = state[d][e] + beta[t] * k[t, d] * new
        outputs += [sum(q[t, d] * state[d][e] for d in range(width)) for e in range(values)]
    return torch.stack(outputs).view(length, values)


# The recurrences, and the chunks


@pytest.mark.parametrize("is_gated", [False, True])
def test_the_recurrences_are_what_the_formulas_say(is_gated):
    q, k, v, beta, gate = (x.requires_grad_() for x in tokens(length=4))
    ones = torch.ones(4, dtype=torch.float64)
    g, used = (gate, {"gate": gate}) if is_gated else (ones, {})
    linear = lambda *x: by_loop(*x, ones, g, erases=False)  # noqa: E731
    assert_same(lambda *x: linear_recurrence(*x, **used)[0], linear, q, k, v)
    delta = lambda *x: by_loop(*x, g, erases=True)  # noqa: E731
    assert_same(lambda *x: delta_recurrence(*x, **used)[0], delta, q, k, v, beta)


@pytest.mark.parametrize("chunk", CHUNKS)
@pytest.mark.parametrize("is_gated", [False, True])
def test_chunks_give_the_recurrence_with_its_state_and_gradients(chunk, is_gated):
    q, k, v, beta, gate = (x.requires_grad_() for x in tokens(B, H))
    state = normal(B, H, D, DV, seed=9)

    def both(function, *rest, **options):
        def call(q, k, v, state, gate, *rest):
            used = {"gate": gate} if is_gated else {}
            output, last = function(q, k, v, *rest, state=state, **used, **options)
            return torch.cat((output.flatten(2), last.flatten(2)), -1)

        return call

    inputs = (q, k, v, state, gate)
    assert_same(both(linear_chunks, chunk=chunk), both(linear_recurrence), *inputs)
    assert_same(both(delta_chunks, chunk=chunk), both(delta_recurrence), *inputs, beta)


@given(st.integers(0, 9), st.integers(0, 9), st.integers(1, 10), st.booleans())
def test_a_text_in_pieces_is_the_whole(first, second, chunk, is_gated):
    q, k, v, beta, gate = tokens(2, length=first + second)
    gates = gate if is_gated else torch.ones_like(gate)
    for function, rest in ((linear_chunks, ()), (delta_chunks, (beta,))):
        whole, end = function(q, k, v, *rest, gate=gates, chunk=3)
        outputs, state = [], None
        for part in (slice(first), slice(first, None)):
            given = [x[:, part] for x in (q, k, v, *rest)]
            output, state = function(*given, gate=gates[:, part], state=state, chunk=chunk)
            outputs.append(output)
        torch.testing.assert_close(torch.cat(outputs, 1), whole, **TIGHT)
        torch.testing.assert_close(state, end, **TIGHT)


def test_a_gate_of_0_forgets_everything_and_has_a_gradient():
    q, k, v, beta, gate = tokens(2)
    gate[:, 5] = 0
    gate.requires_grad_()
    for function, rest in ((linear_chunks, ()), (delta_chunks, (beta,))):
        output, _ = function(q, k, v, *rest, gate=gate, chunk=4)
        later = [x[:, 5:] for x in (q, k, v, *rest)]
        fresh, _ = function(*later, gate=gate[:, 5:])
        torch.testing.assert_close(output[:, 5:], fresh, **TIGHT)
        (found,) = torch.autograd.grad(output.sum(), gate)
        assert found.isfinite().all()
        assert found[:, 5].abs().min() > 0


def test_a_gate_or_beta_of_bool_or_integers_is_1_or_0():
    q, k, v, _, gate = tokens(2)
    is_open = gate > gate.median()
    for function in (linear_recurrence, linear_chunks, delta_recurrence, delta_chunks):
        outputs = []
        for numbers in (is_open, is_open.long(), is_open.to(q.dtype)):
            rest = () if function in (linear_recurrence, linear_chunks) else (numbers,)
            outputs.append(function(q, k, v, *rest, gate=numbers)[0])
        assert outputs[0].equal(outputs[2])
        assert outputs[1].equal(outputs[2])


def test_one_number_for_each_token_serves_all_heads():
    q, k, v, beta, gate = tokens(B, H)
    one, all_heads = gate[0, 0], gate[0, 0].expand(B, H, -1)
    for function, rest in (
        (linear_chunks, ()),
        (delta_chunks, (beta,)),
        (delta_recurrence, (one,)),
    ):
        a, b = (function(q, k, v, *rest, gate=g)[0] for g in (one, all_heads))
        torch.testing.assert_close(a, b)


def test_decay_mask_is_the_product_of_the_gates_between():
    gate = tokens(2, length=5)[-1]
    mask = decay_mask(gate)
    for i in range(5):
        for j in range(5):
            expected = gate[:, j + 1 : i + 1].prod(-1) if j <= i else torch.zeros(2).double()
            torch.testing.assert_close(mask[:, i, j], expected)


# The delta rule


def test_the_delta_rule_rewrites_its_key_and_leaves_orthogonal_ones():
    keys = torch.eye(4, dtype=torch.float64)
    values = normal(4, 3, seed=1).detach()
    _, state = linear_recurrence(keys, keys, values)
    new = normal(1, 3, seed=2).detach()
    one = torch.ones(1, dtype=torch.float64)
    _, changed = delta_chunks(keys[:1], keys[:1], new, one, state=state)
    torch.testing.assert_close(keys @ changed, torch.cat((new, values[1:])))


def test_a_step_of_the_delta_rule_is_a_step_of_gradient_descent():
    q, k, v, beta, _ = tokens(length=1)
    state = normal(D, DV, seed=8)
    error = (k @ state - v).square().sum() / 2
    (slope,) = torch.autograd.grad(error, state)
    _, after = delta_chunks(q, k, v, beta, state=state.detach())
    torch.testing.assert_close(after, state.detach() - beta * slope, **TIGHT)


def test_beta_0_and_gate_1_leave_the_state_as_it_is():
    q, k, v, beta, gate = tokens(B)
    beta[:, -3:], gate[:, -3:] = 0, 1
    _, padded = delta_chunks(q, k, v, beta, gate=gate)
    short = [x[:, :-3] for x in (q, k, v, beta)]
    torch.testing.assert_close(padded, delta_chunks(*short, gate=gate[:, :-3])[1], **TIGHT)


# Attention with a normaliser


def reference(q, k, v, mask, feature_map=elu_plus_one):
    """The table of weights, as in chapter 3."""
    scores = (feature_map(q) @ feature_map(k).mT) * mask
    total = scores.sum(-1, keepdim=True)
    return torch.where(total == 0, 0.0, scores / total.where(total != 0, 1.0)) @ v


def inputs(*lead, rows, columns):
    sizes = (rows, D), (columns, D), (columns, DV)
    return [normal(*lead, *size, seed=n) for n, size in enumerate(sizes, 1)]


def test_it_is_the_average_with_features_for_weights():
    q, k, v = inputs(B, H, rows=L, columns=S)
    everything = torch.ones(L, S)
    assert_same(lambda *x: linear_attention(*x)[0], lambda *x: reference(*x, everything), q, k, v)


@pytest.mark.parametrize("chunk", CHUNKS)
def test_causal_it_is_the_masked_average_whatever_the_chunk(chunk):
    q, k, v = inputs(B, H, rows=LENGTH, columns=LENGTH)
    causal = torch.ones(LENGTH, LENGTH).tril()
    got = lambda *x: linear_attention(*x, is_causal=True, chunk=chunk)[0]  # noqa: E731
    assert_same(got, lambda *x: reference(*x, causal), q, k, v)


def test_a_masked_key_changes_nothing_even_if_it_is_nan():
    q, k, v = (x.detach() for x in inputs(B, H, rows=LENGTH, columns=LENGTH))
    mask = coin(B, 1, LENGTH, seed=5).expand(B, H, LENGTH).clone()
    mask[:, :, :2], k[~mask], v[~mask] = False, float("nan"), float("inf")
    clean = [x.masked_fill(~mask[..., None], 0.0) for x in (k, v)]
    k.requires_grad_()
    for is_causal in (False, True):
        rows = torch.ones(LENGTH, LENGTH).tril() if is_causal else torch.ones(LENGTH, LENGTH)
        output, _ = linear_attention(q, k, v, is_causal=is_causal, key_mask=mask, chunk=4)
        torch.testing.assert_close(output, reference(q, *clean, rows * mask[:, :, None]))
        (found,) = torch.autograd.grad(output.sum(), k)
        assert found.isfinite().all()
    assert (output[:, :, :2] == 0).all()  # nothing may be read: 0, as in an empty row


def test_a_padding_mask_and_one_gate_a_head_fit_all_heads():
    q, k, v, beta, gate = tokens(B, H)
    mask = padding_mask([3] * (B - 1) + [LENGTH], LENGTH)  # (B, 1, L)
    output, _ = linear_attention(q, k, v, key_mask=mask)
    each, _ = linear_attention(q, k, v, key_mask=mask.expand(B, H, LENGTH))
    torch.testing.assert_close(output, each)
    assert not output.allclose(linear_attention(q, k, v)[0])
    gate = gate[0, :, :1]  # (H, 1)
    for delta in (delta_recurrence, delta_chunks):
        output, _ = delta(q[0], k[0], v[0], beta[0], gate=gate)
        each, _ = delta(q[0], k[0], v[0], beta[0], gate=gate.expand(H, LENGTH))
        torch.testing.assert_close(output, each)


def test_pieces_with_a_normaliser_are_the_whole():
    q, k, v = inputs(B, rows=LENGTH, columns=LENGTH)
    whole, end = linear_attention(q, k, v, is_causal=True)
    left, state = linear_attention(q[:, :4], k[:, :4], v[:, :4], is_causal=True)
    right, state = linear_attention(q[:, 4:], k[:, 4:], v[:, 4:], is_causal=True, state=state)
    torch.testing.assert_close(torch.cat((left, right), 1), whole, **TIGHT)
    torch.testing.assert_close(state, end, **TIGHT)
    last, again = linear_attention(q, k[:, :0], v[:, :0], state=state)  # reads, writes nothing
    torch.testing.assert_close(last[:, -1], whole[:, -1], **TIGHT)
    assert again.equal(state)


def test_a_normaliser_of_0_gives_0_and_finite_gradients():
    q, k, v = inputs(rows=3, columns=3)
    features = lambda x: (x - 100).relu()  # noqa: E731
    output, _ = linear_attention(q, k, v, feature_map=features, is_causal=True)
    assert (output == 0).all()
    assert all(x.isfinite().all() for x in torch.autograd.grad(output.sum(), (q, k, v)))
    one, two = torch.ones(1, 1), torch.tensor([[1.0], [-1.0]])  # weights 1 and -1
    output, _ = linear_attention(one, two, torch.ones(2, 1) + two, feature_map=lambda x: x)
    assert output == 0


# Features


def test_elu_plus_one_is_elu_plus_one_and_stays_positive():
    x = torch.linspace(-8, 8, 101, dtype=torch.float64, requires_grad=True)
    assert_same(elu_plus_one, lambda x: torch.nn.functional.elu(x) + 1, x)
    far = torch.tensor([-17.5, -60.0, -103.0, 1e4])
    assert (elu_plus_one(far) > 0).all()
    assert torch.nn.functional.elu(far)[0] + 1 == 0  # what would have been lost


# Precision, devices, errors


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_sums_in_32_bits(dtype):
    q, k, v, beta, gate = (x.to(dtype) for x in tokens(2, length=40))
    wide = [x.float() for x in (q, k, v, beta, gate)]
    calls = [
        lambda q, k, v, beta, gate: linear_attention(q, k, v, is_causal=True),
        lambda q, k, v, beta, gate: linear_recurrence(q, k, v, gate=gate),
        lambda q, k, v, beta, gate: linear_chunks(q, k, v, gate=gate),
        lambda q, k, v, beta, gate: delta_recurrence(q, k, v, beta, gate=gate),
        lambda q, k, v, beta, gate: delta_chunks(q, k, v, beta, gate=gate),
    ]
    for call in calls:
        (output, state), (exact, end) = call(q, k, v, beta, gate), call(*wide)
        assert (output.dtype, state.dtype) == (dtype, torch.float32)
        torch.testing.assert_close(output, exact.to(dtype))
        torch.testing.assert_close(state, end)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            torch.testing.assert_close(call(*wide)[0], exact)


def test_a_state_of_half_precision_goes_on_in_32_bits():
    q, k, v, beta, _ = (x.float() for x in tokens(2))
    state = normal(2, D, DV, seed=9, dtype=torch.float16).detach()
    for function, rest in ((linear_chunks, ()), (delta_recurrence, (beta,))):
        (a, end), (b, same) = (function(q, k, v, *rest, state=s) for s in (state, state.float()))
        assert end.dtype == torch.float32
        assert a.equal(b)
        assert end.equal(same)
    assert linear_chunks(q[:, :0], k[:, :0], v[:, :0], state=state)[1].dtype == torch.float32


def test_it_runs_on_the_meta_device():
    q, k, v, beta, gate = (x.to("meta") for x in tokens(B, H))
    assert linear_attention(q, k, v, is_causal=True)[0].is_meta
    assert delta_chunks(q, k, v, beta, gate=gate, chunk=4)[1].is_meta


Q, K, V = torch.zeros(2, 5, 3), torch.zeros(2, 5, 3), torch.zeros(2, 5, 4)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: linear_chunks(Q, K[:, :4], V[:, :4]), ValueError, "the same length L, got query"),
        (lambda: delta_chunks(Q, K, V, torch.ones(2)), ValueError, r"beta must broadcast.*\(2,\)"),
        (lambda: delta_chunks(Q, K, V, torch.ones(1, 2, 5)), ValueError, r"\(5,\) or \(2, 5\)"),
        (lambda: linear_chunks(Q, K, V, gate=torch.ones(3, 1)), ValueError, "gate .*got"),
        (lambda: linear_chunks(Q, K, V, state=Q), ValueError, r"state .*\(2, 3, 4\), got \(2, 5"),
        (lambda: linear_chunks(Q, K, V, chunk=0), ValueError, "chunk must be at least 1"),
        (lambda: linear_attention(Q, K[..., :2], V), ValueError, "must share head_dim"),
        (lambda: linear_attention(Q, K, V, key_mask=V), TypeError, "mask must be a bool"),
        (lambda: linear_attention(Q, K, V, key_mask=V[0, 0] > 0), ValueError, "key_mask must"),
        (lambda: linear_attention(Q, K, V, state=Q), ValueError, r"state .*\(2, 3, 5\)"),
        (lambda: decay_mask(torch.ones(3) > 0), TypeError, "gate must be floating"),
    ],
)
def test_wrong_inputs_are_named(call, error, words):
    with pytest.raises(error, match=words):
        call()
