"""A decoder with its cache beside the reference library's `generate` with its own.

The same weights in both: the library writes a small GPT-2, and `load_decoder` reads it. The same
tokens too, which is asserted first. One thread, and a round of each in turn, so that a busy moment
hits all alike. Last comes what `torch.compile` adds to ours.
"""

import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.utils import logging

from attn_notes.decoding import greedy
from attn_notes.pretrained import load_decoder
from attn_notes.transformer import DecoderOnly
from benchmarks.report import interleaved, print_load, print_table

V, PROMPT, LONGEST = 512, 16, 1024
SAID = (64, 512)
ROUNDS = 11
GOALS = "goals: ours/reference 1.30, at 512 tokens 0.80 of those at 64; compiled/reference 2.00"


def a_pair(folder: Path) -> tuple[GPT2LMHeadModel, DecoderOnly]:
    """The reference and ours, with one set of weights."""
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    torch.manual_seed(0)
    sizes = {"n_layer": 6, "n_embd": 256, "n_head": 8, "n_positions": LONGEST, "vocab_size": V}
    reference = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=V - 1, eos_token_id=V - 1))
    with torch.no_grad():
        for parameter in reference.parameters():
            if parameter.dim() > 1:
                parameter.mul_(4)  # as they begin it would say one token again and again
    reference.save_pretrained(folder)
    Tokenizer(WordLevel({f"word {n}": n for n in range(V)})).save(str(folder / "tokenizer.json"))
    return reference.eval(), load_decoder(folder)[0]


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
    """A decoder whose step, the cache included, is one graph for every length."""

    def __init__(self, model: DecoderOnly) -> None:
        self.model, self.special_tokens = model, model.special_tokens
        self.advance_compiled = torch.compile(self.advance, dynamic=True, fullgraph=True)

    def advance(self, tokens: Tensor, room: list[tuple[Tensor, Tensor]], length: int) -> Tensor:
        caches = tuple(Slots(keys, values, length) for keys, values in room)
        return self.model(tokens, caches=caches).logits[:, -1]

    def start(self, source: Tensor, lengths: Tensor | None = None) -> Any:  # noqa: ARG002
        config = self.model.config
        shape = (len(source), config.num_heads, LONGEST, config.head_dim)
        room = [(torch.zeros(shape), torch.zeros(shape)) for _ in range(config.num_layers)]
        return self.advance(source, room, 0), (room, source.shape[1])

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        room, length = state
        return self.advance_compiled(tokens[:, None], room, length), (room, length + 1)


def main() -> None:
    torch.set_num_threads(1)
    print(f"1 thread, torch {torch.__version__}")
    print_load()
    with tempfile.TemporaryDirectory() as folder:
        reference, ours = a_pair(Path(folder))
    rng = torch.Generator().manual_seed(0)
    prompt = torch.randint(V - 1, (1, PROMPT), generator=rng)
    compiled = Compiled(ours)
    start = time.perf_counter()
    by_ours(compiled, prompt, 2)
    print(f"torch.compile took {time.perf_counter() - start:.0f} s")
    ways = {
        "reference": partial(by_reference, reference),
        "ours": partial(by_ours, ours),
        "ours, compiled": partial(by_ours, compiled),
    }
    work = {(name, said): partial(way, prompt, said) for name, way in ways.items() for said in SAID}
    for said in SAID:
        texts = [work[name, said]() for name in ways]
        assert texts[0].shape == (1, said), "the reference stopped early"
        assert all(torch.equal(text, texts[0]) for text in texts), "the texts differ"
    took = interleaved(work, torch.device("cpu"), rounds=ROUNDS)  # milliseconds
    speed = {key: 1000 * key[1] / time for key, time in took.items()}
    print(f"\ntokens a second after a prompt of {PROMPT}, median of {ROUNDS} interleaved rounds")
    short, long = SAID
    rows = []
    for name in ways:
        pace, slower = [speed[name, said] for said in SAID], speed[name, long] / speed[name, short]
        ratios = [speed[name, said] / speed["reference", said] for said in SAID]
        rows.append(
            [name, *(f"{x:.0f}" for x in pace), f"{slower:.2f}", *(f"{x:.2f}" for x in ratios)]
        )
    header = ["", *(f"{said} tokens" for said in SAID), f"{long}/{short}"]
    print_table([*header, *(f"/reference at {said}" for said in SAID)], rows)
    print(GOALS)


if __name__ == "__main__":
    main()
