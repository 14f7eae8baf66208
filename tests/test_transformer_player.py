"""What the Transformer in the page makes of a text, in Python."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close
from traitlets import TraitError

from attn_notes.data import END, START, Vocabulary
from attn_notes.decoding import greedy
from attn_notes.widgets import TransformerPlayer
from attn_notes.widgets.packing import unpack_transformer
from attn_notes.widgets.player import cut
from tests.widgets import of_player, random_transformer

# Texts

NUMBERS = ("0", "1", "9", "ninety", "nine", "-nine", "thousand,", "teen", "nineteen", "Haus")


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("1,999", "1 9 9 9"),
        ("1.999", "1 9 9 9"),
        ("ninety-nine", "ninety -nine"),
        ("nineteen", "nineteen"),
        ("thousand", "thousand,"),
        ("Haus 9", "Haus 9"),
        ("", ""),
    ],
)
def test_a_text_is_cut_at_spaces_and_into_few_known_tokens(text, tokens):
    assert cut(text, NUMBERS) == tokens.split()


@pytest.mark.parametrize("text", ["9x", "9.1", "1,9", "haus", "ninety-", "\u0669", "\ud800"])
def test_a_word_that_is_not_made_of_known_tokens_is_named(text):
    with pytest.raises(TraitError, match=r"text must be made of known tokens, got '"):
        cut(text, NUMBERS)


@given(st.lists(st.sampled_from(["a", "ab", "b", "ba", "bab"]), min_size=1, max_size=8))
def test_no_way_to_cut_a_word_has_fewer_tokens(tokens):
    known, word = ["a", "ab", "b", "ba", "bab", ""], "".join(tokens)
    found = cut(word, known)
    assert "".join(found) == word
    assert len(found) <= len(tokens)


@torch.no_grad()
def test_at_temperature_0_it_says_what_greedy_says():
    player = of_player()
    model = unpack_transformer(player.data["model"])
    for player.text in ("407", "1999", "0", "5550123"):
        made = player.translation()
        ids = torch.tensor([[player.data["source"].index(token) + 4 for token in made.source]])
        decoded = greedy(model, ids, max_length=7)
        assert decoded.tokens[0].tolist() == made.tokens
        inputs, lengths = torch.tensor([[START, *made.tokens[:-1]]]), torch.tensor([ids.shape[1]])
        logits, weights = model(ids, lengths, inputs, need_weights=True)
        logits[..., :END] = -torch.inf
        assert_close(made.probabilities, logits[0].softmax(-1))
        assert_close([*made.weights], [*weights])


def test_a_temperature_flattens_what_is_drawn_from_and_seeds_draw_from_it():
    player = of_player()
    cold = player.translation().probabilities[0]
    player.temperature = 2.0
    hot = player.translation().probabilities[0]
    squared = hot[2:].square()
    assert_close(squared / squared.sum(), cold[2:])
    player.data = {**player.data, "most": 1}
    drawn = [player.translation().tokens[0] for player.seed in range(100)]
    share = torch.bincount(torch.tensor(drawn), minlength=9) / 100
    assert (share - hot).abs().max() < 0.12
    assert not share[:2].any()


def test_what_the_reader_put_there_is_said_and_the_model_goes_on_from_it():
    player = of_player()
    own = player.translation()
    player.prefix = [own.tokens[0], 7]
    made = player.translation()
    assert made.tokens[:2] == [own.tokens[0], 7]
    assert_close(made.probabilities[:2], own.probabilities[:2])
    assert not made.probabilities[2].allclose(own.probabilities[2])
    player.prefix = [END]
    assert player.translation().tokens == [END]
    player.prefix = [7] * 30
    assert player.translation().tokens == [7] * 7


def test_the_shown_map_is_that_of_the_kind_layer_and_head_and_of_the_steps_so_far():
    player = of_player()
    weights = player.translation().weights
    player.step, player.layer, player.head = 2, 1, 1
    assert player.shown().equal(weights.cross[1][0, 1, :3])
    player.attention = "decoder"
    assert player.shown().equal(weights.decoder[1][0, 1, :3])
    assert not player.shown().triu(1).any()
    player.attention = "encoder"
    assert player.shown().equal(weights.encoder[1][0, 1])
    player.step, player.layer, player.head, player.attention = 99, 99, 99, "cross"
    assert player.shown().equal(weights.cross[1][0, 1, :-1])  # but for END


def test_a_model_without_languages_reads_the_text_alone_and_learned_positions_end_it():
    kind = {"positions": "learned", "max_length": 5, "target_vocab_size": None}
    model, digits = random_transformer(vocab_size=14, **kind), Vocabulary([*"0123456789"])
    player = TransformerPlayer(model, digits, digits, examples=("42", "7"), most=9)
    assert player.translation().source == ["4", "2"]
    assert repr(player).startswith("TransformerPlayer(42: ")
    player.prefix = [7] * 9
    assert len(player.translation().tokens) == 5
    player.text = "12345"
    with pytest.raises(TraitError, match="text must have from 1 to 5 tokens, got 6"):
        player.text = "123456"
