"""A decoder with its cache beside the reference library's, both as they stand and both compiled.

The same weights in all, and the same tokens, which is asserted first. In 32 bits on every device,
so that rounding changes no token. `torch.compile` compiles one step of both; the reference has its
static cache then, with room for the text and no more, and its loop is no longer than ours, without
what `generate` does between steps. A last row times the matrix products that every way must do.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import GPT2LMHeadModel, StaticCache

from attn_notes.decoding import greedy
from attn_notes.pretrained import load_decoder
from attn_notes.transformer import DecoderOnly
from benchmarks.published import SIZES, V, a_pair, gpt2
from benchmarks.report import Bench, Table, here, interleaved, median, run_as_main, spread

PROMPT, SAID, ROUNDS = 16, (64, 512), 15
BESIDE = {"ours": "reference", "ours, compiled": "reference, compiled"}
GOALS = {"ours": 1.5, "ours, compiled": 1.0}  # times the speed of the one beside it
FLAT = 0.85  # speed over the long text by speed over the short one
WHY = (
    "most of a step beyond the products is torch's own cost of small operations and of calling "
    "modules; before a compiled step it checks in Python that all is as it was."
)


def by_reference(model: GPT2LMHeadModel, prompt: Tensor, said: int) -> Tensor:
    whole = model.generate(
        prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=said, do_sample=False,
        use_cache=True, pad_token_id=V - 1,
    )  # fmt: skip
    return whole[:, prompt.shape[1] :]


class CompiledReference:
    """The reference with a step that is compiled for a cache of fixed room, one for each length."""

    def __init__(self, model: GPT2LMHeadModel, said: tuple[int, ...], backend: str) -> None:
        self.model, self.step = model, torch.compile(model, dynamic=False, backend=backend)
        self.caches = {n: StaticCache(model.config, max_cache_len=PROMPT + n) for n in said}

    @torch.no_grad()
    def __call__(self, prompt: Tensor, said: int) -> Tensor:
        cache, tokens = self.caches[said], []
        cache.reset()
        logits = self.model(prompt, past_key_values=cache, logits_to_keep=1).logits
        for n in range(said):
            tokens.append(logits[:, -1].argmax(-1, keepdim=True))
            if n < said - 1:
                logits = self.step(tokens[-1], past_key_values=cache).logits
        return torch.cat(tokens, 1)


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


class Step(nn.Module):
    """The tokens after those in the cache: `past` (length,) is read for its size alone.

    Its size can be left open for the compiler; that of an integer only in part.
    """

    def __init__(self, model: DecoderOnly) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, room: list[tuple[Tensor, Tensor]], past: Tensor) -> Tensor:
        caches = tuple(Slots(keys, values, past.shape[0]) for keys, values in room)
        return self.model(tokens, caches=caches).logits[:, -1]


class Compiled:
    """A decoder whose step, the cache included, is compiled once for a text of any length."""

    def __init__(self, model: DecoderOnly, backend: str) -> None:
        self.config, self.special_tokens = model.config, model.special_tokens
        self.plain, self.device = Step(model), model.out_proj.weight.device
        self.compiled = torch.compile(self.plain, dynamic=False, backend=backend)

    def start(self, source: Tensor, lengths: Tensor | None = None) -> Any:  # noqa: ARG002
        config = self.config
        shape = (1, config.num_heads, config.max_length, config.proj_dim // config.num_heads)
        room = [
            (torch.empty(shape, device=self.device), torch.empty(shape, device=self.device))
            for _ in range(config.num_layers)
        ]
        return self.plain(source, room, torch.empty(0)), (room, source.shape[1])

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        room, length = state
        past = torch.empty(length, device=self.device)
        torch._dynamo.mark_dynamic(past, 0)
        return self.compiled(tokens[:, None], room, past), (room, length + 1)


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
    """Tokens a second, speed over the one beside it, flatness, the products' share, and goals."""
    short, long = (times[name, n] for n in said)
    speeds = [
        spread([1000 * n / time for time in took])
        for n, took in zip(said, (short, long), strict=True)
    ]
    beside = BESIDE.get(name, "reference")
    ratios = [[b / a for a, b in zip(times[name, n], times[beside, n], strict=True)] for n in said]
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
    bench: Bench, sizes: dict[str, int] = SIZES, said: tuple[int, int] = SAID,
    backend: str = "inductor",
) -> Iterator[Table]:  # fmt: skip
    reference, ours = (model.to(bench.device) for model in a_pair(gpt2, load_decoder, sizes))
    rng = torch.Generator().manual_seed(0)
    prompt = torch.randint(V - 1, (1, PROMPT), generator=rng).to(bench.device)
    ways: dict[str, Callable[..., Any]] = {
        "reference": partial(by_reference, reference),
        "ours": partial(by_ours, ours),
        "reference, compiled": CompiledReference(reference, said, backend),
        "ours, compiled": partial(by_ours, Compiled(ours, backend)),
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
        "costs Python and torch several microseconds, and of which ours has fewer. `torch.compile` "
        "fuses most of them. Each of ours is compared with the reference beside it: plain with "
        "`generate` as it stands, compiled with the reference compiled, its static cache and a "
        "loop no longer than ours. That cache attends to all of its room, which is as long as the "
        "text; ours to what is taken. The other rows are compared with the reference as it stands. "
        "With more memory bandwidth the last row, and with a faster "
        "core all others, would change most.",
        ["", *(f"{n} tokens" for n in said), *(f"/ beside it at {n}" for n in said),
         f"{said[1]} / {said[0]}", "products", "goals"],
        [row(name, times, said) for name in ways],
        WHY,
    )  # fmt: skip


if __name__ == "__main__":
    torch.set_num_threads(1)
    run_as_main(tables, replace(here(), dtype=torch.float32, rounds=ROUNDS))
