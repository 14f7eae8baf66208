"""A state beside a cache: time against the length of a text, and of one more token after it.

The rows compare different functions, so their outputs are not compared with each other: a form in
chunks must agree with its recurrence, and the absorbed latent attention with the explicit one.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from attn_notes import linear
from attn_notes.attention import scaled_dot_product_attention
from attn_notes.cache import GrowingCache
from attn_notes.latent import LatentAttention
from attn_notes.multihead import MultiHeadAttention
from benchmarks.report import Bench, Table, assert_same, interleaved, median, run_as_main, spread

LENGTHS = (256, 512, 1024, 2048, 4096, 8192)
HEADS, D = 4, 64
WIDTH, LATENT, ROTARY = 512, 128, 32  # of the layers that write one token more
Work = Callable[[], Sequence[Tensor]]


def tokens(length: int, bench: Bench) -> dict[str, Tensor]:
    """Queries, keys of length 1, values, and betas from 0 to 1."""
    rng = torch.Generator().manual_seed(0)
    drawn = torch.randn(3, 1, HEADS, length, D, generator=rng)
    beta = torch.rand(1, HEADS, length, generator=rng)
    parts = (drawn[0], F.normalize(drawn[1], dim=-1), drawn[2], beta)
    names = ("query", "key", "value", "beta")
    return {n: x.to(bench.device, bench.dtype) for n, x in zip(names, parts, strict=True)}


def forms(length: int, bench: Bench) -> dict[str, Work]:
    """A whole text, causally."""
    given = tokens(length, bench)
    beta = given.pop("beta")
    return {
        "fused softmax": lambda: [scaled_dot_product_attention(**given, is_causal=True)],
        "linear, in chunks": lambda: linear.linear_attention(**given, is_causal=True),
        "delta rule, in chunks": lambda: linear.delta_chunks(**given, beta=beta),
    }


def assert_chunks_are_recurrences(length: int, bench: Bench) -> None:
    given = tokens(length, bench)
    beta = given.pop("beta")
    for chunks, recurrence, more in (
        (linear.linear_chunks, linear.linear_recurrence, {}),
        (linear.delta_chunks, linear.delta_recurrence, {"beta": beta}),
    ):
        assert_same({"recurrence": recurrence(**given, **more), "chunks": chunks(**given, **more)})


def over_lengths(lengths: Sequence[int], bench: Bench) -> tuple[list[str], list[list[str]]]:
    rows, names = [], list(forms(1, bench))
    for length in lengths:
        with torch.no_grad():
            times = interleaved(forms(length, bench), bench)
        fastest = min(names, key=lambda name: median(times[name]))
        rows.append([str(length), *(spread(times[name]) for name in names), fastest])
    return ["length", *names, "fastest"], rows


# ---------------------------------------------------------------- one token more


def steps(length: int, bench: Bench) -> tuple[dict[str, Work], dict[str, int]]:
    """One token after `length` others, and the numbers kept for one token or for the text."""
    torch.manual_seed(0)
    place: dict[str, Any] = {"device": bench.device, "dtype": bench.dtype}
    heads = WIDTH // D
    plain = MultiHeadAttention(WIDTH, heads).to(**place)
    latent = LatentAttention(
        WIDTH, heads, latent_dim=LATENT, rotary_dim=ROTARY, head_dim=D
    ).to(**place)  # fmt: skip
    x = torch.randn(1, 1, WIDTH, **place)
    kept = [torch.randn(1, heads, length, D, **place) for _ in range(2)]
    small = [torch.randn(1, 1, length, width, **place) for width in (LATENT, ROTARY)]
    state = torch.randn(1, heads, D, D, **place)
    one = torch.randn(1, heads, 1, D, **place)
    beta = torch.full((1, heads, 1), 0.5, **place)

    def absorb(absorbed: bool) -> list[Tensor]:
        return [latent(x, cache=GrowingCache(*small), absorbed=absorbed)]

    work: dict[str, Work] = {
        "heads with a cache": lambda: [plain(x, cache=GrowingCache(*kept))[0]],
        "latent, explicit": partial(absorb, False),
        "latent, absorbed": partial(absorb, True),
        "linear, state alone": lambda: linear.linear_recurrence(one, one, one, state=state),
        "delta rule, state alone": lambda: linear.delta_recurrence(
            one, one, one, beta, state=state
        ),
    }
    numbers = dict.fromkeys(work, 2 * WIDTH * length)
    numbers |= dict.fromkeys(("latent, explicit", "latent, absorbed"), (LATENT + ROTARY) * length)
    numbers |= {name: heads * D * D for name in work if "state" in name}
    return work, numbers


def one_more(lengths: Sequence[int], bench: Bench) -> tuple[list[str], list[list[str]]]:
    rows, names = [], list(steps(1, bench)[0])
    with torch.no_grad():
        for length in lengths:
            work, numbers = steps(length, bench)
            assert_same({name: work[name]() for name in names if name.startswith("latent")})
            times = interleaved(work, bench)
            rows += [[str(length), name, spread(times[name]), f"{numbers[name]:,}"]
                     for name in names]  # fmt: skip
    return ["tokens before", "layer", "milliseconds", "numbers kept"], rows


def tables(bench: Bench, lengths: Sequence[int] = LENGTHS) -> Iterator[Table]:
    with torch.no_grad():
        assert_chunks_are_recurrences(min(lengths), bench)
    yield Table(
        "A whole text, by the length",
        f"Milliseconds of a causal forward pass, {HEADS} heads of width {D}. These are three "
        "different functions: the row shows what each costs, not which gives the same result "
        "sooner. The softmax grows with the square of the length, the others in proportion.",
        *over_lengths(lengths, bench),
    )
    yield Table(
        "One token more",
        f"A step after a text that was read. The heads and the latent attention are layers of "
        f"width {WIDTH} with their projections; the states are {WIDTH // D} heads without. The "
        "absorbed form of latent attention gives what the explicit one gives.",
        *one_more(lengths[1::2] or lengths, bench),
    )


if __name__ == "__main__":
    run_as_main(tables)
