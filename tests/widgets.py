"""One of each widget, for the tests here and in the browser; every call makes them anew."""

from collections.abc import Sequence

import torch
from torch import Tensor

import attn_widgets as widgets
from attn_notes import masks
from attn_notes.data import Vocabulary
from attn_notes.masks import causal_mask, masked_softmax
from attn_notes.scores import AdditiveScore, BilinearScore
from attn_notes.transformer import DecoderOnly, Transformer, TransformerConfig
from attn_widgets.base import BookWidget
from attn_widgets.encoding import decode, encode_roots
from tests.oracles import coin, rng

NAMED_MASKS = {
    "none": lambda L, S, size: torch.ones(L, S, dtype=torch.bool),
    "causal": lambda L, S, size: causal_mask(L, S),
    "window": lambda L, S, size: masks.sliding_window_mask(L, S, window=size),
    "prefix": lambda L, S, size: masks.prefix_mask(L, S, prefix=min(size, S)),
    "padding": lambda L, S, size: torch.arange(S).expand(L, S) < size,
    "block": lambda L, S, size: masks.block_mask(torch.arange(L) // size, torch.arange(S) // size),
}
"""The masks that the painter knows, by the package's own functions."""

WORDS = ("time", "flies", "like", "an", "arrow")


def scores(*shape: int, seed: int = 0) -> Tensor:
    return 2 * torch.randn(shape, generator=rng(seed), dtype=torch.float64)


def weights(*shape: int, seed: int = 0) -> Tensor:
    return scores(*shape, seed=seed).softmax(-1)


def gappy_mask(L: int, S: int) -> Tensor:
    """About half of the cells open, and the last row empty."""
    mask = coin(L, S, seed=3)
    mask[-1] = False
    return mask


def learned() -> dict[str, torch.nn.Module]:
    """The two scores with parameters, the same on every run."""
    modules = {"additive": AdditiveScore(2, 2, 3), "bilinear": BilinearScore(2, 2)}
    generator = rng(5)
    for module in modules.values():
        for parameter in module.parameters():
            parameter.data = torch.randn(parameter.shape, generator=generator)
    return modules


def near(width: float, causal: bool, falls: str, S: int = 5) -> Tensor:
    """A function to explore: weights of five queries that fall with the distance."""
    apart = (torch.arange(5.0)[:, None] - torch.arange(float(S))).abs() / width
    mask = causal_mask(5, S) if causal else None
    return masked_softmax(-apart if falls == "sharp" else -(apart**2), mask)


def of_scores(tokens: Sequence[str] = WORDS) -> widgets.AttentionHeatmap:
    n = len(tokens)
    numbers, mask = scores(3, n, n), gappy_mask(n, n)
    return widgets.AttentionHeatmap(
        scores=numbers, mask=mask, query_tokens=tokens, title="Three heads"
    )


def of_layers(tokens: Sequence[str] = WORDS) -> widgets.AttentionHeatmap:
    layers = list(weights(2, 3, 4, len(tokens)))
    return widgets.AttentionHeatmap(layers, [*"0123"], tokens, title=max(tokens))


def of_many() -> widgets.AttentionHeatmap:
    """Two heads of 72 queries and 150 keys, with weights of 0 and masked cells."""
    numbers = weights(2, 72, 150, seed=2)
    numbers[:, :, ::7] = 0
    mask = masks.sliding_window_mask(72, 150, window=60)
    mask[:, 100:] = True
    queries = [f"all of these begin alike {n}" for n in range(72)]
    return widgets.AttentionHeatmap(numbers, mask=mask, query_tokens=queries)


def of_points() -> widgets.KernelExplorer:
    generator = rng(1)
    x = 5 * torch.rand(20, generator=generator)
    y = x.sin() + torch.randn(20, generator=generator) / 5
    curve = torch.linspace(0, 5, 50)
    return widgets.KernelExplorer(x, y, query=2.0, bandwidth=0.3, truth=(curve, curve.sin()))


def of_arrows(tokens: Sequence[str] = WORDS) -> widgets.ScoreExplorer:
    keys = 3 * scores(len(tokens), 2).tanh()
    return widgets.ScoreExplorer((1.0, 0.6), keys, key_tokens=tokens, **learned())


def of_mask(tokens: Sequence[str] = WORDS) -> widgets.MaskPainter:
    n = len(tokens)
    return widgets.MaskPainter(scores(n, n), mask=causal_mask(n), query_tokens=tokens)


def of_function(tokens: Sequence[str] = WORDS) -> BookWidget:
    return widgets.explore(
        lambda **values: near(**values, S=len(tokens)),
        page=True,
        query_tokens=tokens[:5],
        key_tokens=tokens,
        title=min(tokens),
        width=(0.5, 2.0, 0.5),
        causal=False,
        falls=["round", "sharp"],
    )


def decoded(tokens: Sequence[str], *, seed: int = 0, group: str = "") -> widgets.Example:
    """Words turned round: untrained, an output too short and wrong; trained, the right one."""
    n, turned = len(tokens), [*reversed(tokens)]
    states = {
        "untrained": ([turned[0]] * 4, weights(4, n, seed=seed)),
        "trained": (turned, weights(n, n, seed=seed + 1)),
    }
    return widgets.Example(tokens, turned, states, group)


def of_steps(tokens: Sequence[str] = WORDS) -> widgets.AlignmentSteps:
    others = [decoded(["a", "b", "c"], seed=5, group="Letters"), decoded(tokens, seed=7)]
    widget = widgets.AlignmentSteps(
        [decoded(tokens, group=tokens[0]), *others], translate=lambda text: decoded(typed(text))
    )
    widget.step = min(1, len(tokens) - 1)
    return widget


def typed(text: str) -> list[str]:
    """A reader's words, where there is no question mark."""
    if "?" in text:
        raise ValueError(f"no word to begin with in {text!r}")
    return text.split()


def encoded(tokens: Sequence[str], *, seed: int = 0) -> widgets.Sentence:
    """Two layers of three heads on the tokens between [CLS] and [SEP]."""
    tokens = ["[CLS]", *tokens, "[SEP]"]
    return widgets.Sentence(tokens, as_sent(weights(2, 3, len(tokens), len(tokens), seed=seed)))


def as_sent(numbers: Tensor) -> Tensor:
    """Weights as a page gets them: it shows exactly these."""
    return decode(encode_roots(numbers))


def of_heads(tokens: Sequence[str] = WORDS) -> widgets.HeadExplorer:
    sentences = [encoded(tokens, seed=7), encoded(["a", "rose", "is", "a", "rose"], seed=5)]
    widget = widgets.HeadExplorer(
        [*sentences, encoded(["un", "##like", "##ly"])],
        title=max(tokens),
        encode=lambda text: encoded(typed(text), seed=3),
    )
    widget.pattern, widget.layer, widget.token = "previous", 1, 2
    return widget


def of_model(tokens: Sequence[str] = WORDS) -> widgets.HeadExplorer:
    """An encoder-decoder's three kinds of attention: two layers of three heads, and one of two."""
    source, target = [*tokens, "</s>"], ["<s>", *tokens[:2], "!"]
    S, L = len(source), len(target)
    outputs = {
        "encoder_attentions": as_sent(weights(2, 1, 3, S, S, seed=5)),
        "decoder_attentions": as_sent(masked_softmax(scores(1, 2, L, L, seed=6), causal_mask(L))),
        "cross_attentions": as_sent(weights(1, 2, L, S, seed=7)),
    }
    widget = widgets.show_attention(outputs, source, target, title=max(tokens))
    widget.pinned, widget.layer, widget.token = [1, 3], 1, 2
    return widget


def of_many_tokens(count: int = 70) -> widgets.HeadExplorer:
    """Causal heads that are too many to be sent whole: they come one by one."""
    tokens = ["<s>", *(f"\u0120word{n}" for n in range(count - 1))]
    mask = causal_mask(count)
    layers = [masked_softmax(scores(12, count, count, seed=n), mask).float() for n in range(12)]
    return widgets.show_attention([in_eight_bits(layer) for layer in layers], tokens)


def in_eight_bits(weights: Tensor) -> Tensor:
    """What eight bits keep of a weight: a power of it, and that it is not 0."""
    kept = ((weights**0.6 * 254).round() / 254) ** (5 / 3)
    return kept.clamp(min=1e-6).where(weights > 0, 0)


def of_positions() -> widgets.PositionExplorer:
    widget = widgets.PositionExplorer(8, 12, position=7)
    widget.pair = 0
    return widget


def levels(stack: Tensor, start: Tensor, layers: int) -> Tensor:
    """(layers + 1, L) bool: what is depended on at each level, from the tokens to the outputs."""
    step = (stack | torch.eye(len(stack)).bool()).double()
    below = [torch.linalg.matrix_power(step, layers - level) for level in range(layers + 1)]
    return torch.stack([start.double() @ power for power in below]) > 0


def wired(family: str, S: int, T: int, layers: int, picked: int) -> tuple[Tensor, Tensor]:
    """The mask of a family, and what its output at `picked` depends on at each level."""
    L = {"encoder-only": S, "decoder-only": S + 1}.get(family, S + T + 1)
    mask = masks.prefix_mask(L, prefix=0 if family == "decoder-only" else S)
    start = torch.arange(L) == picked
    if family != "encoder-decoder":
        return mask, levels(mask, start, layers)
    target = levels(causal_mask(T + 1), start[S:], layers)
    memory = start[:S] | target[1:].any()  # cross-attention has no mask
    return mask, torch.cat([levels(torch.ones(S, S).bool(), memory, layers), target], dim=1)


def of_family(tokens: Sequence[str] = WORDS) -> widgets.FamilyDiagram:
    """Words turned round, in the middle of the list of families."""
    return widgets.FamilyDiagram(tokens, [*reversed(tokens)], family="decoder-only")


def random_transformer(
    kind: type = Transformer, *, noise: float = 0.2, seed: int = 3, **changes: object
) -> Transformer | DecoderOnly:
    """Small, and with biases and norms that are anything but 0 and 1; the same on every run."""
    config = {"vocab_size": 17, "target_vocab_size": 23, "embed_dim": 24, "num_heads": 4}
    config |= {"num_layers": 2, "ffn_dim": 36, "norm": "pre", "activation": "relu"}
    config |= {"positions": "sinusoidal", "tie_embeddings": True, "scale_embeddings": True}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = kind(TransformerConfig(**(config | changes)))
    generator = rng(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            moved = torch.randn(parameter.shape, generator=generator)
            parameter.add_(moved, alpha=0.4 if parameter.dim() == 1 else noise)
    return model


def random_decoder(**changes: object) -> DecoderOnly:
    """A language model: it reads and writes one vocabulary."""
    return random_transformer(DecoderOnly, target_vocab_size=None, **changes).eval()


def translating(kind: type, tokens: Sequence[str], **given: object) -> BookWidget:
    """A widget with a random Transformer from digits to words, in two languages."""
    others = [token for token in dict.fromkeys(tokens) if token not in ("<fr>", "de")]
    source = Vocabulary([*"0123456789", "<fr>", "de", *others])
    target = Vocabulary(others)
    sizes = {"vocab_size": len(source), "target_vocab_size": len(target), "ffn_dim": 6}
    model = random_transformer(
        noise=0.9, seed=13, embed_dim=8, num_heads=2, tie_embeddings=False, **sizes
    )
    languages = {"de": max(tokens), "fr": "French"}
    titled = {"languages": languages, "examples": ("407", "1999"), "most": 7}
    return kind(model, source, target, **(titled | given))


def of_player(tokens: Sequence[str] = WORDS) -> widgets.TransformerPlayer:
    """At the first step of a translation."""
    widget = translating(widgets.TransformerPlayer, tokens)
    widget.step = 0
    return widget


def of_switches(tokens: Sequence[str] = WORDS) -> widgets.HeadSwitches:
    """Of twelve heads one is halved, and one writes its mean."""
    widget = translating(widgets.HeadSwitches, tokens, reference=("407", "1999", "5550123"))
    widget.head, widget.edits = "encoder.0.1", "encoder.0.1:0.5,cross.1.0:mean"
    return widget


def small_decoder(vocab: Vocabulary, **sizes: int) -> DecoderOnly:
    """A language model of two heads with learned positions."""
    kind = {"positions": "learned", "embed_dim": 8, "num_heads": 2, "tie_embeddings": False}
    return random_decoder(noise=0.5, seed=13, vocab_size=len(vocab), **kind, **sizes)


def of_writer(tokens: Sequence[str] = WORDS) -> widgets.LanguageModelPlayer:
    """A random language model on digits, white space and whole words; it reads six at a time."""
    vocab = Vocabulary(dict.fromkeys([*"0123456789 \n", *tokens]))
    model = small_decoder(vocab, ffn_dim=6, max_length=6)
    examples = ("407", "19\n")
    widget = widgets.LanguageModelPlayer(model, vocab, prompt="407", examples=examples, most=16)
    widget.seed, widget.said = 9, [12, 18, 12, 15, 18, 3]
    widget.top_k, widget.top_p, widget.position = 3, 0.9, 1
    return widget


def of_follow(tokens: Sequence[str] = WORDS) -> widgets.FollowToken:
    """A random language model of two blocks, with two heads, on a text that it has begun."""
    vocab = Vocabulary(dict.fromkeys(tokens))
    model = small_decoder(vocab, ffn_dim=12, max_length=64)
    widget = widgets.FollowToken(model, tokens, tokens[:2], vocab=vocab)
    widget.token = 2
    return widget


def of_online(tokens: Sequence[str] = WORDS) -> widgets.OnlineSoftmax:
    """Scores whose maximum moves late, one by one."""
    row = scores(len(tokens), seed=8).sort().values
    return widgets.OnlineSoftmax(row, scores(len(tokens), 2, seed=9), tile=1, tokens=tokens)


def of_memory(tokens: Sequence[str] = WORDS) -> widgets.WrittenMemory:
    """Nine keys of five numbers, of which the first have tokens as names."""
    names = [*tokens, *map(str, range(9))][:9]
    keys, values, again = scores(9, 5, seed=10), scores(9, 4, seed=11), scores(4, seed=12)
    widget = widgets.WrittenMemory(keys, values, again=again, tokens=names, sharpness=4.0)
    widget.count, widget.step, widget.query = 5, 1, 0.5
    return widget


def of_budget() -> widgets.CacheBudget:
    """Six heads of four numbers; the errors are made up, and all different."""
    errors = {
        "grouped": {1: 0.91, 2: 0.72, 3: 0.63, 6: 0.0},
        "latent": {3: 0.94, 6: 0.65, 12: 0.36, 24: 0.07},
        "window": {4: 0.85, 8: 0.46, 16: 0.27, 32: 0.08},
        "bits": {1: 0.97, 2: 0.58, 4: 0.19, 8: 0.01},
    }
    made = {"num_layers": 5, "group": 16, "num_tokens": 32, "measured": "nothing"}
    widget = widgets.CacheBudget(errors, num_heads=6, head_dim=4, **made)
    for name in ("kv_heads", "latent", "window", "bits"):
        setattr(widget, name, widget.data["errors"][name.replace("kv_heads", "grouped")][0][0])
    widget.length = 256
    return widget


_TOKENISED = (of_scores, of_layers, of_arrows, of_mask, of_function, of_steps, of_heads, of_model)
_TOKENISED += (of_player, of_writer, of_family, of_follow, of_online, of_switches, of_memory)
TOKENISED = {make.__name__.removeprefix("of_"): make for make in _TOKENISED}
"""Every widget that shows tokens, each a function of them."""

EVERY = {**TOKENISED, "points": of_points, "positions": of_positions, "budget": of_budget}
"""Every widget."""
