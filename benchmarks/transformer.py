"""The blocks beside torch's own and the textbook's, and a training step beside `nn.Transformer`.

The same weights in all, and the outputs asserted equal first.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from attn_notes.masks import causal_mask, padding_mask
from attn_notes.training import masked_cross_entropy
from attn_notes.transformer import DecoderBlock, EncoderBlock, Transformer, TransformerConfig
from benchmarks import textbook
from benchmarks.report import Bench, Table, assert_same, cells, interleaved, run_as_main, verdict
from tests.torch_blocks import in_torch_names

V = 64
# (batch, length, width, heads, hidden width, layers): the page's model, a larger one, the paper's
# base model with fewer layers.
SHAPES = ((64, 12, 64, 4, 128, 2), (16, 64, 256, 4, 1024, 2), (4, 48, 512, 8, 2048, 2))
NAMES = "(B, L, E, H, hidden, layers)"
WHY_BLOCK = (
    "in inference torch runs an encoder's whole block as one function of its own in C++, and the "
    "textbook's block has no checks; both matter less, the larger the matrices."
)
WHY_STEP = "our three projections of each attention are one stacked product in torch."


class Torchs(nn.Module):
    """torch's Transformer between the embeddings and the logits of ours, with its weights."""

    def __init__(self, ours: Transformer) -> None:
        super().__init__()
        config = ours.config
        with warnings.catch_warnings():  # that pre-norm has no use for nested tensors
            warnings.simplefilter("ignore")
            self.core = nn.Transformer(
                config.embed_dim, config.num_heads, config.num_layers, config.num_layers,
                config.ffn_dim, config.dropout, config.activation, batch_first=True,
                norm_first=config.norm == "pre",
            )  # fmt: skip
        for theirs, half in ((self.core.encoder, ours.encoder), (self.core.decoder, ours.decoder)):
            for layer, block in zip(theirs.layers, half.blocks, strict=True):
                layer.load_state_dict(in_torch_names(block.state_dict()))
            theirs.norm = half.norm  # post-norm: torch would put one norm more on top
        self.embeddings = nn.ModuleList((ours.encoder.embeddings, ours.decoder.embeddings))
        self.out_proj = ours.out_proj

    def forward(self, source: Tensor, lengths: Tensor, inputs: Tensor) -> tuple[Tensor, None]:
        padding = ~padding_mask(lengths, source.shape[1], device=source.device)[:, 0]
        x = self.core(
            self.embeddings[0](source),
            self.embeddings[1](inputs),
            tgt_mask=~causal_mask(inputs.shape[1], device=source.device),
            tgt_is_causal=True,  # spares torch the mask
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
        )
        return self.out_proj(x), None


# ---------------------------------------------------------------- blocks


def three_blocks(
    shape: tuple[int, ...], is_decoder: bool, bench: Bench
) -> dict[str, tuple[nn.Module, Callable[..., Tensor]]]:
    """Of each the module, and its output for x and a memory."""
    _, length, width, heads, hidden, _ = shape
    sizes = {"embed_dim": width, "num_heads": heads, "ffn_dim": hidden}
    config = TransformerConfig(vocab_size=1, activation="relu", **sizes)
    ours = (DecoderBlock if is_decoder else EncoderBlock)(config)
    kind = nn.TransformerDecoderLayer if is_decoder else nn.TransformerEncoderLayer
    theirs = kind(width, heads, hidden, 0.0, batch_first=True)
    theirs.load_state_dict(in_torch_names(ours.state_dict()))
    plain = textbook.Block(width, heads, hidden, is_decoder=is_decoder)
    plain.load_state_dict(ours.state_dict())
    for module in (ours, theirs, plain):
        module.to(bench.device, bench.dtype)
    if not is_decoder:
        return {
            "ours": (ours, lambda x, _: ours(x)[0]),
            "torch": (theirs, lambda x, _: theirs(x)),
            "textbook": (plain, lambda x, _: plain(x)),
        }
    mask = causal_mask(length, device=bench.device)
    hidden_keys = ~mask  # torch's layer wants True where a key may not be read
    return {
        "ours": (ours, lambda x, memory: ours(x, memory)[0]),
        "torch": (
            theirs,
            lambda x, memory: theirs(x, memory, tgt_mask=hidden_keys, tgt_is_causal=True),
        ),
        "textbook": (plain, lambda x, memory: plain(x, memory, mask)),
    }


def call(
    module: nn.Module, forward: Callable[..., Tensor], inputs: list[Tensor], backward: bool
) -> list[Tensor]:
    """The output; with a backward pass, the gradient of x, after those of all parameters."""
    with torch.set_grad_enabled(backward):
        output = forward(*inputs)
    if not backward:
        return [output]
    wanted = [inputs[0], *module.parameters()]
    return [output, torch.autograd.grad(output, wanted, inputs[1])[0]]


def compare_blocks(
    shape: tuple[int, ...], is_decoder: bool, backward: bool, bench: Bench
) -> dict[str, list[float]]:
    """Milliseconds of each block, after asserting that all agree."""
    rng = torch.Generator().manual_seed(0)
    inputs = [torch.randn(shape[:3], generator=rng).to(bench.device, bench.dtype) for _ in range(2)]
    inputs[0].requires_grad_()
    work = {
        name: partial(call, module.train(backward), forward, inputs, backward)
        for name, (module, forward) in three_blocks(shape, is_decoder, bench).items()
    }
    assert_same({name: run() for name, run in work.items()})
    return interleaved(work, bench)


# ---------------------------------------------------------------- a training step


def a_model(shape: tuple[int, ...], **choices: Any) -> Transformer:
    _, _, width, heads, hidden, layers = shape
    sizes = {"embed_dim": width, "num_heads": heads, "ffn_dim": hidden, "num_layers": layers}
    return Transformer(TransformerConfig(vocab_size=V, positions="sinusoidal", **sizes, **choices))


def a_batch(shape: tuple[int, ...], device: torch.device) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Source, lengths, inputs, labels: half of the sources are padded to their last quarter."""
    rng = torch.Generator().manual_seed(0)
    batch, length = shape[:2]
    source, inputs, labels = (
        torch.randint(4, V, (batch, length), generator=rng).to(device) for _ in range(3)
    )
    lengths = torch.full((batch,), length)
    lengths[::2] -= length // 4
    return source, lengths, inputs, labels


def training_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, batch: tuple[Tensor, ...]
) -> list[Tensor]:
    """Forward, loss, backward, optimizer; the loss and the gradient of a table."""
    *given, labels = batch
    optimizer.zero_grad()
    loss = masked_cross_entropy(model(*given)[0], labels)
    loss.backward()
    optimizer.step()
    return [loss, model.out_proj.weight.grad]


def compare_steps(
    shape: tuple[int, ...], norm: Any, dropout: float, bench: Bench
) -> dict[str, list[float]]:
    """Milliseconds of a training step, after asserting that both models agree."""
    ours = a_model(shape, norm=norm, dropout=dropout)
    models = {"ours": ours, "torch": Torchs(ours)}
    batch = a_batch(shape, bench.device)
    work, logits = {}, {}
    for name, model in models.items():
        model.to(bench.device, bench.dtype)
        logits[name] = [model.eval()(*batch[:3])[0]]
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.0)  # the work, and the same weights
        work[name] = partial(training_step, model, optimizer, batch)
    assert_same(logits)
    for model in models.values():
        model.train()
    if not dropout:
        assert_same({name: run() for name, run in work.items()})
    return interleaved(work, bench)


def tables(bench: Bench, shapes: Sequence[tuple[int, ...]] = SHAPES) -> Iterator[Table]:
    torch.manual_seed(0)
    names, rows = ["ours", "torch", "textbook"], []
    for shape, is_decoder, backward in product(shapes, (False, True), (False, True)):
        times = compare_blocks(shape, is_decoder, backward, bench)
        kind = ["decoder" if is_decoder else "encoder", "both" if backward else "inference"]
        rows.append([str(shape[:5]), *kind, *cells(names, times), *verdict("ours", times)])
    last = ["ours / fastest other", "which", "1.05"]
    yield Table(
        "One block",
        "Milliseconds; *torch* is `nn.TransformerEncoderLayer` or `nn.TransformerDecoderLayer`. "
        "The products of the feed-forward network dominate and are the same in all. What remains "
        "is the attention, where a fused kernel wins, and the time that Python needs for each "
        "operation, where torch's function in C++ for an encoder's inference wins on small "
        "tensors. On a faster device that second share would grow.",
        ["(B, L, E, H, hidden)", "block", "pass", *names, *last],
        rows,
        WHY_BLOCK,
    )
    rows = []
    for shape, (norm, dropout) in product(shapes, (("post", 0.1), ("pre", 0.0))):
        times = compare_steps(shape, norm, dropout, bench)
        kind = [norm, str(dropout)]
        rows.append([str(shape), *kind, *cells(names[:2], times), *verdict("ours", times)])
    yield Table(
        "A training step of an encoder-decoder",
        "Milliseconds of forward pass, loss, backward pass and AdamW; *torch* is `nn.Transformer` "
        "between our embeddings and our output projection. The optimizer and the products are the "
        "same in both, so the two are within a fifth; dropout on the weights costs each of them a "
        "kernel that does not fuse on this device. On a GPU the fused kernel applies dropout "
        "itself, and the rows with dropout 0.1 would change most.",
        [NAMES, "norm", "dropout", *names[:2], *last],
        rows,
        WHY_STEP,
    )


if __name__ == "__main__":
    run_as_main(tables)
