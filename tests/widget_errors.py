"""What the widgets refuse: tables that `test_widgets` runs through."""

from functools import partial

import torch
import traitlets

import attn_widgets as W
from attn_notes.data import Vocabulary
from attn_notes.scores import AdditiveScore
from attn_notes.transformer import Encoder, MaskedLanguageModel, TransformerConfig
from attn_widgets.packing import pack_transformer
from tests import widgets as made
from tests.widgets import random_decoder, random_transformer

NAN = float("nan")
EYE = torch.eye(2)
HEAD = EYE[None, None]
PAIR, GERMAN, WIDE = [0.0, 1.0], {"de": "German"}, AdditiveScore(3, 2, 4)
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


# (the call, a phrase of the message)
VALUES = [
    (heatmap(), "either weights or scores"),
    (heatmap(NAN * EYE), "weights must be finite"),
    (heatmap(torch.zeros(0, 3)), "not be empty"),
    (heatmap(torch.ones(2, 1, 2, 2)), "pass layers as a"),
    (heatmap(1.00011 * EYE), "weights must be from 0 to 1"),
    (heatmap(scores=FAR), "within 100 of one another"),
    (heatmap(EYE, query_tokens=["a"]), "query_tokens must be 2"),
    (heatmap(EYE, ["a", "b" * 10_001]), "at most 10000 characters"),
    (lambda: W.KernelExplorer(torch.ones(2), torch.ones(3)), "same shape (N,)"),
    (lambda: W.ScoreExplorer((4.0, 0.0), EYE), "must end within -3 to 3"),
    (lambda: W.ScoreExplorer((0, 0), EYE, additive=WIDE), "key_dim = 2"),
    (lambda: W.MaskPainter(torch.ones(2)), "must have 2 axes"),
    (lambda: W.explore(torch.eye, page=True, n=[1, 2]), "its shape (1, 1)"),
    (lambda: W.explore(lambda n: n * EYE, page=True, n=[1, 2]), "must be from 0 to 1"),
    *((lambda n=n: W.explore(flat, n=n), "positions") for n in ((1, 2, 0), (0.0, 1.0, 1e-9))),
    (lambda: trained([*"abc"], EYE), "'trained' must be (target, source)"),
    (lambda: trained(["a", "b"], [[1.0, 0.0], [0.5, 0.2]]), "a sum that differs by 0.3"),
    (lambda: W.HeadExplorer([(["a", "b", "c"], HEAD)]), "for 3 tokens"),
    (lambda: W.HeadExplorer([made.encoded("a"), (["b"], HEAD[..., :1, :1])]), "same layers and"),
    (online([0.0, NAN], EYE), "scores must be finite"),
    (online(torch.ones(65), torch.ones(65, 2)), "at most 64 keys"),
    (lambda: W.FamilyDiagram([], ["a"]), "source must be 1 to 64 tokens"),
    (lambda: W.PositionExplorer(7), "must be from 2 to 128"),
    (packed(positions="rotary"), "positions of a page must be among"),
    (packed(num_kv_heads=2), "shared or packed projections"),
    (lambda: pack_transformer(Encoder(TYPED)), "token types"),
    (lambda: pack_transformer(broken_transformer()), "must be finite"),
    (lambda: player_of(target_vocab=Vocabulary(["eins", "zwei"])), "the model's 5 ids"),
    (lambda: writer_of(vocab=Vocabulary([*"abc"])), "the model's 6 ids"),
    (followed, "give at least one sentence"),
    (lambda: followed([*"abc"]), "vocab_size = 2"),
    (lambda: followed(["a"], ["a"] * 4), "max_length"),
]
TYPES = [
    (heatmap(EYE * 1j), "must be real numbers"),
    (heatmap(EYE, mask=EYE), "mask must be a bool tensor"),
    (heatmap(EYE, query_tokens="ab"), "the one string 'ab'"),
    (lambda: W.explore(lambda n: HEAD, n=[1]), "(L, S)"),
    (lambda: W.explore(flat, n=3.5), "n=3.5"),
    (lambda: steps_of({"trained": (["a"], EYE)}, "ab"), "source must be a list of strings"),
    (lambda: steps_of({"trained": (["a"], EYE)}, reference=[1]), "reference must be strings"),
    (lambda: pack_transformer(MaskedLanguageModel(TransformerConfig(vocab_size=9))), "Masked"),
]
TRAITS = [
    (lambda: W.ScoreExplorer((0, 0), EYE, score="additive"), "'additive'"),
    (lambda: W.PositionExplorer(length=8, position=8), "position must be from 0 to 7"),
    (lambda: player_of(examples=["1" * 40], languages=GERMAN), "from 1 to 39 tokens"),
    (lambda: W.FollowToken(made.of_player(), "x"), "text must be made of known tokens"),
    (lambda: writer_of(prompt="abc"), "prompt must be made of known characters"),
]
# (what makes a widget, its trait, a value that it must not have, a phrase of the message)
SETTINGS = [
    (made.of_scores, "head", 3, "head must be from 0 to 2"),
    (lambda: W.explore(flat, n=[1, 2]), "values", {"m": 1}, "{'m': 1}"),
    (made.of_steps, "state", "overtrained", "'overtrained'"),
    (made.of_positions, "embed_dim", 12, "embed_dim must be one of"),
    (online(PAIR, EYE), "scores", [0.0], "scores must be 2 finite numbers"),
    *(
        (made.of_switches, "edits", edit, "from 0 to 2, or mean or other")
        for edit in (
            *("cross.1.0", "cross.1.0:", "cross.1.0:-1", "cross.1.0:2.1", "cross.1.0:1e0"),
            *("cross.2.0:0", "cross.1.2:0", "memory.0.0:0", "cross.1.0:off", " cross.1.0:0"),
        )
    ),
    (without_means, "edits", "cross.1.0:mean", "from 0 to 2, or other"),
    (made.of_switches, "head", "cross.1.2", "head must be one of"),
]


def setting(make, trait, value):
    return lambda: setattr(make(), trait, value)


WRONG = [
    *((call, ValueError, words) for call, words in VALUES),
    *((call, TypeError, words) for call, words in TYPES),
    *((call, traitlets.TraitError, words) for call, words in TRAITS),
    *((setting(*given), traitlets.TraitError, words) for *given, words in SETTINGS),
]
