"""The checks of the book's exercises: each prints `Correct`, or `Not yet:` and what is wrong.

They never raise, so a notebook with an unsolved exercise still runs from top to bottom. A
check is an ordinary function that raises `CheckFailed`, made into an exercise by `@exercise`.
"""

from attn_notes.checks.exercises.attention_decoder import (
    decoder_shapes,
    fool_beam,
    greedy_loop,
    length_penalty,
    masked_loss,
    read_source,
)
from attn_notes.checks.exercises.families import (
    bits_from_perplexity,
    eighty_ten_ten,
    how_many_known,
    nucleus,
    pooled,
    proud_number,
    seen_before,
)
from attn_notes.checks.exercises.kernel_regression import (
    epanechnikov,
    leave_group_out,
    leave_one_out,
    local_linear,
    nearest_neighbours,
    three_rows,
)
from attn_notes.checks.exercises.masking import (
    dilated_window,
    empty_rows,
    find_leak,
    mask_from_lengths,
    softmax_with_empty_rows,
)
from attn_notes.checks.exercises.multi_head import (
    count_parameters,
    moved_by_head,
    multi_head,
    sees_future,
    split_or_mix,
)
from attn_notes.checks.exercises.positions import (
    alibi_horizon,
    column_order,
    mended_slice,
    one_letter,
    shift_matrix,
)
from attn_notes.checks.exercises.score_functions import (
    additive_score,
    cosine_score,
    divide_by_width,
    softmax_axis,
    which_key_wins,
)
from attn_notes.checks.exercises.transformer import (
    add_and_norm,
    norm_gradient,
    two_branches,
    which_check,
    who_mixes,
)
from attn_notes.checks.exercises.transformer_costs import block_flops, linear_work

__all__ = [
    "add_and_norm",
    "additive_score",
    "alibi_horizon",
    "bits_from_perplexity",
    "block_flops",
    "column_order",
    "cosine_score",
    "count_parameters",
    "decoder_shapes",
    "dilated_window",
    "divide_by_width",
    "eighty_ten_ten",
    "empty_rows",
    "epanechnikov",
    "find_leak",
    "fool_beam",
    "greedy_loop",
    "how_many_known",
    "leave_group_out",
    "leave_one_out",
    "length_penalty",
    "linear_work",
    "local_linear",
    "mask_from_lengths",
    "masked_loss",
    "mended_slice",
    "moved_by_head",
    "multi_head",
    "nearest_neighbours",
    "norm_gradient",
    "nucleus",
    "one_letter",
    "pooled",
    "proud_number",
    "read_source",
    "seen_before",
    "sees_future",
    "shift_matrix",
    "softmax_axis",
    "softmax_with_empty_rows",
    "split_or_mix",
    "three_rows",
    "two_branches",
    "which_check",
    "which_key_wins",
    "who_mixes",
]
