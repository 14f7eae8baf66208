"""The exercises of chapter 7: norms, sublayers, a block, its work, and a piece after a cache."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from attn_exercises.base import AUTOGRAD, compare, draw, exercise, of_function, pair, refuse
from attn_notes.checks.properties import CheckFailed
from attn_notes.device import get_device
from attn_notes.transformer import DecoderBlock, TransformerConfig


@of_function
def norm_gradient(answer: Any) -> None:
    """The gradient at the input of LayerNorm, from the one at its output."""
    x, g, gamma = draw((3, 7), (3, 7), (7,), seed=5)
    size = torch.tensor([[2.0], [2.0], [3e-3]], device=x.device)  # the last feels where eps is
    x, g = size * (x + 0.5), size * g
    mistakes = {
        "x moves sigma too: the part along the unit vector is missing": _back(x, gamma, g, along=0),
        "x moves the mean too: the mean of u is missing": _back(x, gamma, g, mean=0),
        "the gain is missing: u is gamma times g": _back(x, torch.ones_like(gamma), g),
        "means are over the features, not over the positions": _back(x, gamma, g, axis=-2),
        "the variance divides by E, not by E - 1": _back(x, gamma, g, fewer=1),
    }
    compare(answer(x, gamma, g), _back(x, gamma, g), "the gradient", mistakes)
    mistakes = {"eps is an argument, and the answer uses 1e-5 instead": _back(x, gamma, g)}
    right, case = _back(x, gamma, g, eps=0.5), "eps = 0.5: "
    compare(answer(x, gamma, g, 0.5), right, "the gradient", mistakes, case)
    refuse(answer, AUTOGRAD, "do without autograd")


def _back(
    x: Tensor, gamma: Tensor, g: Tensor, *, eps: float = 1e-5, axis: int = -1, **but: int
) -> Tensor:
    """The gradient at x, or what a mistake makes of it."""
    centred, u = x - x.mean(axis, keepdim=True), gamma * g
    sigma = (x.var(axis, correction=but.get("fewer", 0), keepdim=True) + eps).sqrt()
    hat = centred / sigma
    along = but.get("along", 1) * (u * hat).mean(axis, keepdim=True) * hat
    return (u - but.get("mean", 1) * u.mean(axis, keepdim=True) - along) / sigma


@of_function
def add_and_norm(answer: Any) -> None:
    """The stream after a sublayer, pre-norm and post-norm."""
    x, w, gain, shift = draw((2, 5, 5), (5, 5), (5,), (5,), seed=6)

    norm, plain = nn.LayerNorm(5, device=x.device), nn.LayerNorm(5, device=x.device)
    norm.requires_grad_(False)
    norm.weight.data, norm.bias.data = gain, shift

    def f(x: Tensor) -> Tensor:
        return torch.tanh(x @ w)

    pre, post = x + f(norm(x)), norm(x + f(x))
    own = "norm is an argument, with a gain and a shift: use it, and no norm of your own"
    mistakes = {
        own: x + f(plain(x)),
        "pre-norm adds to the stream itself, not to what was normalised": norm(x) + f(norm(x)),
        "first is true, and that is post-norm": post,
        "the stream is missing: what f writes is added to it": f(norm(x)),
        "the norm is missing: f reads norm(x)": x + f(x),
    }
    compare(answer(x, f, norm, True), pre, "pre-norm", mistakes)
    mistakes = {
        own: plain(x + f(x)),
        "post-norm normalises the sum, not only what f writes": x + norm(f(x)),
        "first is false, and that is pre-norm": pre,
        "in post-norm f reads the stream itself, not norm(x)": norm(x + f(norm(x))),
        "the norm is missing: post-norm normalises the sum": x + f(x),
    }
    compare(answer(x, f, norm, False), post, "post-norm", mistakes)


@of_function
def block_flops(answer: Any) -> None:
    """The work of an encoder block from its sizes alone."""
    for (L, E, m), (H, G) in product(((5, 24, 32), (30, 16, 12)), ((4, 4), (4, 1), (8, 2))):
        full, shared, between = 2 * L * E * E, 2 * L * E * E * G // H, 2 * L * L * E
        right = 2 * full + 2 * shared + 2 * between + 4 * L * E * m
        biases, more = L * (2 * E + 2 * E * G // H + m + E), 4 * E - m
        mistakes = {
            "a multiplication and an addition are two operations": right / 2,
            "the feed-forward network has two matrices": right - 2 * L * E * m,
            "keys and values are projected to G heads, not to H": right + 2 * full - 2 * shared,
            "G saves nothing in the products between positions": right - 2 * between * (1 - G / H),
            "the width inside the feed-forward network is m, not 4E": right + 4 * L * E * more,
            "two products are between positions: scores and weighted sums": right - between,
            "the products between positions are missing": right - 2 * between,
            "an encoder block has one attention, not two": right + 2 * (full + shared + between),
            "biases are left out, as in torch's counter": right + biases,
        }
        case = f"with L = {L}, E = {E}, m = {m}, {H} heads, {G} for keys and values: "
        compare(answer(L, E, m, H, G), right, "the work", mistakes, case)


@of_function
def piece_after_cache(answer: Any) -> None:
    """The positions of new words and the keys that they may read, when others are cached."""
    for cached, new in ((2, 4), (3, 2), (0, 3), (5, 1)):
        places, mask = pair(answer(cached, new), "the positions and the mask")
        case = f"with {cached} cached and {new} new: "
        keys, first = torch.arange(cached + new, device="cpu"), torch.arange(new, device="cpu")
        right = first + cached
        mistakes = {
            "the cached words come first: a new word does not stand at position 0": first,
            "positions count from 0: the first new word stands where the cached ones end": right
            + 1,
            "only the new words need positions: the cached ones have theirs": keys,
        }
        compare(places, right, "the positions", mistakes, case)
        causal = keys <= right[:, None]
        mistakes = {
            "the cached words are keys too: the mask is (new, cached + new)": causal[:, cached:],
            "the cached words come first: the diagonal begins at column cached": (
                keys <= first[:, None]
            ),
            "a new word must not read the words after it": torch.ones_like(causal),
            "a new word may read itself": keys < right[:, None],
            "the mask lets a new word read one word too far": keys <= right[:, None] + 1,
            "queries are rows and keys are columns": causal.T,
            "True means that a word may read": ~causal,
        }
        compare(mask, causal, "the mask", mistakes, case)


@of_function
def linear_work(answer: Any) -> None:
    """The FLOPs of every linear layer, by hooks."""
    kind = nn.modules.linear.NonDynamicallyQuantizableLinear  # as in nn.MultiheadAttention
    parts = nn.Linear(3, 5), nn.LayerNorm(5), nn.Sequential(kind(5, 2))
    model = nn.Sequential(*parts).to("meta")
    other = model[0].register_forward_hook(lambda *_: None)  # somebody else's
    x, calls = torch.empty(2, 7, 3, device="meta"), []
    got = answer(model, lambda: calls.append([model(x), model(x[0, :5])]))
    tables = ((layer._forward_hooks, layer._forward_pre_hooks) for layer in model.modules())
    left = [hook for several in tables for table in several for hook in table]
    if other.id not in left:
        raise CheckFailed("a hook that was there before is gone: remove your own alone")
    if left != [other.id]:
        raise CheckFailed("a hook is still in the model: each handle has a remove()")
    if len(calls) != 1:
        raise CheckFailed(f"run() should be called once, and was called {len(calls)} times")
    if not isinstance(got, Mapping):
        raise CheckFailed(f"the answer must return a dictionary, got {type(got).__name__}")
    if {*got} != {"0", "2.0"}:
        raise CheckFailed(f"the names are '0' and '2.0', a subclass in a container: got {[*got]}")
    for name, width, right in (("0", 3, 570), ("2.0", 5, 380)):
        mistakes = {
            "the bias is left out here, as in torch's counter": right + right // (2 * width),
            "a multiplication and an addition are two operations": right // 2,
            "each position of each sequence is a vector of its own": right * 7 // 19,
            "the sequences of a batch count, too": right * 12 // 19,
            "the calls should be summed, and this is the last one": right * 5 // 19,
            "the calls should be summed, and this is the first one": right * 14 // 19,
        }
        compare(got[name], right, "the work", mistakes, case=f"layer {name}: ")
    refuse(answer, {"FlopCounterMode"}, "write the counter yourself: one hook for each layer")


@of_function
def count_parameters(answer: Any) -> None:
    """The parameters of the chapter's Transformer, from its sizes."""
    for V, E, n in ((50, 64, 2), (11, 8, 3)):
        attention, network = 4 * (E * E + E), 8 * E * E + 5 * E
        encoder, decoder = attention + network + 4 * E, 2 * attention + network + 6 * E
        right = 3 * V * E + n * (encoder + decoder) + 4 * E
        mistakes = {
            "the decoder's block has two attentions": right - n * attention,
            "linear layers inside the blocks have biases": right - n * (3 * 4 * E + 2 * 5 * E),
            "a norm has a gain and a shift: 2E": right - n * 5 * E - 2 * E,
            "the norms are missing": right - n * 10 * E - 4 * E,
            "each stream ends with a norm, too": right - 4 * E,
            "source and target have an embedding each": right - V * E,
            "the last matrix, from E to V, is missing": right - V * E,
            "the last matrix has no bias": right + V,
            "there are n blocks on each side": right - (n - 1) * (encoder + decoder),
            "the feed-forward network has two matrices": right - n * 2 * (4 * E * E + E),
        }
        case = f"with V = {V}, E = {E}, n = {n}: "
        compare(answer(V, E, n), right, "the number", mistakes, case)


@exercise
def decoder_block(answer: Any) -> None:
    """A decoder's block written from memory, beside the package's with the same parameters."""
    E = 8
    config = TransformerConfig(
        vocab_size=1, embed_dim=E, num_heads=2, ffn_dim=4 * E, norm="pre", activation="relu"
    )
    configs = {
        "right": config,
        "post": replace(config, norm="post"),
        "one head": replace(config, num_heads=1),
    }
    blocks = {name: DecoderBlock(one).to(get_device()) for name, one in configs.items()}
    mine = answer(E, 2).to(get_device())
    x, memory = draw((2, 4, E), (2, 3, E), seed=7)
    for block in blocks.values():
        _fill(block, {name: name for name, _ in block.named_parameters()})
    _fill(mine, _names_on_the_page(blocks["right"]))
    causal = torch.ones(4, 4, dtype=torch.bool, device=x.device).tril()
    mask = torch.tensor([[1, 1, 1], [1, 1, 0]], device=x.device).bool()[:, None, None]
    with torch.no_grad():
        got = mine(x, memory, causal, mask)
        right = blocks["right"](x, memory, memory_mask=mask)[0]
        open_, unread = torch.ones_like(causal), torch.ones_like(mask)
        mistakes = {
            "each part reads the stream through a norm, and the sum has none": blocks["post"](
                x, memory, memory_mask=mask
            )[0],
            "the heads are missing: each reads with weights of its own": blocks["one head"](
                x, memory, memory_mask=mask
            )[0],
            "self-attention needs the causal mask": _sums(blocks["right"], x, memory, open_, mask),
            "cross-attention needs the memory's mask": _sums(
                blocks["right"], x, memory, causal, unread
            ),
            "the stream is missing: each part is added to it": _sums(
                blocks["right"], x, memory, causal, mask, stream=0
            ),
            "the scores are divided by the root of a head's width": _sums(
                _unscaled(blocks["right"]), x, memory, causal, mask
            ),
        }
    compare(got, right, "the block's output", mistakes)


def _names_on_the_page(block: nn.Module) -> dict[str, str]:
    """The names of the parameters, with an `nn.Sequential` for the feed-forward network."""
    places = {"feed_forward.linear1": "feed_forward.0", "feed_forward.linear2": "feed_forward.2"}
    names = {}
    for name, _ in block.named_parameters():
        module, _, last = name.rpartition(".")
        names[name] = f"{places.get(module, module)}.{last}"
    return names


def _fill(block: nn.Module, names: dict[str, str]) -> None:
    """The same random parameters for every block; raise where one is missing or another is left."""
    own = dict(block.named_parameters())
    for missing in sorted(set(names.values()) - own.keys()):
        raise CheckFailed(f"the block has no parameter named {missing}")
    for more in sorted(own.keys() - set(names.values())):
        raise CheckFailed(f"the block has a parameter too many: {more}")
    for n, name in enumerate(sorted(names)):
        parameter = own[names[name]]
        parameter.data = draw(tuple(parameter.shape), seed=n)[0] / 2


def _sums(
    block: Any, x: Tensor, memory: Tensor, causal: Tensor, mask: Tensor, *, stream: int = 1
) -> Tensor:
    """The block's three sums, with masks that may be wrong ones, and perhaps without the stream."""
    x = stream * x + block.self_attn(block.norm1(x), attn_mask=causal)[0]
    x = stream * x + block.cross_attn(block.norm2(x), memory, attn_mask=mask)[0]
    return stream * x + block.feed_forward(block.norm3(x))


def _unscaled(block: Any) -> Any:
    """The same block with scores that are not divided by the root of the head's width."""
    other = deepcopy(block)
    for attention in (other.self_attn, other.cross_attn):
        for parameter in attention.q_proj.parameters():
            parameter.data *= (len(attention.q_proj.weight) / attention.num_heads) ** 0.5
    return other
