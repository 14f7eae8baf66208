"""The Transformer beside torch's own, and decoding with a cache beside decoding without.

The same weights in both, and the outputs asserted equal first. One process, a round of each in
turn, so that a busy moment hits all alike.
"""

import warnings
from functools import partial
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from attn_notes import get_device
from attn_notes.masks import padding_mask
from attn_notes.training import masked_cross_entropy
from attn_notes.transformer import Transformer, TransformerConfig
from benchmarks.report import ROUNDS, interleaved, print_load, print_table

V = 64
# (batch, length, width, heads, hidden width, layers): the page's model, a larger one, the paper's
# base model with fewer layers.
SHAPES = ((64, 12, 64, 4, 128, 2), (16, 64, 256, 4, 1024, 2), (4, 48, 512, 8, 2048, 2))
DECODED = (1, 32, 128, 4, 512, 2)  # a shape as above, `length` that of the source
AFTER = (64, 128, 256, 512, 1024)  # so many tokens, one token more
# With a cache a step reads the weights of each block, some 14 E² numbers, and 2 E for each token
# before it: the time is flat as long as the first outweigh the second.
GOALS = "goals: ours/torch 1.05; with a cache the slowest step at most 1.5 of the fastest"


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
                layer.load_state_dict(in_torch_names(block))
            theirs.norm = half.norm  # post-norm: torch would put one norm more on top
        self.embeddings = nn.ModuleList((ours.encoder.embeddings, ours.decoder.embeddings))
        self.out_proj = ours.out_proj

    def forward(self, source: Tensor, lengths: Tensor, inputs: Tensor) -> tuple[Tensor, None]:
        padding = ~padding_mask(lengths, source.shape[1], device=source.device)[:, 0]
        length = inputs.shape[1]
        x = self.core(
            self.embeddings[0](source),
            self.embeddings[1](inputs),
            tgt_mask=self.core.generate_square_subsequent_mask(length, device=source.device),
            tgt_is_causal=True,  # spares torch the mask
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
        )
        return self.out_proj(x), None


def in_torch_names(block: nn.Module) -> dict[str, Tensor]:
    """The state of one of our blocks, as torch's layer wants it."""
    ours_to_theirs = {"cross_attn": "multihead_attn", "feed_forward.": ""}
    state = {}
    for ours, tensor in block.state_dict().items():
        theirs = ours
        for old, new in ours_to_theirs.items():
            theirs = theirs.replace(old, new)
        state[theirs] = tensor
    for query in [name for name in state if "q_proj" in name]:
        parts = [state.pop(query.replace("q_proj", f"{part}_proj")) for part in "qkv"]
        state[query.replace("q_proj.", "in_proj_")] = torch.cat(parts)
    return state


def a_model(shape: tuple[int, ...], **choices: Any) -> Transformer:
    _, _, width, heads, hidden, layers = shape
    torch.manual_seed(0)
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


def measure_training(
    shape: tuple[int, ...], norm: Any, dropout: float, device: torch.device
) -> dict[str, float]:
    """Median milliseconds of a training step, after asserting that both models say the same."""
    ours = a_model(shape, norm=norm, dropout=dropout)
    models = {"ours": ours.to(device), "torch": Torchs(ours).to(device)}
    batch = a_batch(shape, device)
    logits = [model.eval()(*batch[:3])[0] for model in models.values()]
    torch.testing.assert_close(*logits, rtol=1e-4, atol=1e-4)
    work = {}
    for name, model in models.items():
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.0)  # the work, and the same weights
        work[name] = partial(training_step, model.train(), optimizer, batch)
    if not dropout:
        torch.testing.assert_close(work["ours"](), work["torch"](), rtol=1e-3, atol=1e-5)
    return interleaved(work, device)


class Decoding:
    """A sequence that is being decoded with a cache: each call is one token more."""

    def __init__(self, model: Transformer, token: Tensor, state: Any) -> None:
        self.model, self.token, self.state = model, token, state

    def __call__(self) -> None:
        _, self.state = self.model.step(self.token, self.state)


@torch.no_grad()
def measure_decoding(device: torch.device) -> tuple[list[float], list[float]]:
    """Median milliseconds of one token more, with a cache and without, after so many tokens.

    Without a cache it costs a pass over all that there are. Those passes have rounds of their own:
    they would push out of the processor's caches what the short steps need.
    """
    model = a_model(DECODED, norm="pre").to(device).eval()
    source, lengths, *_ = a_batch(DECODED, device)
    rng = torch.Generator().manual_seed(0)
    tokens = torch.randint(4, V, (1, AFTER[-1] + 1), generator=rng).to(device)
    wanted = model(source, lengths, tokens)[0]
    state = model.initial_state(source, lengths)
    cached, uncached = {}, {}
    for n, token in enumerate(tokens.unbind(1)):
        if n in AFTER:
            cached[str(n)] = Decoding(model, token, state)
            uncached[str(n)] = partial(model, source, lengths, tokens[:, : n + 1])
        logits, state = model.step(token, state)
        torch.testing.assert_close(logits, wanted[:, n], rtol=1e-4, atol=1e-5)
    with_cache, without = (interleaved(work, device) for work in (cached, uncached))
    return [*with_cache.values()], [*without.values()]


def main() -> None:
    device = get_device()
    print(f"device {device}, {torch.get_num_threads()} threads, torch {torch.__version__}")
    print_load()
    rows = []
    for shape, (norm, dropout) in product(SHAPES, (("post", 0.1), ("pre", 0.0))):
        times = measure_training(shape, norm, dropout, device)
        numbers = [f"{times[name]:.1f}" for name in ("ours", "torch")]
        ratio = f"{times['ours'] / times['torch']:.2f}"
        rows.append([str(shape), norm, str(dropout), *numbers, ratio])
    print(f"a training step, median milliseconds of {ROUNDS} interleaved rounds")
    shape_names = "(batch, length, width, heads, hidden, layers)"
    print_table([shape_names, "norm", "dropout", "ours", "torch", "ours/torch"], rows)
    cached, uncached = measure_decoding(device)
    print(f"\ndecoding one sequence, {DECODED}, tokens a second")
    rows = [
        [str(n), f"{1000 / with_cache:.0f}", f"{1000 / without:.0f}", f"{without / with_cache:.1f}"]
        for n, with_cache, without in zip(AFTER, cached, uncached, strict=True)
    ]
    print_table(["after so many tokens", "cached", "uncached", "cached/uncached"], rows)
    print(f"with a cache, slowest step over fastest: {max(cached) / min(cached):.2f}")
    print(GOALS)


if __name__ == "__main__":
    main()
