"""The reference library's GPT-2 and BERT beside ours, which load the weights that it writes."""

import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from torch import Tensor, nn
from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel
from transformers.utils import logging

from attn_notes.pretrained import load_decoder, load_masked_language_model
from benchmarks.report import Bench, Table, cells, compared, run_as_main, verdict

V = 512
SIZES = {"layers": 6, "width": 256, "heads": 8, "longest": 1024}
SHAPE = (4, 128)  # (B, L)
WHY = "where weights are asked for, our masked softmax makes one more pass to keep empty rows at 0."


def gpt2(sizes: dict[str, int]) -> GPT2LMHeadModel:
    return GPT2LMHeadModel(
        GPT2Config(
            n_layer=sizes["layers"], n_embd=sizes["width"], n_head=sizes["heads"], vocab_size=V,
            n_positions=sizes["longest"], bos_token_id=V - 1, eos_token_id=V - 1,
        )
    )  # fmt: skip


def bert(sizes: dict[str, int]) -> BertForMaskedLM:
    return BertForMaskedLM(
        BertConfig(
            num_hidden_layers=sizes["layers"], hidden_size=sizes["width"], vocab_size=V,
            num_attention_heads=sizes["heads"], max_position_embeddings=sizes["longest"],
            intermediate_size=4 * sizes["width"],
        )
    )  # fmt: skip


def a_pair(build: Callable[..., Any], load: Callable[..., Any], sizes: dict[str, int]) -> Any:
    """The reference and ours, with one set of weights."""
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    torch.manual_seed(0)
    reference = build(sizes)
    with torch.no_grad():
        for parameter in reference.parameters():
            if parameter.dim() > 1:
                parameter.mul_(4)  # as they begin, it would predict one token again and again
    with tempfile.TemporaryDirectory() as folder:
        reference.save_pretrained(folder)
        words = Tokenizer(WordLevel({f"word {n}": n for n in range(V)}))
        words.save(str(Path(folder, "tokenizer.json")))
        return reference.eval(), load(folder)[0]


def by_reference(model: nn.Module, tokens: Tensor, need_weights: bool) -> list[Tensor]:
    read = model(tokens, output_attentions=need_weights)
    return [read.logits, *(read.attentions if need_weights else ())]


def by_ours(model: nn.Module, tokens: Tensor, need_weights: bool) -> list[Tensor]:
    read = model(tokens, need_weights=need_weights)
    return [read.logits, *(read.weights if need_weights else ())]


def call(
    run: Callable[..., list[Tensor]], model: nn.Module, tokens: Tensor, need_weights: bool,
    backward: bool,
) -> list[Tensor]:  # fmt: skip
    """Logits, weights and, after a backward pass, the gradient of the tokens' table."""
    with torch.set_grad_enabled(backward):
        results = run(model, tokens, need_weights)
    if backward:
        model.zero_grad()
        results[0].square().mean().backward()
        results.append(next(model.parameters()).grad)
    return [result.detach() for result in results]


def tables(
    bench: Bench, sizes: dict[str, int] = SIZES, shape: tuple[int, int] = SHAPE
) -> Iterator[Table]:
    rng = torch.Generator().manual_seed(0)
    # Not 0, which the reference takes for padding: it gives that row of the table no gradient.
    tokens = torch.randint(1, V - 1, shape, generator=rng).to(bench.device)
    names, rows = ["ours", "reference"], []
    kinds = (("GPT-2", gpt2, load_decoder), ("BERT", bert, load_masked_language_model))
    for (name, build, load), need_weights in product(kinds, (False, True)):
        reference, ours = a_pair(build, load, sizes)
        if need_weights:
            reference.set_attn_implementation("eager")  # no other kernel returns them
        ways = {"ours": (by_ours, ours), "reference": (by_reference, reference)}
        for backward in (False, True):
            work = {
                way: partial(
                    call, run, model.to(bench.device, bench.dtype), tokens, need_weights, backward
                )
                for way, (run, model) in ways.items()
            }
            times = compared(work, bench)
            kind = ["yes" if need_weights else "no", "both" if backward else "inference"]
            rows.append([name, *kind, *cells(names, times), *verdict("ours", times)])
    batch, length = shape
    yield Table(
        "Published models",
        f"Milliseconds for {batch} sequences of {length} tokens, {sizes['layers']} layers of width "
        f"{sizes['width']}; the reference is the library `transformers` with torch's fused kernel, "
        "or, where weights are asked for, with its own softmax. The matrices are the same, so what "
        "differs is the number of operations around them. The rows with weights would change most "
        "on a GPU, where passes over the scores are cheaper than here.",
        ["model", "weights", "pass", *names, "ours / reference", "which", "1.05"],
        rows,
        WHY,
    )


if __name__ == "__main__":
    run_as_main(tables)
