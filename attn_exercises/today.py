"""Chapter 12's checks: the models of today."""

from typing import Any

import torch

from attn_exercises.base import compare, draw, of_function, pair


@of_function
def centred_writer(answer: Any) -> None:
    """A layer whose output an RMSNorm turns into the layer norm of another layer's."""
    weight, bias = draw((5, 3), (5,), seed=12)
    new_weight, new_bias = pair(answer(weight, bias), "two tensors, the new weight and bias")
    right = weight - weight.mean(0)
    by_row = weight - weight.mean(1, keepdim=True)
    mistakes = {
        "the mean goes over the E outputs, so over each column; this one goes over a row": by_row,
        "each column has its own mean, and this is the mean of all": weight - weight.mean(),
        "subtract the mean of each column, not its sum": weight - weight.sum(0),
        "the RMSNorm divides: take only the mean away": right / right.std(0, correction=0),
        "this is the old weight, and the mean of what it writes depends on x": weight,
    }
    compare(new_weight, right, "the weight", mistakes)
    kept = {"the bias is part of what is written, so its mean must go too": bias}
    compare(new_bias, bias - bias.mean(), "the bias", kept)


@of_function
def rows_for_halves(answer: Any) -> None:
    """The rows of a projection, reordered from pairs that stand together to halves."""
    queries, keys = draw((32, 10), (16, 10), seed=13)  # heads of width 8: four, and two
    rows = queries.unflatten(0, (4, 4, 2))  # (H, D/2, 2, E)
    back = queries.unflatten(0, (4, 2, 4)).transpose(1, 2).flatten(0, 2)
    mixed = queries.unflatten(0, (16, 2)).transpose(0, 1).flatten(0, 1)
    second = rows.flip(2).transpose(1, 2).flatten(0, 2)
    outside = rows.transpose(0, 2).flatten(0, 2)
    mistakes = {
        "the rows stand as in the file, in pairs": queries,
        "this is the way back, from halves to pairs": back,
        "the rows of different heads are mixed: reorder them inside each head": mixed,
        "the second of each pair stands in the first half, and would turn the other way": second,
        "the heads change places: keep the head's axis in front, and swap the other two": outside,
    }
    right = rows.transpose(1, 2).flatten(0, 2)
    compare(answer(queries, 4), right, "the rows for the queries", mistakes)
    right = keys.unflatten(0, (2, 4, 2)).transpose(1, 2).flatten(0, 2)
    case = "with two heads of keys "
    compare(answer(keys, 2), right, "the rows", case=case)
    flat = torch.arange(16.0, device=keys.device)[:, None]  # one head, E = 1
    right = torch.cat([flat[0::2], flat[1::2]])
    compare(answer(flat, 1), right, "the rows", case="with a single head of width 16 ")
