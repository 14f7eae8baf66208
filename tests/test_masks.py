"""Masks say what they mean, entry by entry, and masked_softmax keeps its promises."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from attn_notes import masks
from attn_notes.masks import and_causal, causal_mask, masked_softmax, padding_mask
from tests.oracles import INF, B, L, S, assert_same, coin, every_precision, gradients, normal, rng

BATCH, SIZE = st.integers(0, 3), st.integers(0, 7)
OFFSET = st.integers(-8, 8)
SEED = st.integers(0, 2**16)


def table(rows: int, columns: int, may) -> Tensor:
    """A mask written out entry by entry."""
    cells = [[bool(may(i, j)) for j in range(columns)] for i in range(rows)]
    return torch.tensor(cells, dtype=torch.bool).view(rows, columns)


def assert_tables(mask: Tensor, batch: int, rows: int, columns: int, may) -> None:
    """For each sequence b the mask written out, from `may(b, i, j)`."""
    assert mask.dtype == torch.bool
    assert mask.shape == (batch, rows, columns)
    for b in range(batch):
        assert mask[b].equal(table(rows, columns, lambda i, j, b=b: may(b, i, j)))


def integers(*shape: int, below: int, seed: int) -> Tensor:
    return torch.randint(0, below, shape, generator=rng(seed))


# What each mask allows


@given(BATCH, SIZE, SIZE, SEED)
def test_padding_mask_allows_the_first_keys_up_to_the_length(batch, rows, size, seed):
    lengths = integers(batch, rows, below=size + 1, seed=seed)
    by_query = padding_mask(lengths, size)
    assert_tables(by_query, batch, rows, size, lambda b, i, j: j < lengths[b, i])
    if rows:
        alike = padding_mask(lengths[:, 0].tolist(), size)
        assert_tables(alike, batch, 1, size, lambda b, i, j: j < lengths[b, 0])


@given(SIZE, SIZE, OFFSET)
def test_causal_mask_allows_keys_up_to_the_query_and_the_offset(rows, columns, offset):
    mask = causal_mask(rows, columns, offset=offset)
    assert mask.equal(table(rows, columns, lambda i, j: j <= i + offset))


@given(SIZE, SIZE, OFFSET, st.integers(1, 9))
def test_sliding_window_allows_the_last_keys_up_to_the_query(rows, columns, offset, window):
    mask = masks.sliding_window_mask(rows, columns, window=window, offset=offset)
    assert mask.equal(table(rows, columns, lambda i, j: i + offset - window < j <= i + offset))


@given(SIZE, SIZE, OFFSET, st.data())
def test_prefix_mask_opens_the_prefix_and_is_causal_after_it(rows, columns, offset, data):
    prefix = data.draw(st.integers(0, columns))
    mask = masks.prefix_mask(rows, columns, prefix=prefix, offset=offset)
    assert mask.equal(table(rows, columns, lambda i, j: j < prefix or j <= i + offset))


@given(BATCH, SIZE, SIZE, SEED)
def test_block_mask_allows_the_same_segment_alone(batch, rows, columns, seed):
    queries = integers(batch, rows, below=3, seed=seed)
    keys = integers(batch, columns, below=3, seed=seed + 1)
    mask = masks.block_mask(queries, keys)
    assert_tables(mask, batch, rows, columns, lambda b, i, j: queries[b, i] == keys[b, j])


@given(BATCH, SIZE, SIZE, SEED)
def test_pair_mask_needs_a_real_query_and_a_real_key(batch, rows, columns, seed):
    queries = integers(batch, below=rows + 1, seed=seed)
    keys = integers(batch, below=columns + 1, seed=seed + 1)
    mask = masks.pair_mask(queries, keys, rows, columns)
    assert_tables(mask, batch, rows, columns, lambda b, i, j: i < queries[b] and j < keys[b])


@pytest.mark.slow  # torch.export takes seconds
def test_lengths_are_checked_but_where_no_value_can_be_read():
    class Padding(torch.nn.Module):
        def forward(self, lengths):
            return padding_mask(lengths, 5)

    lengths, expected = torch.tensor([2, 5]), padding_mask([2, 5], 5)
    whole = torch.compile(Padding(), fullgraph=True, backend="eager")
    assert whole(lengths).equal(expected)
    for strict in (True, False):
        program = torch.export.export(Padding(), (lengths,), strict=strict)
        assert program.module()(lengths).equal(expected)
    assert torch.func.vmap(Padding())(lengths[:, None]).equal(expected[:, None])
    for unreadable in (torch.tensor([9], device="meta"), torch.tensor([], dtype=torch.int64)):
        assert padding_mask(unreadable, 5).shape == (len(unreadable), 1, 5)


@given(SIZE, SIZE, OFFSET, st.booleans())
def test_and_causal_allows_what_both_do(rows, columns, offset, is_masked):
    mask = coin(columns, seed=1) if is_masked else None
    both = causal_mask(rows, columns, offset=offset) & (True if mask is None else mask)
    found = and_causal(mask, rows, columns, offset=offset)
    allowed = torch.ones(columns, dtype=torch.bool) if found is None else found
    assert allowed.expand(rows, columns).equal(both)
    if offset + 1 >= columns:  # no key is in the future: nothing is made
        assert found is mask


# masked_softmax


@st.composite
def scores_and_mask(draw):
    """Scores (..., L, S) of any small size, and a mask of a shape that broadcasts to them."""
    shape = (*draw(st.sampled_from([(), (2,), (0,), (2, 3)])), draw(SIZE), draw(SIZE))
    kept = draw(st.integers(1, len(shape)) if len(shape) != 4 else st.sampled_from([1, 2, 4]))
    mask_shape = [n if draw(st.booleans()) else 1 for n in shape[-kept:]]
    seed = draw(SEED)
    scores = 5 * normal(*shape, seed=seed).detach()
    return scores, coin(*mask_shape, seed=seed + 1, heads=draw(st.sampled_from([0.2, 0.5, 0.9])))


@given(scores_and_mask())
def test_without_a_mask_it_is_torchs_softmax(case):
    assert_same(masked_softmax, lambda x: x.softmax(-1), case[0].requires_grad_())


@given(scores_and_mask())
def test_masking_before_the_softmax_is_renormalising_after_it(case):
    scores, mask = case

    def renormalised(scores):
        kept = scores.softmax(-1) * mask
        total = kept.sum(-1, keepdim=True)
        return kept / total.masked_fill(total == 0, 1.0)

    before = mask.clone()
    assert_same(lambda scores: masked_softmax(scores, mask), renormalised, scores.requires_grad_())
    assert mask.equal(before)
    assert (masked_softmax(scores, mask)[~mask.expand_as(scores)] == 0).all()
    by_score = masked_softmax(scores.masked_fill(~mask, -INF))  # minus infinity counts as masked
    assert by_score.equal(masked_softmax(scores, mask))


@pytest.mark.parametrize("by_score", [False, True])
@every_precision
def test_an_empty_row_has_weights_and_gradient_zero_in_every_precision(dtype, by_score):
    scores, mask = normal(B, L, S, dtype=dtype), coin(L, S, seed=1)
    mask[2] = False
    if by_score:
        scores, mask = scores.detach().masked_fill(~mask, -INF).requires_grad_(), None
    weights = masked_softmax(scores, mask)
    (gradient,) = gradients(weights, [scores])
    assert weights.dtype == dtype
    assert (weights[:, 2] == 0).all()
    assert (gradient[:, 2] == 0).all()
    assert weights.isfinite().all()
    assert gradient.isfinite().all()
    assert (gradient[:, [0, 1, 3, 4]] != 0).any(-1).all()  # the other rows still learn


def test_what_is_masked_may_be_anything_even_nan():
    scores = torch.tensor([[0.0, float("nan"), INF, 0.0]], dtype=torch.float64)
    mask = torch.tensor([True, False, False, True])
    assert masked_softmax(scores, mask).tolist() == [[0.5, 0.0, 0.0, 0.5]]
