"""What the widgets refuse: tables that `test_widgets` runs through."""

from functools import partial

import torch
import traitlets

from attn_notes import widgets as W
from attn_notes.data import Vocabulary
from attn_notes.scores import AdditiveScore
from attn_notes.transformer import Encoder, MaskedLanguageModel, TransformerConfig
from attn_notes.widgets.packing import pack_transformer
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


# (the call, words of the message)
VALUES = [
    (heatmap(), "either weights or scores"),
    (heatmap(NAN * EYE), "weights must be finite, got NaN or infinity"),
    (heatmap(torch.zeros(0, 3)), "not be empty, got shape (0, 3)"),
    (heatmap(torch.ones(2, 1, 2, 2)), "of 2 layers or of a batch of 2 texts: pass layers as a"),
    (heatmap(1.00011 * EYE), "weights must be from 0 to 1, got 0 to 1.00011"),
    (heatmap(scores=FAR), "within 100 of one another, got -1.5e+308 to 1.5"),
    (heatmap(EYE, query_tokens=["a"]), "query_tokens must be 2, one a row or"),
    (heatmap(EYE, ["a", "b" * 10_001]), "at most 10000 characters, got"),
    (lambda: W.KernelExplorer(torch.ones(2), torch.ones(3)), "same shape (N,), got (2,) and (3,)"),
    (lambda: W.ScoreExplorer((1.0, 2.0, 3.0), EYE), "got (3,) and (2, 2)"),
    (lambda: W.ScoreExplorer((4.0, 0.0), EYE), "must end within -3 to 3, got 4"),
    (lambda: W.ScoreExplorer((0, 0), EYE, additive=WIDE), "key_dim = 2, got 3 and 2"),
    (lambda: W.MaskPainter(torch.ones(2)), "must have 2 axes and not be empty, got shape (2,)"),
    (lambda: W.explore(torch.eye, page=True, n=[1, 2]), "its shape (1, 1), got (2, 2) at {'n': 2}"),
    (lambda: W.explore(lambda n: n * EYE, page=True, n=[1, 2]), "at {'n': 2} must be from 0 to 1"),
    (lambda: W.explore(flat, n=[1], query_tokens=["a"]), "query_tokens must be 2"),
    *(
        (lambda n=n: W.explore(flat, n=n), f"from 2 to 37500 positions, got n={n}")
        for n in ((2, 1, 1), (1, 2, 0), (0, 1, 5), (0.0, 1.0, 1e-9))
    ),
    (lambda: trained([*"abc"], EYE), "'trained' must be (target, source) = (3, 2"),
    (lambda: trained(["a", "b"], [[1.0, 0.0], [0.5, 0.2]]), "got a sum that differs by 0.3"),
    (lambda: W.HeadExplorer([made.encoded("")]), "that is not special, got ['[CLS]', '[SEP]']"),
    (lambda: W.HeadExplorer([(["a", "b", "c"], HEAD)]), "heads, 3, 3) for 3 tokens, got (1,"),
    (lambda: W.HeadExplorer([made.encoded("a"), (["b"], HEAD[..., :1, :1])]), "same layers and"),
    (online([0.0, NAN], EYE), "scores must be finite, got NaN or infinity"),
    (online(PAIR, EYE[:1]), "(S, 2) with at most 64 keys, got (2,) and (1, 2)"),
    (online(torch.ones(65), torch.ones(65, 2)), "64 keys, got (65,) and (65, 2)"),
    (online(PAIR, EYE, tokens=["a"]), "tokens must be 2, one a row or"),
    (lambda: W.FamilyDiagram([], ["a"]), "source must be 1 to 64 tokens, got 0"),
    *((lambda n=n: W.PositionExplorer(n), f"must be from 2 to 128, got {n}") for n in (0, 7, 130)),
    (lambda: W.PositionExplorer(length=1), "length must be from 2 to 128, got 32 and 1"),
    (packed(positions="rotary"), "positions of a page must be among"),
    (packed(embed_norm=True), "a page has neither embed_norm"),
    (packed(num_kv_heads=2), "nor shared or packed projections, got Tr"),
    (packed(packed=True), "nor shared or packed projections, got Tr"),
    (lambda: pack_transformer(Encoder(TYPED)), "nor token types"),
    (lambda: pack_transformer(broken_transformer()), "must be finite, got NaN or infinity in enc"),
    (lambda: player_of(target_vocab=Vocabulary(["eins", "zwei"])), "the model's 5 ids, got 6"),
    (lambda: writer_of(vocab=Vocabulary([*"abc"])), "vocab must have the model's 6 ids, got 7"),
    (followed, "give at least one sentence, got none"),
    (lambda: followed([]), "must have 1 to 64 tokens, of at most vocab_size = 2 kinds, got [[]]"),
    (lambda: followed([*"abc"]), "of at most vocab_size = 2 kinds, got [['a', 'b', 'c']]"),
    (lambda: followed(["a"], ["a"] * 4), "max_length - 1 = 2"),
    (lambda: followed(["a"], vocab=Vocabulary(["a"])), "vocab must have the model's 2 ids, got 5"),
]
TYPES = [
    (heatmap(EYE * 1j), "must be real numbers, got torch.complex64"),
    (heatmap(EYE, mask=EYE), "mask must be a bool tensor"),
    (heatmap(EYE, query_tokens="ab"), "got the one string 'ab'"),
    (heatmap(EYE, query_tokens=[1, 2]), "must be strings, got int"),
    (lambda: W.MaskPainter(EYE, mask=EYE), "mask must be a bool tensor"),
    (lambda: W.explore(lambda n: HEAD, n=[1]), "(L, S), got (1, 1, 2, 2)"),
    (lambda: W.explore(flat, n=3.5), "got n=3.5"),
    (lambda: steps_of({"trained": (["a"], EYE)}, "ab"), "source must be a list of strings"),
    (lambda: steps_of({"trained": (["a"], EYE)}, reference=[1]), "reference must be strings"),
    (lambda: W.HeadExplorer([("ab", HEAD)]), "tokens must be a list of strings"),
    (lambda: W.FamilyDiagram("time flies", ["a"]), "source must be a list of strings"),
    (lambda: pack_transformer(MaskedLanguageModel(TransformerConfig(vocab_size=9))), "got Masked"),
    (lambda: followed("ab"), "tokens must be a list of strings, got the one string 'ab'"),
]
TRAITS = [
    (lambda: W.ScoreExplorer((0, 0), EYE, score="additive"), "dot, scaled_dot, gaussian, got 'add"),
    (lambda: W.PositionExplorer(length=8, position=8), "position must be from 0 to 7, got 8"),
    (lambda: player_of(examples=["1" * 40], languages=GERMAN), "from 1 to 39 tokens, got 40"),
    (lambda: W.FollowToken(made.of_player(), "x"), "text must be made of known tokens, got 'x'"),
    (lambda: writer_of(prompt="abc"), "prompt must be made of known characters, got 'c'"),
    (lambda: writer_of(prompt="ababa", most=4), "prompt must have at most 4 characters, got 5"),
]
# (what makes a widget, its trait, a value that it must not have, words of the message)
SETTINGS = [
    (made.of_scores, "head", 3, "head must be from 0 to 2, got 3"),
    *(
        (lambda: W.explore(flat, n=[1, 2]), "values", now, f"among {{'n': [1, 2]}}, got {now}")
        for now in ({"n": 3}, {"m": 1})
    ),
    (made.of_steps, "state", "overtrained", "untrained, trained, got 'overtrained'"),
    (made.of_positions, "distance", -12, "distance must be from -11 to 11, got -12"),
    (made.of_positions, "embed_dim", 12, "embed_dim must be one of 4, 8, 16, 32, 64, got 12"),
    (online(PAIR, EYE), "scores", [0.0], "scores must be 2 finite numbers, got [0.0]"),
    *(
        (made.of_switches, "edits", edit, f"from 0 to 2, or mean or other, got {edit!r}")
        for edit in (
            *("cross.1.0", "cross.1.0:", "cross.1.0:-1", "cross.1.0:2.1", "cross.1.0:1e0"),
            *("cross.2.0:0", "cross.1.2:0", "memory.0.0:0", "cross.1.0:off", " cross.1.0:0"),
        )
    ),
    (without_means, "edits", "cross.1.0:mean", "from 0 to 2, or other, got 'cross.1.0:mean'"),
    (made.of_switches, "head", "cross.1.2", "head must be one of encoder.0.0, encoder.0.1, "),
    (made.of_switches, "other", "x", "text must be made of known tokens, got 'x'"),
]


def setting(make, trait, value):
    return lambda: setattr(make(), trait, value)


WRONG = [
    *((call, ValueError, words) for call, words in VALUES),
    *((call, TypeError, words) for call, words in TYPES),
    *((call, traitlets.TraitError, words) for call, words in TRAITS),
    *((setting(*given), traitlets.TraitError, words) for *given, words in SETTINGS),
]
