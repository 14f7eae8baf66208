"""What the widgets refuse: tables that `test_widgets` runs through."""

import torch
import traitlets

from attn_notes.data import END, START, Vocabulary
from attn_notes.scores import AdditiveScore, BilinearScore
from attn_notes.transformer import Encoder, Transformer, TransformerConfig
from attn_notes.widgets import (
    AlignmentSteps,
    AttentionHeatmap,
    Example,
    FamilyDiagram,
    HeadExplorer,
    KernelExplorer,
    LanguageModelPlayer,
    MaskPainter,
    PositionExplorer,
    ScoreExplorer,
    SpellingAttention,
    TransformerPlayer,
    assets,
    explore,
)
from attn_notes.widgets.encoding import encode_mask
from attn_notes.widgets.packing import pack_transformer
from tests.widgets import (
    encoded,
    of_arrows,
    of_family,
    of_heads,
    of_mask,
    of_player,
    of_points,
    of_positions,
    of_scores,
    of_steps,
    random_decoder,
    random_transformer,
    typed,
)

INF, NAN = float("inf"), float("nan")
EYE = torch.eye(2)
HEAD = EYE[None, None]
FAR = torch.tensor([[-1.5e308, 1.5e308]], dtype=torch.float64)
SIGNED = torch.tensor([[2.0, -1.0], [0.5, 0.5]])


def flat(**_):
    return torch.full((2, 2), 0.5)


def steps_of(states, source=("a", "b"), reference=("c",)) -> AlignmentSteps:
    return AlignmentSteps([Example(source, reference, states)])


def trained(target, weights) -> AlignmentSteps:
    return steps_of({"trained": (target, weights)})


def player_of(**given) -> TransformerPlayer:
    """Digits and one German word."""
    digits, words = Vocabulary([*"0123456789", "<de>"]), Vocabulary(["eins"])
    given = {"source_vocab": digits, "target_vocab": words} | given
    model = random_transformer(vocab_size=15, target_vocab_size=5, embed_dim=8, num_heads=2)
    return TransformerPlayer(model, **given)


def writer_of(**given: object) -> LanguageModelPlayer:
    """The letters a and b, and eight learned positions."""
    given = {"vocab": Vocabulary([*"ab"]), "prompt": "ab"} | given
    learned = random_decoder(vocab_size=6, positions="learned", max_length=8)
    return LanguageModelPlayer(given.pop("model", learned), given.pop("vocab"), **given)


def broken_transformer():
    model = random_transformer()
    with torch.no_grad():
        model.encoder.norm.bias[1] = torch.nan
    return model


# (the call, words of the message)
VALUES = [
    (AttentionHeatmap, "either weights or scores"),
    (lambda: AttentionHeatmap(EYE, scores=EYE), "got both or neither"),
    (lambda: AttentionHeatmap(NAN * EYE), "weights must be finite, got nan at (0, 0)"),
    (lambda: AttentionHeatmap(scores=[[0.0, -INF]]), "scores must be finite, got -inf at (0, 1)"),
    (lambda: AttentionHeatmap(torch.zeros(0, 3)), "not be empty, got shape (0, 3)"),
    (lambda: AttentionHeatmap(torch.ones(3)), "2 or 3 or 4 axes and not be empty, got shape (3,)"),
    (lambda: AttentionHeatmap(torch.ones(1, 1, 1, 1, 1)), "got shape (1, 1, 1, 1, 1)"),
    (lambda: AttentionHeatmap(1.5 * EYE), "weights must be from 0 to 1, got 0 to 1.5"),
    (lambda: AttentionHeatmap(1.00011 * EYE), "weights must be from 0 to 1, got 0 to 1.00011"),
    (lambda: AttentionHeatmap(EYE - 0.5), "weights must be from 0 to 1, got -0.5 to 0.5"),
    (lambda: AttentionHeatmap([torch.ones(2, 3, 1, 1)]), "one sequence, (1, H, L, S), got (2, 3,"),
    (lambda: AttentionHeatmap(scores=FAR), "within 100 of one another, got -1.5e+308 to 1.5e+308"),
    (lambda: AttentionHeatmap(EYE, mask=torch.ones(2, 3) > 0), "mask (2, 3) and weights (2, 2)"),
    (lambda: AttentionHeatmap(EYE, query_tokens=["a"]), "query_tokens must be 2, one a row or"),
    (lambda: AttentionHeatmap(EYE, key_tokens=["a", "b", "c"]), "key_tokens must be 2"),
    (lambda: KernelExplorer(torch.ones(2), torch.ones(3)), "same shape (N,), got (2,) and (3,)"),
    (lambda: KernelExplorer(torch.ones(0), torch.ones(0)), "axes and not be empty"),
    (lambda: KernelExplorer(torch.ones(2, 2), torch.ones(2, 2)), "must have 1 axes"),
    (lambda: KernelExplorer([0.0], [0.0], bandwidth=NAN), "bandwidth must be a finite number"),
    (lambda: KernelExplorer([0.0], [0.0], query=NAN), "query must be a finite number, got nan"),
    (
        lambda: KernelExplorer([0.0], [0.0], truth=(torch.ones(2), torch.ones(3))),
        "truth must have the same shape (N,), got (2,) and (3,)",
    ),
    (lambda: ScoreExplorer((1.0, 2.0, 3.0)), "got (3,) and (5, 2)"),
    (lambda: ScoreExplorer((4.0, 0.0)), "must end within -3 to 3, got 4"),
    (lambda: ScoreExplorer(keys=torch.ones(4, 3)), "got (2,) and (4, 3)"),
    (lambda: ScoreExplorer(keys=torch.ones(0, 2)), "keys must have 2 axes and not be empty"),
    (lambda: ScoreExplorer(additive=AdditiveScore(3, 2, 4)), "key_dim = 2, got 3 and 2"),
    (lambda: MaskPainter(torch.ones(2)), "must have 2 axes and not be empty, got shape (2,)"),
    (lambda: explore(flat), "at least one control"),
    (lambda: explore(torch.eye, n=[1, 2]), "keep its shape (1, 1), got (2, 2) at {'n': 2}"),
    (lambda: explore(lambda n: NAN * EYE, n=[1]), "weights at {'n': 1} must be finite"),
    (lambda: explore(lambda n: n * EYE, n=[1, 2]), "at {'n': 2} must be from 0 to 1, got 0 to 2"),
    (lambda: explore(flat, n=[1], query_tokens=["a"]), "query_tokens must be 2"),
    (lambda: explore(flat, n=(2, 1, 1)), "low < high and step > 0, got n=(2, 1, 1)"),
    (lambda: explore(flat, n=(1, 2, 0)), "step > 0"),
    (lambda: explore(flat, n=[1, True]), "choices must differ"),
    (lambda: explore(flat, n=(0, 1, 5)), "from 2 to 100000 positions"),
    (lambda: explore(flat, n=(0.0, 1.0, 1e-9)), "from 2 to 100000 positions"),
    (lambda: AlignmentSteps([]), "list of at least one Example"),
    (lambda: AlignmentSteps(typed("a")), "list of at least one Example"),
    (lambda: steps_of({}), "states must hold at least one"),
    (lambda: steps_of([(["a"], EYE)]), "such as {'trained': (target, weights)}"),
    (lambda: steps_of({"trained": (["a"], EYE)}, []), "source must hold at least one token"),
    (lambda: trained([], EYE), "the target of 'trained' must hold at least one token"),
    (
        lambda: trained(["a", "b", "c"], torch.full((2, 3), 1 / 3)),
        "the weights of 'trained' must be (target, source) = (3, 2), got (2, 3)",
    ),
    (lambda: trained(["a", "b"], HEAD), "weights of 'trained' must have 2 axes"),
    (lambda: trained(["a", "b"], NAN * EYE), "the weights of 'trained' must be finite"),
    (lambda: trained(["a", "b"], SIGNED), "from 0 to 1, got -1 to 2"),
    (lambda: trained(["a", "b"], [[1.0, 0.0], [0.5, 0.2]]), "sum to 1, got a sum of 0.7 at (1,)"),
    (lambda: HeadExplorer([]), "at least one (tokens, weights)"),
    (lambda: HeadExplorer(encoded("ab")), "a list of at least one (tokens, weights)"),
    (lambda: HeadExplorer([encoded("")]), "that is not special, got ['[CLS]', '[SEP]']"),
    (lambda: HeadExplorer([([], HEAD)]), "a token that is not special, got []"),
    (lambda: HeadExplorer([(["a", "b"], EYE)]), "weights must have 4 axes"),
    (lambda: HeadExplorer([(["a", "b", "c"], HEAD)]), "heads, 3, 3) for 3 tokens, got (1,"),
    (lambda: HeadExplorer([(["a", "b"], HEAD / 2)]), "sum to 1, got a sum of 0.5 at (0, 0, 0)"),
    (lambda: HeadExplorer([(["a", "b"], SIGNED[None, None])]), "from 0 to 1, got -1 to 2"),
    (
        lambda: HeadExplorer([encoded("ab"), (["a", "b"], HEAD)]),
        "the same layers and heads, got weights (2, 3, 4, 4) and (1, 1, 2, 2)",
    ),
    (lambda: FamilyDiagram([], ["a"]), "source must be 1 to 64 tokens, got 0"),
    (lambda: FamilyDiagram(["a"], ["b"] * 65), "target must be 1 to 64 tokens, got 65"),
    (lambda: FamilyDiagram(["a", "b"], ["c"], masked=2), "masked must be from 0 to 1, got 2"),
    *(
        (lambda width=width: PositionExplorer(width), f"even, from 2 to 128, got {width}")
        for width in (0, 7, 130)
    ),
    (lambda: PositionExplorer(length=1), "length must be a whole number from 2 to 128, got 1"),
    (lambda: PositionExplorer(length=2.5), "got 2.5"),
    (lambda: PositionExplorer(base=0), "from 1 to 1e+09, got 0"),
    (lambda: PositionExplorer(base=NAN), "got nan"),
    (lambda: PositionExplorer(learned=NAN * torch.ones(64, 2)), "learned must be finite"),
    (lambda: PositionExplorer(learned=torch.ones(32, 8)), "length = 64, got (32, 8)"),
    (lambda: PositionExplorer(learned=torch.ones(64, 7)), "up to 128), length = 64, got"),
    (lambda: assets.module_source("nosuch"), "must be one of heatmap, "),
    *(
        (lambda model=model: pack_transformer(model()), words)
        for model, words in (
            (
                lambda: random_transformer(positions="rotary"),
                "or 'sinusoidal' for a page",
            ),
            (lambda: random_transformer(embed_norm=True), "embed_norm must be False for a page"),
            (lambda: random_transformer(num_kv_heads=2), "num_kv_heads = 2 and num_heads = 4"),
            (broken_transformer, "must be finite, got NaN or infinity in encoder.norm.bias"),
            (lambda: random_decoder(positions="rotary"), "for a page, got 'rotary'"),
        )
    ),
    (lambda: player_of(target_vocab=Vocabulary(["eins", "zwei"])), "the model's 5 ids, got 6"),
    (lambda: player_of(languages={"fr": "French"}), "such as '<de>', got 'fr'"),
    (lambda: player_of(most=0), "most must be at least 1, got 0"),
    (lambda: writer_of(vocab=Vocabulary([*"abc"])), "vocab must have the model's 6 ids, got 7"),
    (lambda: writer_of(most=0), "most must be at least 1, got 0"),
    (lambda: writer_of(context=0), "context must be from 1 to max_length, 8, got 0"),
    (lambda: writer_of(context=9), "context must be from 1 to max_length, 8, got 9"),
]
TYPES = [
    (lambda: AttentionHeatmap([["a"]]), "must be a tensor of numbers, got list"),
    (lambda: AttentionHeatmap(EYE * 1j), "must be real numbers, got torch.complex64"),
    (lambda: AttentionHeatmap(EYE, mask=EYE), "mask must be a bool tensor"),
    (lambda: AttentionHeatmap(EYE, mask=[[True]]), "got list"),
    (lambda: AttentionHeatmap(EYE, query_tokens="ab"), "got the one string 'ab'"),
    (lambda: AttentionHeatmap(EYE, query_tokens=[1, 2]), "must be strings, got int"),
    (lambda: ScoreExplorer(additive=BilinearScore(2, 2)), "additive must be AdditiveScore"),
    (lambda: MaskPainter(EYE, mask=EYE), "mask must be a bool tensor"),
    (lambda: explore(lambda n: [[1.0]], n=[1]), "weights of shape (L, S), got list"),
    (lambda: explore(lambda n: HEAD, n=[1]), "(L, S), got (1, 1, 2, 2)"),
    (lambda: explore(flat, n=(1, 2)), "three finite numbers (low, high, step), got n=(1, 2)"),
    (lambda: explore(flat, n=("a", "b", "c")), "(low, high, step)"),
    (lambda: explore(flat, n=(0, INF, 1)), "three finite numbers"),
    (lambda: explore(flat, n=(0, 1, NAN)), "three finite numbers"),
    (lambda: explore(flat, n=[]), "a list of choices, or True/False, got n=[]"),
    (lambda: explore(flat, n=3.5), "got n=3.5"),
    (lambda: explore(flat, n=[[1]]), "a menu holds finite numbers or strings"),
    (lambda: explore(flat, n=[NAN]), "a menu holds finite numbers or strings"),
    (lambda: AlignmentSteps([(["a"], ["b"])]), "an example must be an Example, got tuple"),
    (lambda: steps_of({"trained": ["a", "b"]}), "(target, weights), got list 'trained'"),
    (lambda: steps_of({"trained": (["a"], EYE)}, "ab"), "source must be a list of strings"),
    (lambda: steps_of({"trained": (["a"], EYE)}, reference=[1]), "reference must be strings"),
    (lambda: trained([1, 2], EYE), "the target of 'trained' must be strings, got int"),
    (lambda: AlignmentSteps([typed("a")], translate="de"), "translate must be a function, got str"),
    (lambda: HeadExplorer([["a"]]), "a sentence must be (tokens, weights), got list"),
    (lambda: HeadExplorer([encoded("ab")[::-1]]), "a sentence must be (tokens, weights)"),
    (lambda: HeadExplorer([("ab", HEAD)]), "tokens must be a list of strings"),
    (lambda: HeadExplorer([encoded("ab")], encode="de"), "encode must be a function, got str"),
    (lambda: FamilyDiagram("time flies", ["a"]), "source must be a list of strings"),
    (lambda: FamilyDiagram(["a"], [7]), "target must be strings, got int"),
    (lambda: PositionExplorer(learned=["a"]), "tensor of numbers"),
    (lambda: encode_mask(EYE), "got torch.float32"),
    (lambda: pack_transformer(Encoder(TransformerConfig(vocab_size=9))), "got Encoder"),
    (
        lambda: TransformerPlayer(random_decoder(), Vocabulary([]), Vocabulary([])),
        "model must be a Transformer, got DecoderOnly",
    ),
    (lambda: player_of(source_vocab=["1"]), "source_vocab must be a Vocabulary, got list"),
    (
        lambda: writer_of(model=Transformer(TransformerConfig(vocab_size=6))),
        "model must be a DecoderOnly, got Transformer",
    ),
    (lambda: writer_of(vocab="ab"), "vocab must be a Vocabulary, got str"),
]
TRAITS = [
    (lambda: KernelExplorer([0.0], [0.0], kernel="cosine"), "cosine"),
    (lambda: KernelExplorer([0.0], [0.0], bandwidth=0), "bandwidth"),
    (lambda: KernelExplorer([0.0], [0.0], bandwidth=101), "bandwidth"),
    (lambda: ScoreExplorer(score="cosine"), "cosine"),
    (lambda: ScoreExplorer(score="additive"), "dot, scaled_dot, gaussian, got 'additive'"),
    (lambda: ScoreExplorer(temperature=0.0), "temperature"),
    (lambda: SpellingAttention(["a"]), "text"),
    (lambda: SpellingAttention(temperature=0), "temperature"),
    (lambda: FamilyDiagram(family="decoder"), "family"),
    (lambda: FamilyDiagram(num_layers=0), "num_layers"),
    (lambda: FamilyDiagram(num_layers=7), "num_layers"),
    (lambda: PositionExplorer(scheme="relative"), "rotary, alibi, got 'relative'"),
    (lambda: PositionExplorer(scheme="learned"), "got 'learned'"),
    (lambda: PositionExplorer(length=8, position=8), "position must be from 0 to 7, got 8"),
    (lambda: player_of(text="one"), "text must be made of known tokens, got 'one'"),
    (lambda: player_of(examples=("1", "4x")), "text must be made of known tokens, got '4x'"),
    (lambda: player_of(text=" "), "text must have from 1 to 40 tokens, got 0"),
    (lambda: player_of(examples=()), "text must have from 1 to 40 tokens, got 0"),
    (
        lambda: player_of(text="1" * 40, languages={"de": "German"}),
        "text must have from 1 to 39 tokens, got 40",
    ),
    (
        lambda: player_of(text="<de>", languages={"de": "German"}),
        "text must be made of known tokens, got '<de>'",
    ),
    (lambda: writer_of(prompt="abc"), "prompt must be made of known characters, got 'c'"),
    (lambda: writer_of(examples=("ab", "\u00fc")), "of known characters, got '\u00fc'"),
    (lambda: writer_of(prompt="ababa", most=4), "prompt must have at most 4 characters, got 5"),
]
# (what makes a widget, its trait, a value that it must not have, words of the message)
SETTINGS = [
    (of_scores, "head", 3, "head must be from 0 to 2, got 3"),
    (of_scores, "head", -1, "got -1"),
    (of_scores, "layer", 1, "layer must be from 0 to 0, got 1"),
    (of_scores, "temperature", 0.0, "temperature"),
    (of_points, "point", 20, "point must be from 0 to 19, got 20"),
    (of_arrows, "arrow", 5, "arrow must be from -1 to 4, got 5"),
    (of_mask, "second_size", 0, "second_size"),
    (of_mask, "second", "diagonal", "diagonal"),
    (of_mask, "layers", 9, "layers"),
    (lambda: explore(flat, n=[1, 2]), "values", {"n": 3}, "n must be one of [1, 2], got 3"),
    (lambda: explore(flat, n=[1, 2]), "values", {"m": 1}, "values must name n, got {'m': 1}"),
    (of_steps, "example", 3, "example must be from 0 to 2, got 3"),
    (of_steps, "step", 5, "step must be from 0 to 4, got 5"),
    (of_steps, "state", "overtrained", "untrained, trained, got 'overtrained'"),
    (lambda: AlignmentSteps([typed("a")]), "text", "b", "only where translate was given"),
    (of_heads, "sentence", 3, "sentence must be from 0 to 2, got 3"),
    (of_heads, "layer", 2, "layer must be from 0 to 1, got 2"),
    (of_heads, "head", 3, "head must be from 0 to 2, got 3"),
    (of_heads, "token", 7, "token must be from 0 to 6, got 7"),
    (of_heads, "pattern", "before", "pattern"),
    (lambda: HeadExplorer([encoded("ab")]), "text", "b", "only where encode was given"),
    (of_family, "position", 11, "position must be from 0 to 10, got 11"),
    (of_positions, "distance", -12, "distance must be from -11 to 11, got -12"),
    (of_positions, "pair", -1, "pair"),
    (of_positions, "embed_dim", 12, "embed_dim must be one of 4, 8, 16, 32, 64, got 12"),
    (of_positions, "base", 7.0, "base must be one of 10.0, 100.0"),
    *(
        (of_player, trait, value, trait)
        for trait, value in (
            *(("temperature", -0.1), ("temperature", 3.1), ("seed", -1), ("seed", 100)),
            *(("step", -1), ("attention", "all"), ("layer", -1), ("head", -1)),
        )
    ),
    *(
        (writer_of, trait, value, trait)
        for trait, value in (
            *(("temperature", 0.0), ("temperature", 3.1), ("top_k", 0), ("top_p", 0.0)),
            *(("top_p", 1.1), ("seed", -1), ("seed", 100), ("position", -1)),
        )
    ),
    (player_of, "text", "x", "text must be made of known tokens, got 'x'"),
    (player_of, "language", "<de>", "got '<de>'"),
    (lambda: player_of(languages={"<de>": "German"}), "language", "", "one of <de>, got ''"),
    (player_of, "prefix", [4, 0], "prefix must be ids from 2 to 4, got [4, 0]"),
    (player_of, "prefix", [5], "prefix must be ids from 2 to 4, got [5]"),
    (writer_of, "prompt", "c", "prompt must be made of known characters, got 'c'"),
    (writer_of, "said", [4, START], "said must be ids from 2 to 5"),
    (writer_of, "said", [6], "said must be ids from 2 to 5"),
    (writer_of, "said", [END, 4], "2 at the end alone, got [2, 4]"),
    (lambda: writer_of(most=4), "said", [4, 4, 4], "at most 4 characters, got 5"),
]
WRONG = [
    *((call, ValueError, words) for call, words in VALUES),
    *((call, TypeError, words) for call, words in TYPES),
    *((call, traitlets.TraitError, words) for call, words in TRAITS),
    *(
        (
            lambda make=make, trait=trait, value=value: setattr(make(), trait, value),
            traitlets.TraitError,
            words,
        )
        for make, trait, value, words in SETTINGS
    ),
]
