"""The models that the book shows score what the book says of them, on what they never saw.

The table in `book/_data/README.md` is read, and each of its rows is measured again.
"""

import re
from pathlib import Path

import pytest

from attn_notes.data import Pair
from attn_notes.decoding import translate
from attn_notes.train import load_translator
from attn_notes.train.seq2seq import load_pairs
from attn_notes.train.settings import Settings, build_model
from attn_notes.train.translator import Translator
from attn_notes.training import exact_match

DATA = Path(__file__).parents[1] / "book" / "_data"
README = (DATA / "README.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `([\w-]+)` \|.*\| ([\d,]+) \| ([\d.]+) \|$", re.MULTILINE)
STATED = {
    name: (int(count.replace(",", "")), float(score)) for name, count, score in ROW.findall(README)
}
FOLDERS = sorted(path.parent.name for path in DATA.glob("*/settings.json"))

MEASURED = 400  # examples, so that a run takes seconds
ONE_OF_THEM = 1 / MEASURED


def said_by(translator: Translator, pairs: list[Pair]) -> list[tuple[str, ...]]:
    vocabularies = translator.source_vocab, translator.target_vocab
    longest = translator.settings.max_length
    sources = [source for source, _ in pairs]
    return translate(translator.model, sources, *vocabularies, max_length=longest)


def tokens_right(translator: Translator, pairs: list[Pair]) -> float:
    """The share of the references' tokens that stand in their place."""
    said, references = said_by(translator, pairs), [target for _, target in pairs]
    hits = [
        a == b
        for one, other in zip(said, references, strict=True)
        for a, b in zip(one, other, strict=False)
    ]
    return sum(hits) / sum(map(len, references))


def held_out(settings: Settings) -> list[Pair]:
    return load_pairs(settings)[1]


def test_every_stored_model_is_stated_and_every_stated_one_is_stored():
    assert FOLDERS
    assert sorted(STATED) == FOLDERS


@pytest.mark.parametrize("name", FOLDERS)
def test_a_stored_model_scores_what_is_stated(name):
    translator = load_translator(DATA / name)
    pairs = held_out(translator.settings)
    count, stated = STATED[name]
    assert len(pairs) == count
    # A part of them, spread over all: it may miss the whole's score by two examples.
    part = pairs[:: max(1, count // MEASURED)][:MEASURED]
    measured = exact_match(said_by(translator, part), [target for _, target in part])
    assert measured == pytest.approx(stated, abs=2 * ONE_OF_THEM)


@pytest.mark.parametrize("name", FOLDERS)
def test_a_model_learns_between_its_snapshots(name):
    settings = load_translator(DATA / name).settings
    part = held_out(settings)[:100]
    snapshots = sorted(
        (path.name for path in (DATA / name).glob("weights-*.safetensors")),
        key=lambda file: int(re.findall(r"\d+", file)[0]),
    )
    assert snapshots
    stages = [Translator(settings, build_model(settings))]  # untrained, from the seed
    stages += [
        load_translator(DATA / name, weights=file) for file in (*snapshots, "weights.safetensors")
    ]
    right = [tokens_right(stage, part) for stage in stages]
    assert right == sorted(set(right))  # each stage gets more of them right than the one before
    assert right[-2] < 0.9 < right[-1]


@pytest.mark.parametrize("name", FOLDERS)
def test_the_command_that_is_stated_is_the_one_that_was_run(name):
    settings = load_translator(DATA / name).settings
    joined = README.replace("\\\n", " ")
    (command,) = (line for line in joined.splitlines() if line.endswith(f"book/_data/{name}"))
    stated = dict(re.findall(r"--([\w-]+) (\S+)", command))
    stated.pop("out")
    stated.pop("snapshots")
    for option, value in stated.items():
        there = getattr(settings, option.replace("-", "_"))
        assert type(there)(value) == there
    assert settings.seed == 0


def test_nothing_else_is_kept_with_them():
    kept = {path.name for path in DATA.rglob("*") if path.is_file()}
    assert {re.sub(r"-\d+", "", name) for name in kept} == {
        "README.md", "settings.json", "weights.safetensors"
    }  # fmt: skip
