"""What the widgets refuse: `test_widgets` makes each of these calls."""

from functools import partial

import torch

import attn_widgets as W
from attn_notes.data import Vocabulary
from attn_notes.transformer import Encoder, MaskedLanguageModel, TransformerConfig
from attn_widgets.packing import pack_transformer
from tests import widgets as made
from tests.widgets import random_decoder, random_transformer

NAN = float("nan")
EYE = torch.eye(2)
HEAD = EYE[None, None]
without_means = partial(made.translating, W.HeadSwitches, ("a", "b"))
TYPED = TransformerConfig(vocab_size=9, num_token_types=2)
FAR = torch.tensor([[-1.5e308, 1.5e308]], dtype=torch.float64)


def heatmap(*given, **options):
    return lambda: W.AttentionHeatmap(*given, **options)


def online(*given, **options):
    return lambda: W.OnlineSoftmax(*given, **options)


def packed(**changes):
    return lambda: pack_transformer(random_transformer(**changes))


def flat(**_):
    return torch.full((2, 2), 0.5)


def steps_of(states, source=("a", "b"), reference=("c",)) -> W.AlignmentSteps:
    return W.AlignmentSteps([W.Example(source, reference, states)])


def trained(target, weights) -> W.AlignmentSteps:
    return steps_of({"trained": (target, weights)})


def player_of(**given) -> W.TransformerPlayer:
    """Digits and one German word."""
    digits, words = Vocabulary([*"0123456789", "<de>"]), Vocabulary(["eins"])
    given = {"source_vocab": digits, "target_vocab": words, "examples": ["1"]} | given
    model = random_transformer(vocab_size=15, target_vocab_size=5, embed_dim=8, num_heads=2)
    return W.TransformerPlayer(model, **given)


def writer_of(**given: object) -> W.LanguageModelPlayer:
    """The letters a and b, and eight learned positions."""
    given = {"vocab": Vocabulary([*"ab"]), "prompt": "ab"} | given
    learned = random_decoder(vocab_size=6, positions="learned", max_length=8)
    return W.LanguageModelPlayer(given.pop("model", learned), given.pop("vocab"), **given)


def followed(
    *sentences: object, vocab: Vocabulary | None = None, **changes: object
) -> W.FollowToken:
    """An encoder of two tokens and three learned positions."""
    sizes = {"vocab_size": 2, "embed_dim": 8, "num_heads": 2, "max_length": 3}
    return W.FollowToken(Encoder(TransformerConfig(**(sizes | changes))), *sentences, vocab=vocab)


def broken_transformer():
    model = random_transformer()
    with torch.no_grad():
        model.encoder.norm.bias[1] = torch.nan
    return model


def setting(make, trait, value):
    return lambda: setattr(make(), trait, value)


# What would fail obscurely, or show what is not so.
WRONG = [
    heatmap(),
    heatmap(NAN * EYE),
    heatmap(EYE * 1j),
    heatmap(torch.zeros(0, 3)),
    heatmap(torch.ones(2, 1, 2, 2)),  # of several texts
    heatmap(1.00011 * EYE),
    heatmap(scores=FAR),
    heatmap(EYE, mask=EYE),
    heatmap(EYE, query_tokens=["a"]),
    heatmap(EYE, query_tokens="ab"),
    heatmap(EYE, ["a", "b" * 10_001]),
    lambda: W.AlignmentSteps([W.Example(["a"], ["b"], {"x": (["b"], EYE[:1, :1])})], example=1),
    lambda: W.AlignmentSteps([W.Example(["a"], ["b"], {"x": (["b"], EYE[:1, :1])})], step=-1),
    lambda: W.KernelExplorer(torch.ones(2), torch.ones(3)),
    lambda: W.ScoreExplorer((4.0, 0.0), EYE),
    lambda: W.ScoreExplorer((0, 0), EYE, score="additive"),
    lambda: W.MaskPainter(torch.ones(2)),
    lambda: W.explore(torch.eye, page=True, n=[1, 2]),  # another shape
    lambda: W.explore(lambda n: n * EYE, page=True, n=[1, 2]),
    lambda: W.explore(lambda n: HEAD, n=[1]),
    *(lambda n=n: W.explore(flat, n=n) for n in (3.5, (1, 2, 0), (0.0, 1.0, 1e-9))),
    setting(lambda: W.explore(flat, n=[1, 2]), "values", {"m": 1}),
    lambda: trained([*"abc"], EYE),
    lambda: trained(["a", "b"], [[1.0, 0.0], [0.5, 0.2]]),
    lambda: steps_of({"trained": (["a"], EYE)}, "ab"),
    lambda: steps_of({"trained": (["a"], EYE)}, reference=[1]),
    setting(made.of_steps, "state", "overtrained"),
    lambda: W.HeadExplorer([(["a", "b", "c"], HEAD)]),
    lambda: W.HeadExplorer([made.encoded("a"), (["b"], HEAD[..., :1, :1])]),
    setting(made.of_scores, "head", 3),
    online([0.0, NAN], EYE),
    online(torch.ones(65), torch.ones(65, 2)),
    setting(online([0.0, 1.0], EYE), "scores", [0.0]),
    lambda: W.FamilyDiagram([], ["a"]),
    lambda: W.PositionExplorer(7),
    lambda: W.PositionExplorer(length=8, position=8),
    setting(made.of_positions, "embed_dim", 12),
    packed(positions="rotary"),
    packed(num_kv_heads=2),
    lambda: pack_transformer(Encoder(TYPED)),
    lambda: pack_transformer(MaskedLanguageModel(TransformerConfig(vocab_size=9))),
    lambda: pack_transformer(broken_transformer()),
    lambda: player_of(target_vocab=Vocabulary(["eins", "zwei"])),
    lambda: player_of(examples=["1" * 40], languages={"de": "German"}),
    lambda: writer_of(vocab=Vocabulary([*"abc"])),
    lambda: writer_of(prompt="abc"),
    followed,
    lambda: followed([*"abc"]),
    lambda: followed(["a"], ["a"] * 4),
    lambda: W.FollowToken(made.of_player(), "x"),
    *(
        setting(made.of_switches, "edits", edit)
        for edit in (
            *("cross.1.0", "cross.1.0:", "cross.1.0:-1", "cross.1.0:2.1", "cross.1.0:1e0"),
            *("cross.2.0:0", "cross.1.2:0", "memory.0.0:0", "cross.1.0:off", " cross.1.0:0"),
        )
    ),
    setting(without_means, "edits", "cross.1.0:mean"),
    setting(made.of_switches, "head", "cross.1.2"),
]
