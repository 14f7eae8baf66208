"""The models that the book shows score what the book says of them, on what they never saw.

The tables in `book/_data/README.md` are read, and each of their rows is measured again.
"""

import json
import random
import re
import shlex
from functools import cache
from itertools import product
from pathlib import Path

import pytest

from attn_notes.data import Pair, Vocabulary, number_words, read_text, split_text
from attn_notes.decoding import translate
from attn_notes.ngrams import NGramModel
from attn_notes.stored import (
    LanguageModel,
    Translator,
    build_model,
    load_language_model,
    load_translator,
)
from attn_notes.training import bits_per_character, exact_match
from attn_train.commands import parse
from attn_train.settings import read_training
from attn_train.train import digest, load_pairs
from attn_widgets.packing import pack_transformer, unpack_transformer

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
DATA = ROOT / "book" / "_data"
README = (DATA / "README.md").read_text(encoding="utf-8")
ROWS = [row.strip("| ").split(" | ") for row in README.splitlines() if row.startswith("| `")]
# By name, the figures behind what a model reads and writes.
STATED = {row[0].strip("`"): row[3:] for row in ROWS if len(row) == 5}
STATED_OF_WRITERS = {row[0].strip("`"): row[2:] for row in ROWS if len(row) == 6}
FILES = sorted(DATA.glob("*/settings.json"))
KINDS = {path.parent.name: json.loads(path.read_text("utf-8"))["kind"] for path in FILES}
WRITERS = [name for name, kind in KINDS.items() if kind == "language-model"]
FOLDERS = [name for name in KINDS if name not in WRITERS]

MEASURED = 400  # examples, so that a run takes seconds


def said_by(translator: Translator, pairs: list[Pair]) -> list[tuple[str, ...]]:
    model, vocabs = translator.model, (translator.source_vocab, translator.target_vocab)
    sources = [source for source, _ in pairs]
    return translate(model, sources, *vocabs, max_length=translator.spec.max_length)


def score(translator: Translator, pairs: list[Pair]) -> float:
    return exact_match(said_by(translator, pairs), [target for _, target in pairs])


def tokens_right(translator: Translator, pairs: list[Pair]) -> float:
    """The share of the references' tokens that stand in their place."""
    said, references = said_by(translator, pairs), [target for _, target in pairs]
    both = zip(said, references, strict=True)
    hits = sum(a == b for pair in both for a, b in zip(*pair, strict=False))
    return hits / sum(map(len, references))


sides = cache(load_pairs)


def held_out(name: str) -> list[Pair]:
    return sides(read_training(DATA / name).data, 0, None, None)[1]


def test_every_stored_model_is_stated_and_every_stated_one_is_stored():
    assert (sorted(STATED), sorted(STATED_OF_WRITERS)) == (FOLDERS, WRITERS)
    assert FOLDERS
    assert WRITERS


@pytest.mark.parametrize("name", FOLDERS)
def test_a_stored_model_scores_what_is_stated(name):
    translator = load_translator(DATA / name)
    pairs = held_out(name)
    count, stated = STATED[name]
    assert f"{len(pairs):,}" == count
    # A part of them, drawn from all: it may miss the whole's score by two examples.
    part = random.Random(0).sample(pairs, min(len(pairs), MEASURED))
    assert score(translator, part) == pytest.approx(float(stated), abs=2 / MEASURED)


def in_each_direction(translator: Translator, pairs: list[Pair]) -> dict[tuple[str, bool], float]:
    """Exact match by (tag, whether digits are read)."""
    ways: dict[tuple[str, bool], list[bool]] = {}
    for (source, target), said in zip(pairs, said_by(translator, pairs), strict=True):
        ways.setdefault((source[0], source[1].isdigit()), []).append(said == target)
    return {way: sum(right) / len(right) for way, right in ways.items()}


@pytest.fixture(scope="module")
def rounded() -> Translator:
    """The model of chapter 7 as its page has it: a byte a weight."""
    translator = load_translator(DATA / "transformer-numbers")
    model = unpack_transformer(pack_transformer(translator.model)).float()
    return Translator(translator.spec, model)


def test_the_model_of_the_page_scores_what_is_stated_in_each_language_after_rounding(rounded):
    words = r"In 8 bits a weight,[^.]*scores\s([\d.]+),\sand\sat\sleast\s([\d.]+)\sin"
    (stated,) = re.findall(words, README)
    scores = in_each_direction(rounded, held_out("transformer-numbers"))
    assert sorted(scores) == sorted(product(("<de>", "<fr>", "<es>"), (False, True)))
    whole = sum(scores.values()) / len(scores)
    assert whole == pytest.approx(float(stated[0]), abs=2e-3)
    assert min(scores.values()) >= float(stated[1]) - 2e-3
    assert float(stated[1]) >= 0.97


def test_the_numbers_that_a_reader_types_first_are_right_after_rounding(rounded):
    """Short ones and round ones, which are too few to move an average."""
    values = [*range(100), *range(100, 10_000, 100), 1066, 1492, 1789, 1969, 1999, 2001, 2024]
    wanted = {number_words(value, "digits") for value in values}
    both = sides(read_training(DATA / "transformer-numbers").data, 0, None, None)
    there = {pair for side in both for pair in side if pair[0][1:] in wanted}
    assert len(there) == 3 * len(wanted)
    pairs = sorted(there)
    assert (1 - score(rounded, pairs)) * len(pairs) <= 2.001


@pytest.mark.parametrize("name", FOLDERS)
def test_a_model_learns_between_its_snapshots(name):
    settings = load_translator(DATA / name).spec
    part = held_out(name)[:100]
    snapshots = [path.name for path in (DATA / name).glob("weights-*")]  # the Transformer has none
    snapshots.sort(key=lambda file: int(re.findall(r"\d+", file)[0]))
    stages = [Translator(settings, build_model(settings))]  # untrained, from the seed
    stages += [
        load_translator(DATA / name, weights=file) for file in (*snapshots, "weights.safetensors")
    ]
    right = [tokens_right(stage, part) for stage in stages]
    assert right == sorted(set(right))  # each stage gets more of them right than the one before
    assert right[-2] < 0.9 < right[-1]


def words_of_the_command(name: str) -> list[str]:
    """What stands in the README after `python -m attn_train`."""
    joined = README.replace("\\\n", " ")
    (line,) = (line for line in joined.splitlines() if line.endswith(f"book/_data/{name}"))
    python, flag, module, *words = shlex.split(line)
    assert (python, flag, module) == ("python", "-m", "attn_train")
    return words


@pytest.mark.parametrize("name", FOLDERS)
def test_the_command_that_is_stated_is_the_one_that_was_run(name, monkeypatch):
    monkeypatch.setattr("attn_train.train.load_pairs", sides)
    command = parse(words_of_the_command(name))
    assert command.prepare()[0] == read_training(DATA / name)
    kept = {path.name for path in (DATA / name).glob("weights-*")}
    assert kept == {f"weights-{step}.safetensors" for step in command.snapshots}
    assert command.training.seed == 0


@pytest.fixture(scope="module", params=WRITERS)
def stored(request) -> tuple[str, LanguageModel]:
    return request.param, load_language_model(DATA / request.param)


@pytest.fixture(scope="module")
def texts() -> tuple[list[str], list[str]]:
    paths = sorted((DATA / "python-topics").glob("*.txt"))
    return split_text([read_text(path) for path in paths])


def test_a_stored_language_model_needs_the_bits_that_are_stated(stored, texts):
    name, writer = stored
    parameters, characters, *stated = STATED_OF_WRITERS[name]
    assert f"{sum(p.numel() for p in writer.model.parameters()):,}" == parameters
    assert f"{sum(map(len, texts[1])):,}" == characters
    page = unpack_transformer(pack_transformer(writer.model)).float()  # a byte a weight
    models = writer, LanguageModel(writer.spec, page)
    for model, figure in zip(models, stated, strict=True):
        length = writer.model.config.max_length
        bits = bits_per_character(model.model, texts[1], model.vocab, length=length)
        assert bits == pytest.approx(float(figure), abs=0.002)


def test_counts_need_the_bits_that_are_stated_beside_a_language_models(texts):
    stated = re.findall(r"order\s(\d)\sneeds\s([\d.]+\d)", README)
    assert len(stated) == 2
    train, held_out = texts
    vocab = Vocabulary.build(map(list, train))
    for order, figure in stated:
        needed = NGramModel(int(order), train, vocab).bits_per_character(held_out)
        assert needed == pytest.approx(float(figure), abs=0.002)


def test_the_command_of_a_language_model_is_the_one_that_was_run(stored, texts):
    name, _ = stored
    command = parse(words_of_the_command(name))
    stated = read_training(DATA / name)
    assert (command.model, command.training) == (stated.model, stated.training)
    assert stated.training.seed == 0
    read = [path for words in command.text for path in sorted(ROOT.glob(str(words)))]
    assert read == sorted((DATA / "python-topics").glob("*.txt"))
    assert digest(texts) == stated.digest
    assert not [*(DATA / name).glob("weights-*")]
