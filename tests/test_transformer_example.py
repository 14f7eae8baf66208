"""The Transformer in a hundred lines: beside the package's, and at its task."""

import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from attn_notes import transformer as package
from attn_notes.data import number_words
from tests.oracles import filled

FILE = Path(__file__).parents[1] / "examples" / "transformer.py"
SOURCE = [[3, 4, 5, 6], [7, 8, 0, 0]]  # the second has two places of padding


@pytest.fixture(scope="module")
def example():
    """The file as a module, its classes in 64 bits."""
    sys.path.append(str(FILE.parent))
    import transformer

    sys.path.remove(str(FILE.parent))
    return transformer


@pytest.fixture
def model(example):
    return filled(example.Transformer(40, width=24, num_heads=3, num_layers=2))


@pytest.fixture
def ids():
    """Source (2, 4) and written words (2, 3)."""
    return torch.tensor(SOURCE), torch.tensor([[1, 20, 21], [1, 30, 31]])


def test_it_is_the_packages_transformer(model, ids):
    """Which is torch's (`test_decoder`); no word reads a later one, and nothing reads padding."""
    config = package.TransformerConfig(
        vocab_size=40, target_vocab_size=40, embed_dim=24, num_heads=3, num_layers=2, ffn_dim=96,
        norm="pre", activation="relu", positions="sinusoidal",
    )  # fmt: skip
    other = package.Transformer(config).double()
    for own, copy in zip(model.parameters(), other.parameters(), strict=True):
        copy.data.copy_(own)
    source, written = ids
    logits, _ = other(source, torch.tensor([4, 2]), written)
    torch.testing.assert_close(model(source, written), logits)


def cached(attention_class):
    """The file's attention, keeping its keys and values: the cache of page 7c, for pieces too."""

    class Cached(attention_class):
        keys = values = None

        def forward(self, x, memory, mask):
            q, k = self.split(self.q_proj(x)), self.split(self.k_proj(memory))
            v = self.split(self.v_proj(memory))
            if self.keys is not None:
                k, v = torch.cat([self.keys, k], dim=2), torch.cat([self.values, v], dim=2)
            self.keys, self.values = k, v
            scores = q @ k.mT / q.shape[-1] ** 0.5
            weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)
            return self.out_proj((weights @ v).transpose(1, 2).flatten(2))

    return Cached


@pytest.mark.parametrize("pieces", [(1, 1, 1, 1, 1), (3, 2), (1, 3, 1)])
def test_a_cache_built_on_its_parts_gives_the_logits_of_the_parallel_pass(
    model, example, ids, pieces
):
    source, _ = ids
    words = torch.tensor([[1, 20, 21, 22, 23], [1, 30, 31, 32, 33]])  # (B, L)
    at_once = model(source, words)
    memory, mask = model.encode(source)
    for block in model.decoder:
        kept = cached(example.MultiHeadAttention)(24, 3).double()
        kept.load_state_dict(block.self_attn.state_dict())
        block.self_attn = kept
    causal = torch.ones(5, 5, dtype=torch.bool).tril()
    logits, done = [], 0
    for new in pieces:
        end = done + new
        x = model.target_embedding(words[:, done:end]) + example.positions(end, 24)[done:]
        for block in model.decoder:
            x = block(x, memory, causal[done:end, :end], mask)
        logits.append(model.out_proj(model.decoder_norm(x)))
        done = end
    torch.testing.assert_close(torch.cat(logits, dim=1), at_once)


def test_writing_takes_the_most_probable_next_word_of_the_parallel_pass(example):
    torch.manual_seed(0)
    model = example.Transformer(len(example.VOCABULARY), width=24, num_heads=3, num_layers=1)
    memory, mask = model.encode(example.make_batch([24, 7])[0])
    for row, said in enumerate(example.write(model, [24, 7])):
        ids = torch.tensor([[example.START, *map(example.VOCABULARY.index, said)]])
        best = model.decode(ids, memory[row : row + 1], mask[row : row + 1]).argmax(-1)[0]
        assert ids[0, 1:].tolist() == best[:-1].tolist()
        assert len(said) == 12 or best[-1] == example.END


def test_it_spells_every_number_as_german_does(example):
    assert all(tuple(example.in_german(n)) == number_words(n, "de") for n in range(10_000))


def test_a_batch_is_shifted_by_one_and_padded(example):
    source, target = example.make_batch([24, 7])
    assert source.tolist() == [[5, 7], [10, 0]]  # digit d has the id d + 3
    said = [[example.VOCABULARY[n] for n in row] for row in target.tolist()]
    assert said[0] == ["<start>", "vier", "und", "zwanzig", "<end>"]
    assert said[1] == ["<start>", "sieben", "<end>", "<pad>", "<pad>"]


@pytest.mark.slow
def test_a_short_training_lowers_the_loss_and_writes_what_it_has_learned(example, capsys):
    random.seed(0)
    model = example.train(list(range(100)), steps=150)
    assert example.write(model, [3, 42]) == [["drei"], ["zwei", "und", "vierzig"]]
    first, last = re.findall(r"loss ([\d.]+)", capsys.readouterr().out)
    assert float(last) < float(first) / 10


@pytest.mark.slow
def test_the_command_trains_prints_its_score_and_writes_what_it_is_given():
    run = subprocess.run(
        [sys.executable, FILE, "42", "1999"], capture_output=True, text=True, check=True
    )
    *_, score, first, second = run.stdout.splitlines()
    right, total = map(int, re.findall(r"\d+", score))
    assert total == 1000
    assert right >= 980
    assert first == "42 zweiundvierzig"
    assert second == "1999 eintausendneunhundertneunundneunzig"
