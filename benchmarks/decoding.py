"""A decoder with its cache beside the reference library's `generate` with its own.

The same weights in both, and the same tokens, which is asserted first. In 32 bits on every device,
so that rounding changes no token. A last row times the matrix products that every way must do.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import GPT2LMHeadModel

from attn_notes.decoding import greedy
from attn_notes.pretrained import load_decoder
from attn_notes.transformer import DecoderOnly
from benchmarks.published import SIZES, V, a_pair, gpt2
from benchmarks.report import Bench, Table, here, interleaved, median, run_as_main, spread

PROMPT, SAID, ROUNDS = 16, (64, 512), 7
GOALS = {"ours": 1.5, "ours, compiled": 2.0}  # times the reference's speed
FLAT = 0.85  # speed over the long text by speed over the short one
WHY = (
    "most of a step beyond the products is torch's own cost of small operations and of calling "
    "modules."
)
# A step has the same shapes but for the length, which is symbolic, and the model stays as it is:
# to compare all of that again before each token would take an eighth of a step.
STEP = {
    "dynamic": True,
    "fullgraph": True,
    "options": {"guard_filter_fn": torch.compiler.skip_all_guards_unsafe, "cpp_wrapper": True},
}


def by_reference(model: GPT2LMHeadModel, prompt: Tensor, said: int) -> Tensor:
    whole = model.generate(
        prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=said, do_sample=False,
        use_cache=True, pad_token_id=V - 1,
    )  # fmt: skip
    return whole[:, prompt.shape[1] :]


def by_ours(model: Any, prompt: Tensor, said: int) -> Tensor:
    return greedy(model, prompt, max_length=said).tokens


class Slots:
    """A cache of fixed room, the first `length` of which is taken: nothing in it is ever moved."""

    def __init__(self, keys: Tensor, values: Tensor, length: int) -> None:
        self.keys, self.values, self.length = keys, values, length  # (B, H, room, D)

    def update(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        start, self.length = self.length, self.length + key.shape[2]
        self.keys[:, :, start : self.length] = key
        self.values[:, :, start : self.length] = value
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]


class Compiled:
    """A decoder whose step, the cache included, is one graph for one batch size and any length."""

    def __init__(self, model: DecoderOnly, **choices: Any) -> None:
        self.model, self.special_tokens = model, model.special_tokens
        self.advance_compiled = torch.compile(self.advance, **(STEP | choices))

    def advance(self, tokens: Tensor, room: list[tuple[Tensor, Tensor]], length: int) -> Tensor:
        caches = tuple(Slots(keys, values, length) for keys, values in room)
        return self.model(tokens, caches=caches).logits[:, -1]

    def start(self, source: Tensor, lengths: Tensor | None = None) -> Any:  # noqa: ARG002
        config = self.model.config
        shape = (2, len(source), config.num_heads, config.max_length, config.head_dim)
        rooms = [torch.empty(shape, device=source.device) for _ in range(config.num_layers)]
        room = [(keys, values) for keys, values in rooms]
        return self.advance(source, room, 0), (room, source.shape[1])

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        room, length = state
        return self.advance_compiled(tokens[:, None], room, length), (room, length + 1)


def products_alone(model: nn.Module, _: Tensor, said: int) -> None:
    """Each linear layer's product with one token, as often as tokens are generated."""
    given = [
        (torch.zeros(1, layer.in_features, device=layer.weight.device), layer.weight, layer.bias)
        for layer in model.modules()
        if isinstance(layer, nn.Linear)
    ]
    with torch.inference_mode():
        for _ in range(said):
            for x, weight, bias in given:
                F.linear(x, weight, bias)


def row(name: str, times: dict[tuple[str, int], list[float]], said: tuple[int, int]) -> list[str]:
    """Tokens a second, speed over the reference's, flatness, goals, and the products' share."""
    short, long = (times[name, n] for n in said)
    speeds = [
        spread([1000 * n / time for time in took])
        for n, took in zip(said, (short, long), strict=True)
    ]
    ratios = [
        [b / a for a, b in zip(times[name, n], times["reference", n], strict=True)] for n in said
    ]
    flat = [said[1] / b / (said[0] / a) for a, b in zip(short, long, strict=True)]
    met = "–"
    if name in GOALS:
        far = min(map(median, ratios)) >= GOALS[name], median(flat) >= FLAT
        met = (
            f"{GOALS[name]} {'met' if far[0] else 'missed'}, {FLAT} {'met' if far[1] else 'missed'}"
        )
    share = median(times["matrix products alone", said[0]]) / median(short)
    return [name, *speeds, *map(spread, ratios), spread(flat), f"{share:.2f}", met]


def tables(
    bench: Bench, sizes: dict[str, int] = SIZES, said: tuple[int, int] = SAID, **choices: Any
) -> Iterator[Table]:
    """The choices are those of `torch.compile`."""
    reference, ours = a_pair(gpt2, load_decoder, sizes)
    reference.to(bench.device)
    compiled = Compiled(ours.to(bench.device), **choices)
    rng = torch.Generator().manual_seed(0)
    prompt = torch.randint(V - 1, (1, PROMPT), generator=rng).to(bench.device)
    start = time.perf_counter()
    by_ours(compiled, prompt, 2)
    took = time.perf_counter() - start
    ways: dict[str, Callable[..., Any]] = {
        "reference": partial(by_reference, reference),
        "ours": partial(by_ours, ours),
        "ours, compiled": partial(by_ours, compiled),
    }
    for n in said:
        texts = [way(prompt, n) for way in ways.values()]
        assert texts[0].shape == (1, n), "the reference stopped early"
        assert all(torch.equal(text, texts[0]) for text in texts), "the texts differ"
    ways["matrix products alone"] = partial(products_alone, ours)
    work = {(name, n): partial(way, prompt, n) for name, way in ways.items() for n in said}
    times = interleaved(work, bench)
    yield Table(
        "Decoding with a cache",
        f"Tokens a second after a prompt of {PROMPT}, batch 1, {sizes['layers']} layers of width "
        f"{sizes['width']}, on one thread. A step is one token, so each matrix is read from memory "
        "for a single product. Where a matrix has more rows than columns, ours stores it by "
        "columns, as GPT-2's file does, which makes the product up to twice as fast. The last row "
        "does those products and nothing else: no way that reads each matrix can be faster, and "
        "its share of a step is the column *products*. The rest is small operations, each of which "
        "costs Python and torch several microseconds. Ours has fewer of them than the reference, "
        "and `torch.compile` fuses most of them and starts "
        f"the rest from C++ (it took {took:.0f} s once; the compiled step takes one batch size, "
        "and does not check again before each token that the model is unchanged). With more memory "
        "bandwidth the last row, and with a faster core all others, would change most.",
        ["", *(f"{n} tokens" for n in said), *(f"/ reference at {n}" for n in said),
         f"{said[1]} / {said[0]}", "products", "goals"],
        [row(name, times, said) for name in ways],
        WHY,
    )  # fmt: skip


if __name__ == "__main__":
    torch.set_num_threads(1)
    run_as_main(tables, replace(here(), dtype=torch.float32, rounds=ROUNDS))
