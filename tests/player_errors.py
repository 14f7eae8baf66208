"""What the two players refuse: a part of the table of `test_widgets`, which tries it.

A row is (the call, the exception, words of the message), by what it is.
"""

import torch
import traitlets

from attn_notes.data import END, START, Vocabulary
from attn_notes.transformer import Encoder, Transformer, TransformerConfig
from attn_notes.widgets import LanguageModelPlayer, TransformerPlayer
from attn_notes.widgets.packing import pack_transformer
from tests.widgets import of_player, random_decoder, random_transformer


def player_of(**given) -> TransformerPlayer:
    digits = Vocabulary([*"0123456789", "<de>"])
    words = Vocabulary(["eins"])
    given = {"source_vocab": digits, "target_vocab": words} | given
    model = random_transformer(vocab_size=15, target_vocab_size=5, embed_dim=8, num_heads=2)
    return TransformerPlayer(given.pop("model", model), **given)


def broken_transformer():
    model = random_transformer()
    with torch.no_grad():
        model.encoder.blocks[0].norm1.bias[1] = torch.nan
    return model


def writer_of(**given: object) -> LanguageModelPlayer:
    given = {"vocab": Vocabulary([*"ab"]), "prompt": "ab"} | given
    learned = random_decoder(vocab_size=6, positions="learned", max_length=8)
    return LanguageModelPlayer(given.pop("model", learned), given.pop("vocab"), **given)


TRANSLATOR = {
    "not a Transformer": (
        lambda: pack_transformer(Encoder(TransformerConfig(vocab_size=9))),
        TypeError,
        "model must be a Transformer or a DecoderOnly, got Encoder",
    ),
    "rotary": (
        lambda: pack_transformer(random_transformer(positions="rotary")),
        ValueError,
        "positions must be 'none' or 'learned' or 'sinusoidal' for a page, got 'rotary'",
    ),
    "a norm of embeddings": (
        lambda: pack_transformer(random_transformer(embed_norm=True)),
        ValueError,
        "embed_norm must be False for a page, got True",
    ),
    "shared heads": (
        lambda: pack_transformer(random_transformer(num_kv_heads=2)),
        ValueError,
        "num_kv_heads must be num_heads for a page, got num_kv_heads = 2 and num_heads = 4",
    ),
    "NaN": (
        lambda: pack_transformer(broken_transformer()),
        ValueError,
        "weights must be finite, got NaN or infinity in encoder.blocks.0.norm1.bias",
    ),
    "no vocabulary": (
        lambda: player_of(source_vocab=["1"]),
        TypeError,
        "source_vocab must be a Vocabulary, got list",
    ),
    "another vocabulary": (
        lambda: player_of(target_vocab=Vocabulary(["eins", "zwei"])),
        ValueError,
        "target_vocab must have the model's 5 ids, got 6",
    ),
    "an unknown language": (
        lambda: player_of(languages={"fr": "French"}),
        ValueError,
        "languages must be tokens of source_vocab, such as '<de>', got 'fr'",
    ),
    "an unknown text": (
        lambda: player_of(text="one"),
        ValueError,
        "text must be made of known tokens, got 'one'",
    ),
    "an unknown example": (
        lambda: player_of(examples=("1", "4x")),
        ValueError,
        "text must be made of known tokens, got '4x'",
    ),
    "no text": (
        lambda: player_of(text=" "),
        ValueError,
        "text must have from 1 to 40 tokens, got 0",
    ),
    "no example": (
        lambda: player_of(examples=()),
        ValueError,
        "text must have from 1 to 40 tokens, got 0",
    ),
    "a long text": (
        lambda: player_of(text="1" * 40, languages={"de": "German"}),
        ValueError,
        "text must have from 1 to 39 tokens, got 40",
    ),
    "a tag in a text": (
        lambda: player_of(text="<de>", languages={"de": "German"}),
        ValueError,
        "text must be made of known tokens, got '<de>'",
    ),
    "nothing said": (
        lambda: player_of(most=0),
        ValueError,
        "most must be at least 1, got 0",
    ),
    "text set to one unknown": (
        lambda: setattr(player_of(), "text", "x"),
        traitlets.TraitError,
        "text must be made of known tokens, got 'x'",
    ),
    "a language where there is none": (
        lambda: setattr(player_of(), "language", "<de>"),
        traitlets.TraitError,
        "language must be one of , got '<de>'",
    ),
    "a language that is not offered": (
        lambda: setattr(player_of(languages={"<de>": "German"}), "language", ""),
        traitlets.TraitError,
        "language must be one of <de>, got ''",
    ),
    "padding as a prefix": (
        lambda: setattr(player_of(), "prefix", [4, 0]),
        traitlets.TraitError,
        "prefix must be ids from 2 to 4, got 0",
    ),
    "an id beyond the last": (
        lambda: setattr(player_of(), "prefix", [5]),
        traitlets.TraitError,
        "prefix must be ids from 2 to 4, got 5",
    ),
}
WRITER = {
    "not a decoder": (
        lambda: writer_of(model=Transformer(TransformerConfig(vocab_size=6))),
        TypeError,
        "model must be a DecoderOnly, got Transformer",
    ),
    "a decoder that is to translate": (
        lambda: TransformerPlayer(random_decoder(), Vocabulary([]), Vocabulary([])),
        TypeError,
        "model must be a Transformer, got DecoderOnly",
    ),
    "rotary": (
        lambda: writer_of(model=random_decoder(vocab_size=6, positions="rotary")),
        ValueError,
        "positions must be 'none' or 'learned' or 'sinusoidal' for a page, got 'rotary'",
    ),
    "no vocabulary": (
        lambda: writer_of(vocab="ab"),
        TypeError,
        "vocab must be a Vocabulary, got str",
    ),
    "another vocabulary": (
        lambda: writer_of(vocab=Vocabulary([*"abc"])),
        ValueError,
        "vocab must have the model's 6 ids, got 7",
    ),
    "an unknown character": (
        lambda: writer_of(prompt="abc"),
        ValueError,
        "prompt must be made of known characters, got 'c'",
    ),
    "an unknown character in an example": (
        lambda: writer_of(examples=("ab", "\u00fc")),
        ValueError,
        "prompt must be made of known characters, got '\u00fc'",
    ),
    "a long prompt": (
        lambda: writer_of(prompt="ababa", most=4),
        ValueError,
        "prompt must have at most 4 characters, got 5",
    ),
    "no room": (lambda: writer_of(most=0), ValueError, "most must be at least 1, got 0"),
    "no context": (
        lambda: writer_of(context=0),
        ValueError,
        "context must be from 1 to max_length, 8, got 0",
    ),
    "more context than positions": (
        lambda: writer_of(context=9),
        ValueError,
        "context must be from 1 to max_length, 8, got 9",
    ),
    "a prompt set to one unknown": (
        lambda: setattr(writer_of(), "prompt", "c"),
        traitlets.TraitError,
        "prompt must be made of known characters, got 'c'",
    ),
    "START said": (
        lambda: setattr(writer_of(), "said", [4, START]),
        traitlets.TraitError,
        "said must be ids from 2 to 5, got 1",
    ),
    "an id beyond the last": (
        lambda: setattr(writer_of(), "said", [6]),
        traitlets.TraitError,
        "said must be ids from 2 to 5, got 6",
    ),
    "said beyond the room": (
        lambda: setattr(writer_of(most=4), "said", [4, 4, 4]),
        traitlets.TraitError,
        "said must leave the text 4 characters, got 5",
    ),
    "said after its end": (
        lambda: setattr(writer_of(), "said", [END, 4]),
        traitlets.TraitError,
        "said must stop at the end of the text",
    ),
}
# A trait that is set to what there is not.
TRAITS = {
    of_player: [
        *(("temperature", -0.1), ("temperature", 3.1), ("seed", -1), ("seed", 100)),
        *(("step", -1), ("attention", "all"), ("layer", -1), ("head", -1)),
    ],
    writer_of: [
        *(("temperature", 0.0), ("temperature", 3.1), ("top_k", 0), ("top_p", 0.0)),
        *(("top_p", 1.1), ("seed", -1), ("seed", 100), ("position", -1)),
    ],
}


def set_to(make, trait: str, value: object):
    return lambda: setattr(make(), trait, value)


WRONG = {
    **{f"translator: {what}": row for what, row in TRANSLATOR.items()},
    **{f"writer: {what}": row for what, row in WRITER.items()},
    **{
        f"{make.__name__}: {trait} = {value}": (
            set_to(make, trait, value),
            traitlets.TraitError,
            trait,
        )
        for make, settings in TRAITS.items()
        for trait, value in settings
    },
}
