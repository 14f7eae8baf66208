"""The command line: what it leaves behind, what it says of a mistake, and what a kill cannot do."""

import io
import itertools
import json
import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
import warnings
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch
from attn_notes.train import (
    SCORES,
    LanguageModelSettings,
    PairSettings,
    Seq2SeqSettings,
    Settings,
    TransformerSettings,
    Translator,
    build_model,
    command,
    load_translator,
)
from attn_notes.train.command import main
from attn_notes.train.evaluation import evaluate
from attn_notes.train.pairs import load_pairs
from attn_notes.train.run import _schedule
from attn_notes.train.settings import MODELS as KINDS
from attn_notes.train.settings import SCHEDULES
from attn_notes.train.stored import _MUST, read_settings, write_settings

from attn_notes.data import END, START, is_held_out, number_pairs
from attn_notes.data.numbers import _converter
from attn_notes.training import (
    cosine_decay,
    inverse_sqrt,
    linear_decay,
    load_checkpoint,
    load_weights,
    noam,
)
from tests.commands import assert_wrong_option, one_line
from tests.killed_trainings import OPTIONS
from tests.test_training_checkpoints import names

OF_PAIRS = ["seq2seq", "transformer"]
MODELS = pytest.mark.parametrize("model", OF_PAIRS)
SMALL = {"steps": 4, "warmup": 1, "batch-size": 8, "hidden-dim": 8, "embed-dim": 4}
QUICK = [f"--{name}={value}" for name, value in SMALL.items()] + ["--device=cpu"]
NUMBERS = ["--count", "60", "--digits", "1-2", *QUICK]


def trained(folder: Path, *options: str, model: str = "seq2seq") -> Path:
    assert main([model, *NUMBERS, *options, "--out", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A training of four steps, with snapshots before the first and after the second."""
    return trained(tmp_path_factory.mktemp("out") / "deep" / "er", "--snapshots", "0,2")


@pytest.fixture
def copy(folder, tmp_path):
    return shutil.copytree(folder, tmp_path / "copy")


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    """A Transformer of four steps that reads two languages and writes two."""
    languages = ("--source", "digits,en", "--target", "de,fr")
    return trained(tmp_path_factory.mktemp("several"), *languages, model="transformer")


# What it leaves behind


def test_a_training_leaves_a_translator_behind(folder):
    assert names(folder) == {
        "checkpoint.pt", "settings.json", "weights.safetensors",
        "weights-0.safetensors", "weights-2.safetensors",
    }  # fmt: skip
    settings = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
    assert (settings["score"], settings["source"], settings["hidden_dim"]) == ("additive", "de", 8)
    translator = load_translator(folder, device=torch.device("cpu"))
    tokens, said, weights = translator.steps("siebzehn")
    assert tokens == ("siebzehn",)
    assert translator.translate("siebzehn") == translator.settings.join(said)
    assert weights.shape == (len(said), 1)
    torch.testing.assert_close(weights.sum(-1), torch.ones(len(said)))
    assert not translator.model.training


def test_snapshots_are_the_weights_of_their_steps(folder, tmp_path):
    untrained, third = (
        load_translator(folder, weights=f"weights{name}.safetensors").model.state_dict()
        for name in ("-0", "-2")
    )
    settings = load_translator(folder).settings
    fresh = build_model(settings).state_dict()
    assert all(torch.equal(tensor, fresh[name]) for name, tensor in untrained.items())
    two = trained(tmp_path / "two", "--steps", "4", "--snapshots", "2,4")
    other = build_model(settings)
    load_weights(two / "weights-2.safetensors", other)
    assert all(torch.equal(tensor, third[name]) for name, tensor in other.state_dict().items())
    assert (two / "weights-4.safetensors").read_bytes() == (
        two / "weights.safetensors"
    ).read_bytes()


def test_the_same_command_again_trains_no_further_and_measures_the_same(copy, folder, capsys):
    before = {path.name: path.read_bytes() for path in copy.iterdir()}
    trained(copy, "--snapshots", "0,2")
    out = capsys.readouterr().out
    assert f"going on with the training in {copy}" in out
    assert "exact match" in out
    assert {path.name: path.read_bytes() for path in copy.iterdir()} == before


@pytest.mark.parametrize("score", [*SCORES, "none"])
@pytest.mark.parametrize("direction", [(), ("--unidirectional",)])
def test_every_score_fits_both_encoders(score, direction):
    settings = Seq2SeqSettings(
        source="de", target="en", score=score, unidirectional=bool(direction), hidden_dim=8,
        layers=2, max_length=3, source_tokens=("drei",), target_tokens=("three",),
    )  # fmt: skip
    model = build_model(settings)
    logits, _ = model(torch.tensor([[4, 4]]), torch.tensor([2]), torch.tensor([[1, 4]]))
    assert logits.shape == (1, 2, 5)


def test_a_reader_trains_on_sentences_of_their_own(tmp_path, capsys):
    pairs, out = tmp_path / "sentences.txt", tmp_path / "out"
    lines = [f"le chat {n}\tthe cat {n}" for n in range(40)]
    pairs.write_text("\n".join([*lines, "no tab"]), encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert main(["seq2seq", "--pairs", str(pairs), *QUICK, "--out", str(out)]) == 0
    assert "40 pairs kept, 1 line skipped" in capsys.readouterr().out
    assert isinstance(load_translator(out).translate("le chat 3"), str)
    pairs.write_text("\n".join(lines[1:]), encoding="utf-8")
    assert main(["seq2seq", "--pairs", str(pairs), *QUICK, "--out", str(out)]) == 1
    assert "other sentences than those given now" in one_line(capsys)


def test_a_readers_file_may_be_in_another_encoding(tmp_path, capsys):
    pairs, out = tmp_path / "sentences.txt", tmp_path / "out"
    pairs.write_text("".join(f"été {n}\tsummer {n}\n" for n in range(40)), encoding="latin-1")
    arguments = ["seq2seq", "--pairs", str(pairs), *QUICK, "--out", str(out)]
    assert main(arguments) == 1
    assert "if the file is written in another encoding, name it" in one_line(capsys)
    assert main([*arguments, "--encoding", "latin-1"]) == 0
    assert "été" in load_translator(out).settings.source_tokens


def test_it_says_how_many_tokens_there_are_before_it_trains(tmp_path, capsys):
    trained(tmp_path / "all")
    first = capsys.readouterr().out.splitlines()[0]
    source, target = load_translator(tmp_path / "all").settings.vocabularies()
    sizes = f"{len(source.tokens)} tokens to read, {len(target.tokens)} to write"
    assert first == f"57 pairs to train on, 3 held out; {sizes}; on cpu"


@pytest.mark.parametrize(("steps", "warmup"), [(1, 0), (10, 5), (99, 49), (100, 50), (800, 50)])
def test_the_warm_up_is_half_of_a_short_training(steps, warmup, monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(command, "train", lambda settings, *_, **__: asked.append(settings))
    monkeypatch.setattr(command, "Translator", lambda *_: None)
    monkeypatch.setattr(command, "evaluate", lambda *_: "")
    few = ["--count", "60", "--digits", "1-2", "--device", "cpu", "--steps", str(steps)]
    assert main(["seq2seq", *few, "--out", str(tmp_path)]) == 0
    assert asked[0].warmup == warmup


def test_a_snapshot_of_a_step_that_is_past_is_said_to_be_missing(copy, capsys):
    trained(copy, "--snapshots", "0,1,2,3")
    said = capsys.readouterr().err
    assert said == "no snapshot of step 1, 3: the training had gone further\n"
    assert {name for name in names(copy) if "-" in name} == {
        "weights-0.safetensors", "weights-2.safetensors"
    }  # fmt: skip


def test_dates_are_read_letter_by_letter(tmp_path):
    options = ["--data=dates", "--source=en", "--target=iso", "--count=40"]
    assert main(["seq2seq", *options, *QUICK, "--out", str(tmp_path)]) == 0
    tokens, _, _ = load_translator(tmp_path).steps(" July 21, 1969")
    assert "".join(tokens) == "July 21, 1969"


def test_one_seed_decides_everything(tmp_path):
    settings = Seq2SeqSettings(source="de", target="en", source_tokens=("drei",), hidden_dim=4)
    one, same, other = (
        build_model(replace(settings, seed=seed)).decoder.out_proj.weight for seed in (1, 1, 2)
    )
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    path = trained(tmp_path / "out", "--seed", "5") / "checkpoint.pt"
    assert load_checkpoint(path)["settings"]["seed"] == 5


def test_the_step_that_says_the_end_has_no_row():
    settings = Seq2SeqSettings(source="de", target="en", target_tokens=("three",), max_length=9)
    model = build_model(settings)
    with torch.no_grad():
        model.decoder.out_proj.bias[END] = 1e6
    tokens, said, weights = Translator(settings, model).steps("zwei Millionen")
    assert (tokens, said, weights.shape) == (("zwei", "Millionen"), (), (0, 2))


# A Transformer


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("positions", ["none", "learned", "sinusoidal", "rotary", "alibi"])
def test_every_transformer_that_is_offered_can_be_built_and_decoded(norm, positions):
    settings = TransformerSettings(
        source="de", target="en", norm=norm, positions=positions, activation="gelu", tie=False,
        max_length=3, source_tokens=("drei", "und"), target_tokens=("three",),
    )  # fmt: skip
    translator = Translator(settings, build_model(settings))
    _, said, weights = translator.steps("drei und drei", beam_size=2)
    assert weights.shape == (len(said), 3)


def test_options_reach_the_transformer(tmp_path):
    options = [
        "--layers=3", "--heads=2", "--norm=post", "--positions=learned", "--activation=gelu",
        "--no-tie", "--dropout=0.2", "--label-smoothing=0.1", "--schedule=noam",
        "--weight-decay=0.01",
    ]  # fmt: skip
    translator = load_translator(trained(tmp_path / "out", *options, model="transformer"))
    s, config = translator.settings, translator.model.config
    assert (s.label_smoothing, s.schedule, s.weight_decay, s.lr) == (0.1, "noam", 0.01, 1.0)
    assert (config.num_layers, config.num_heads, config.norm) == (3, 2, "post")
    assert (config.positions, config.activation, config.dropout) == ("learned", "gelu", 0.2)
    assert (config.embed_dim, config.ffn_dim, config.tie_embeddings) == (4, 8, False)
    assert config.scale_embeddings
    settings = load_checkpoint(tmp_path / "out" / "checkpoint.pt")["settings"]
    assert settings["learning rate of the last step"] == noam(4, 1)(3)
    assert settings["weight_decay"] == 0.01


@MODELS
@pytest.mark.parametrize(
    ("schedule", "factor"),
    [
        ("linear", linear_decay(1, 4)(3)),
        ("cosine", cosine_decay(1, 4)(3)),
        ("inverse-sqrt", inverse_sqrt(1)(3)),
        ("constant", 1.0),
    ],
)
def test_every_schedule_is_the_one_of_its_name(tmp_path, model, schedule, factor):
    trained(tmp_path / "out", "--schedule", schedule, "--lr", "0.25", model=model)
    settings = load_checkpoint(tmp_path / "out" / "checkpoint.pt")["settings"]
    assert settings["learning rate of the last step"] == pytest.approx(0.25 * factor)


def test_the_rare_numbers_are_trained_on_as_often_as_is_asked(tmp_path, capsys):
    trained(tmp_path / "out", "--balance", "0.25", model="transformer")
    asked = load_translator(tmp_path / "out").settings
    assert asked.balance == 0.25
    plain, balanced = (load_pairs(replace(asked, balance=share))[0] for share in (0, 0.25))
    assert len(balanced) > len(plain)
    assert f"{len(balanced)} pairs to train on" in capsys.readouterr().out


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_schedule_warms_up(name):
    schedule = _schedule(TransformerSettings(schedule=name, warmup=3, steps=9))
    rates = [schedule(step) for step in range(3)]
    assert rates == pytest.approx([rates[2] * n / 3 for n in (1, 2, 3)])


def test_label_smoothing_is_in_the_loss(tmp_path):
    first = [
        load_checkpoint(
            trained(tmp_path / smoothing, "--label-smoothing", smoothing) / "checkpoint.pt"
        )["losses"][0]
        for smoothing in ("0", "0.5")
    ]
    assert first[0] != first[1]


def test_the_attention_of_every_layer_and_head_can_be_read(several):
    translator = load_translator(several, device=torch.device("cpu"))
    tokens, said, weights = translator.attention("12", to="fr")
    S, T = len(tokens), len(said)
    assert tokens == ("<fr>", "1", "2")
    assert [len(kind) for kind in weights] == [2, 2, 2]
    for kind, shape in zip(weights, [(4, S, S), (4, T, T), (4, T, S)], strict=True):
        for layer in kind:
            assert layer.shape == shape
            torch.testing.assert_close(layer.sum(-1), torch.ones(shape[:2]))
    assert all(layer.triu(1).eq(0).all() for layer in weights.decoder)
    assert (tokens, said) == translator.steps("12", to="fr")[:2]
    mean = torch.stack(weights.cross).mean(dim=(0, 1))
    torch.testing.assert_close(translator.steps("12", to="fr")[2], mean)


def test_each_row_of_it_is_of_the_step_that_says_its_token(several):
    """As a decoding with a cache records it, one step at a time."""
    translator = load_translator(several, device=torch.device("cpu"))
    tokens, said, weights = translator.attention("7")
    ids = translator.target_vocab.encode(said)
    source = torch.tensor([translator.source_vocab.encode(tokens)])
    with torch.no_grad():
        state = translator.model.start(source, torch.tensor([len(tokens)]), need_weights=True)
        for token in [START, *ids[:-1]]:
            _, state = translator.model.step(torch.tensor([token]), state)
    for kind, stepped in zip(weights, state.weights, strict=True):
        for layer, by_step in zip(kind, stepped, strict=True):
            torch.testing.assert_close(layer, by_step[0])


def test_a_recurrent_model_has_no_layers_of_attention(folder):
    with pytest.raises(TypeError, match="the model must be a Transformer, got Seq2Seq"):
        load_translator(folder).attention("drei")


def test_a_transformer_that_says_nothing_has_no_rows():
    settings = TransformerSettings(source="de", target="en", target_tokens=("three",), tie=False)
    model = build_model(settings)
    with torch.no_grad():
        model.decoder.norm.bias.fill_(1.0)
        model.out_proj.weight.zero_()[END].fill_(1e3)
    tokens, said, weights = Translator(settings, model).attention("zwei Millionen")
    assert (len(tokens), said) == (2, ())
    shapes = [{tuple(layer.shape) for layer in kind} for kind in weights]
    assert shapes == [{(4, 2, 2)}, {(4, 0, 0)}, {(4, 0, 2)}]


def test_learned_positions_reach_the_longest_source_and_the_longest_translation(tmp_path):
    pairs = tmp_path / "pairs.txt"
    lines = [f"{'a ' * 30}{n}\tb {n}" for n in range(40)]
    pairs.write_text("\n".join(lines), encoding="utf-8")
    arguments = ["transformer", "--pairs", str(pairs), *QUICK, "--positions", "learned"]
    assert main([*arguments, "--out", str(tmp_path / "out")]) == 0
    translator = load_translator(tmp_path / "out")
    assert translator.settings.max_length == 31
    with torch.no_grad():
        translator.model.out_proj.weight[END] = -translator.model.out_proj.weight[4]
    assert len(translator.steps(lines[3].split("\t")[0])[1]) <= 31
    with pytest.raises(ValueError, match=r"at most 32 tokens, where .*, got 33"):
        translator.translate("a " * 33)


def test_learned_positions_reach_the_longest_source_that_is_held_out(tmp_path, capsys):
    lines = [f"a {n}\tb" for n in range(40)]
    longer = (f"{'a ' * 30}{n}" for n in itertools.count())
    lines.append(f"{next(source for source in longer if is_held_out(source))}\tb")
    (tmp_path / "pairs.txt").write_text("\n".join(lines), encoding="utf-8")
    arguments = ["--pairs", str(tmp_path / "pairs.txt"), *QUICK, "--positions", "learned"]
    assert main(["transformer", *arguments, "--out", str(tmp_path / "out")]) == 0
    assert "3-31" in table(capsys.readouterr().out)


# Several languages


def test_every_language_is_asked_for_by_name(several, capsys):
    translator = load_translator(several)
    for to, code in (("de", 0), ("fr", 0), ("es", 1)):
        assert main(["translate", str(several), "12", "twelve", "--to", to]) == code
        if code:
            assert "the language to write must be one of de, fr, got 'es'" in one_line(capsys)
        else:
            expected = [translator.translate(text, to=to) for text in ("12", "twelve")]
            assert capsys.readouterr().out.splitlines() == expected
    assert translator.translate("12") == translator.translate("12", to="de")


def test_the_language_that_is_read_is_seen_from_what_is_typed(several):
    settings = load_translator(several).settings
    assert settings.split("12") == ("<de>", "1", "2")
    assert settings.split("thirty-three", to="fr") == ("<fr>", "thirty", "-three")
    assert settings.split("", to="fr") == ("<fr>",)
    assert settings.join(["quatre", "-vingt"], to="fr") == "quatre-vingt"
    assert settings.join(["drei", "und", "achtzig"]) == "dreiundachtzig"


def test_a_text_without_a_token_is_refused_where_there_is_a_tag(several):
    with pytest.raises(ValueError, match="text must hold something to translate, got '  '"):
        load_translator(several).translate("  ")


def test_what_is_not_known_in_any_language_is_said(several, capsys):
    assert main(["translate", str(several), "three of them", "1x"]) == 0
    assert capsys.readouterr().err == "not known: 'of', 'them'\nnot known: 'x'\n"


def test_the_table_has_a_line_for_each_language_that_is_written(several, capsys):
    trained(several, "--source", "digits,en", "--target", "de,fr", model="transformer")
    lines = [line.split() for line in table(capsys.readouterr().out).strip().splitlines()]
    counts = {line[0]: int(line[1]) for line in lines[1:]}
    assert counts["<de>"] == counts["<fr>"] == counts["all"] // 2


def test_one_language_among_others_needs_no_name(folder):
    translator = load_translator(folder)
    assert translator.settings.tags == ()
    assert translator.translate("drei", to="en") == translator.translate("drei")
    for ask in (translator.translate, translator.steps):
        with pytest.raises(ValueError, match="must be one of en, got 'de'"):
            ask("drei", to="de")


@pytest.mark.parametrize(
    ("data", "target", "offered"), [("dates", "iso", "one of iso"), ("pairs", "", "left out")]
)
def test_a_language_that_is_not_written_is_refused_whatever_the_data(data, target, offered):
    settings = PairSettings(data=data, target=target)
    words = f"the language to write must be {offered}, got 'fr'"
    for ask in (settings.split, settings.join):
        with pytest.raises(ValueError, match=words):
            ask("1969", to="fr")


# What it measures


def test_the_table_counts_what_is_right_overall_and_by_length():
    pairs = number_pairs("digits", "digits", count=40, digits=(1, 4))[0]
    settings = Seq2SeqSettings(
        source="digits", target="digits", max_length=4,
        source_tokens=tuple("0123456789"), target_tokens=tuple("0123456789"),
    )  # fmt: skip

    class Copies(torch.nn.Module):
        """Says what it reads, but of numbers of four digits only the first three."""

        def __init__(self):
            super().__init__()
            self.unused = torch.nn.Parameter(torch.zeros(1))

        def start(self, source, lengths):
            return Reading(source, 0)

        def step(self, tokens, state):
            source = torch.nn.functional.pad(state.source, (0, 9))
            following = source[:, state.position]
            ended = (following == 0) | torch.tensor(state.position == 3)
            logits = torch.nn.functional.one_hot(following.masked_fill(ended, 2), 14)
            return 50.0 * logits.float(), Reading(state.source, state.position + 1)

    class Reading:
        def __init__(self, source, position):
            self.source, self.position = source, position

        def select(self, index):
            return Reading(self.source[index], self.position)

    class Fake:
        model = Copies()
        source_vocab, target_vocab = settings.vocabularies()

    Fake.settings = settings
    with pytest.raises(ValueError, match="there must be at least one pair to measure, got none"):
        evaluate(Fake, [])
    lines = [line.split() for line in evaluate(Fake, pairs, bands=40).splitlines()]
    of_length = [[len(source) for source, _ in pairs].count(n) for n in (1, 2, 3, 4)]
    assert lines[0] == ["source", "tokens", "pairs", "exact", "match", "BLEU"]
    assert [line[0] for line in lines[1:]] == ["all", "1", "2", "3", "4"]
    assert [int(line[1]) for line in lines[1:]] == [len(pairs), *of_length]
    share = sum(of_length[:3]) / len(pairs)
    assert lines[1][2] == f"{share:.3f}"
    assert [line[2] for line in lines[2:]] == ["1.000", "1.000", "1.000", "0.000"]
    assert [line[3] for line in lines[2:5]] == ["100.0"] * 3
    assert float(lines[5][3]) < 80


def test_no_pair_is_on_both_sides():
    for settings in (
        Seq2SeqSettings(source="de", target="en", count=300, digits=(1, 4)),
        Seq2SeqSettings(data="dates", source="de", target="iso", count=300, style="long"),
    ):
        train, held_out = load_pairs(settings)
        assert len(train) + len(held_out) == 300
        assert not set(train) & set(held_out)


# Translating


def test_texts_are_translated_in_their_order(folder, capsys, monkeypatch):
    translator = load_translator(folder)
    texts = ["drei", "siebzig", "zwei"]
    expected = [translator.translate(text, beam_size=2) for text in texts]
    assert main(["translate", str(folder), texts[0], "--beam-size", "2", *texts[1:]]) == 0
    assert capsys.readouterr().out.splitlines() == expected
    monkeypatch.setattr(sys, "stdin", io.StringIO("\ufeffdrei\n\nsiebzig\r\nzwei"))
    assert main(["translate", str(folder), "--beam-size", "2"]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines() == [expected[0], "", *expected[1:]]
    assert said.err == ""


def test_what_is_not_known_is_said_and_translated_all_the_same(folder, capsys):
    assert main(["translate", str(folder), "siebzich und drei Milliarden siebzich", "drei"]) == 0
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == 2
    assert said.err == "not known: 'siebzich', 'Milliarden'\n"


def test_a_line_that_cannot_be_translated_is_named_and_the_others_are(
    tmp_path, capsys, monkeypatch
):
    learned = trained(tmp_path / "out", "--positions=learned", model="transformer")
    capsys.readouterr()
    monkeypatch.setattr(sys, "stdin", io.StringIO("drei\n" + "drei " * 99 + "\n\nf\udcfcnf\nzwei"))
    assert main(["translate", str(learned)]) == 1
    said = capsys.readouterr()
    translator = load_translator(learned)
    three, two = map(translator.translate, ("drei", "zwei"))
    assert said.out.splitlines() == [three, "", "", "", two]
    long, byte = said.err.splitlines()
    assert long.startswith("attn_notes.train: line 2: text must have at most ")
    assert byte == "attn_notes.train: line 4: byte 0xfc is no text in the terminal's encoding"


def test_of_several_texts_one_that_cannot_be_translated_is_named(folder, capsys):
    assert main(["translate", str(folder), "f\udcfcnf", "drei"]) == 1
    said = capsys.readouterr()
    assert said.out.splitlines() == ["", load_translator(folder).translate("drei")]
    assert said.err == "attn_notes.train: text 1: byte 0xfc is no text in the terminal's encoding\n"


@pytest.mark.parametrize("stdin", ["", "\n", "drei\ndrei\n"])
def test_a_language_that_is_not_written_is_refused_once_and_without_a_text(
    folder, capsys, monkeypatch, stdin
):
    monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
    assert main(["translate", str(folder), "--to", "fr"]) == 1
    words = "attn_notes.train: the language to write must be one of en, got 'fr'\n"
    assert one_line(capsys) == words


def test_another_weights_file_may_be_named(folder, capsys):
    assert main(["translate", str(folder), "--weights", "weights-0.safetensors", "drei"]) == 0
    untrained = load_translator(folder, weights="weights-0.safetensors")
    assert capsys.readouterr().out == untrained.translate("drei") + "\n"


# Mistakes


def test_help_shows_commands_a_reader_can_copy(capsys):
    for of in ([], ["seq2seq"], ["transformer"], ["translate"]):
        with pytest.raises(SystemExit) as caught:
            main([*of, "--help"])
        assert caught.value.code == 0
        out = capsys.readouterr().out
        assert "python -m attn_notes.train seq2seq --out german" in out
        assert max(map(len, out.splitlines())) <= 100


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("", "arguments are required: COMMAND"),
        ("paint", "invalid choice: 'paint'"),
        ("translate", "arguments are required: FOLDER"),
        ("translate f drei --paint blue", "unrecognized arguments: --paint blue"),
        ("translate f --beam-size 0", "--beam-size: must be a whole number, 1 or more, got '0'"),
        ("seq2seq", "arguments are required: --out"),
        ("seq2seq --out f --paint", "unrecognized arguments: --paint"),
        ("seq2seq --out f --steps 0", "--steps: must be a whole number, 1 or more, got '0'"),
        ("seq2seq --out f --steps 1e3", "--steps: must be a whole number, 1 or more, got '1e3'"),
        ("seq2seq --out f --lr nan", "--lr: must be a number from 1e-12 to 1000, got 'nan'"),
        ("seq2seq --out f --lr -1", "--lr: must be a number"),
        ("seq2seq --out f --dropout 1", "--dropout: must be a number from 0 to 0.99, got '1'"),
        ("seq2seq --out f --digits 3-1", "--digits: must be like 1-12, from 1 to 12, got '3-1'"),
        ("seq2seq --out f --digits 1-13", "--digits: must be like 1-12"),
        ("seq2seq --out f --digits a", "--digits: must be like 1-12"),
        ("seq2seq --out f --digits 1-", "--digits: must be like 1-12, from 1 to 12, got '1-'"),
        ("seq2seq --out f --threads 9999", "--threads: must be at most 1,024, got '9999'"),
        ("seq2seq --out f --snapshots 1,x", "--snapshots: must be a whole number, 0 or more"),
        ("seq2seq --out f --steps 60 --snapshots 61", "--snapshots must be from 0 to --steps"),
        ("seq2seq --out f --steps 50 --warmup 50", "--warmup must be below --steps, got 50 and 50"),
        ("seq2seq --out f --hidden-dim 7", "--hidden-dim must be even for two directions, got 7"),
        ("seq2seq --out f --dropout 0.5", "--dropout is between layers: it needs --layers 2"),
        ("seq2seq --out f --pairs x --data dates", "--data dates does not go with --pairs"),
        ("seq2seq --out f --pairs x --data numbers", "--data numbers does not go with --pairs"),
        ("seq2seq --out f --encoding latin-1", "--encoding is of --pairs"),
        (f"seq2seq --out f --seed {10**30}", "--seed: must be at most 1,000,000,000, got '1000"),
        (f"seq2seq --out f --seed {'9' * 5000}", "--seed: must be at most 1,000,000,000, got '99"),
        ("seq2seq --out f --score best", "--score: invalid choice: 'best'"),
        ("transformer --out f --heads 5", "--heads must divide --embed-dim, got 5 and 48"),
        ("transformer --out f --embed-dim 7 --heads 1", "--embed-dim must be even for --positions"),
        (
            "transformer --out f --embed-dim 12 --positions rotary",
            "--embed-dim over --heads must be even for --positions rotary, got 12 and 4",
        ),
        ("transformer --out f --score dot", "unrecognized arguments: --score dot"),
        ("transformer --out f --norm none", "--norm: invalid choice: 'none'"),
        ("transformer --out f --positions absolute", "--positions: invalid choice: 'absolute'"),
        ("transformer --out f --schedule noam --warmup 0", "noam needs a --warmup of 1 or more"),
        ("transformer --out f --schedule exponential", "--schedule: invalid choice: 'exponential'"),
        ("transformer --out f --label-smoothing 2", "--label-smoothing: must be a number from 0 t"),
        ("transformer --out f --weight-decay x", "--weight-decay: must be a number from 0 to 10"),
        ("seq2seq --out f --heads 2", "unrecognized arguments: --heads 2"),
        ("seq2seq --out f --style long", "--style does not go with numbers"),
        ("seq2seq --out f --data dates --digits 1-3", "--digits does not go with dates"),
        ("seq2seq --out f --data dates --balance 0.1", "--balance does not go with dates"),
        ("seq2seq --out f --balance 2", "--balance: must be a number from 0 to 1, got '2'"),
        ("seq2seq --out f --pairs x --source de", "--source does not go with pairs"),
    ],
)
def test_a_wrong_option_is_said_in_one_line(capsys, options, words):
    assert_wrong_option(capsys, options, words)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--source xx", "language must be one of de, digits"),
        ("--target en,xx", "language must be one of de, digits"),
        ("--target en,en", "target must be one language or several different, got ('en', 'en')"),
        ("--data dates --target en,fr", "fr, iso, ja, zh, got 'en,fr'"),
        ("--data dates --source xx", "locale must be one of de, en"),
        ("--count 2000 --digits 1-2", "count must be at most 100"),
        ("--count 5 --digits 1", "got 5 and 0; numbers of one digit are all trained on"),
        ("--count 1 --digits 2", "about one in ten, got 1 and 0; more pairs help"),
        ("--min-count 1000", "min_count must leave tokens to read and to write, got 1000, which l"),
        ("--device meta", "device must be one that computes, got 'meta'"),
        ("--device gpu", "device must name a device of this machine (cpu, cuda, mps), got 'gpu'"),
        ("--pairs {here}/missing", "missing: No such file or directory"),
        ("--pairs {here}/latin", "latin"),
        ("--pairs {here}", "Is a directory"),
        ("--out {here}/latin", "latin: File exists"),
        ("--out {here}/latin/below", "latin/below: Not a directory"),
    ],
)
def test_what_cannot_be_trained_is_said_in_one_line(capsys, tmp_path, options, words):
    (tmp_path / "latin").write_bytes("café\tcoffee\n".encode("latin-1"))
    asked = options.format(here=tmp_path).split()
    small = [] if {"--count", "--pairs"} & set(asked) else ["--count", "60"]
    device = [] if "--device" in asked else ["--device", "cpu"]
    steps = ["--steps", "2", "--warmup", "0", "--embed-dim", "4"]
    assert main(["seq2seq", "--out", str(tmp_path / "out"), *small, *device, *steps, *asked]) == 1
    assert words in one_line(capsys)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--lr", "0.5"], "with --lr 0.003, and --lr 0.5 is asked for"),
        (["--score", "dot"], "with --score additive, and --score dot is asked for"),
        (["--seed", "1"], "with --seed 0, and --seed 1 is asked for"),
        (["--target", "fr"], "with --target en, and --target fr is asked for"),
        (["--digits", "2"], "with --digits 1-2, and --digits 2-2 is asked for"),
        (["--unidirectional"], "--unidirectional"),
    ],
)
def test_a_folder_of_other_settings_is_left_alone(copy, capsys, options, words):
    before = {path.name: path.read_bytes() for path in copy.iterdir()}
    assert main(["seq2seq", *NUMBERS, *options, "--out", str(copy)]) == 1
    said = one_line(capsys)
    assert words in said
    assert "choose another --out, or the same settings" in said
    assert {path.name: path.read_bytes() for path in copy.iterdir()} == before


def test_a_folder_of_another_model_is_left_alone(copy, several, capsys):
    for folder, asked in ((copy, "transformer"), (several, "seq2seq")):
        before = contents(folder)
        assert main([asked, *NUMBERS, "--out", str(folder)]) == 1
        words = f", and {asked} is asked for: choose another --out"
        assert words in one_line(capsys)
        assert contents(folder) == before


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"settings.json": b'{"my": "settings"}'}, "settings.json must be the settings of a train"),
        ({"settings.json": b"// mine\n{}"}, "settings.json must be the settings of a training"),
        ({"weights.safetensors": b"mine"}, "got weights.safetensors without settings.json"),
        ({"checkpoint.pt": b"mine"}, "got checkpoint.pt without settings.json"),
    ],
)
def test_what_is_not_ours_is_left_alone(tmp_path, capsys, files, words):
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    assert main(["seq2seq", *NUMBERS, "--out", str(tmp_path)]) == 1
    assert words in one_line(capsys)
    assert contents(tmp_path) == files


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "holds the weights of this training, and no checkpoint.pt to go on from: choose"),
        (("--seed", "1"), "with --seed 0, and --seed 1 is asked for: choose another --out"),
    ],
)
def test_finished_weights_without_their_checkpoint_are_left_alone(copy, capsys, options, words):
    """So the models of the book are stored."""
    (copy / "checkpoint.pt").unlink()
    before = contents(copy)
    assert main(["seq2seq", *NUMBERS, *options, "--out", str(copy)]) == 1
    assert words in one_line(capsys)
    assert contents(copy) == before


def test_a_folder_with_other_things_in_it_may_be_trained_into(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    assert "notes.txt" in names(trained(tmp_path))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


@pytest.mark.parametrize(
    ("damage", "command", "words"),
    [
        (lambda f: cut(f / "checkpoint.pt"), "seq2seq", "must be a whole checkpoint, got one that"),
        (lambda f: cut(f / "settings.json"), "seq2seq", "must be the settings of a training, got"),
        (
            lambda f: (f / "settings.json").unlink(),
            "seq2seq",
            "must be empty or hold a training, got checkpoint.pt without settings.json",
        ),
        (
            lambda f: cut(f / "settings.json"),
            "translate",
            "must be the settings of a training, got",
        ),
        (lambda f: (f / "settings.json").write_text("[]"), "translate", "must be the settings"),
        (
            lambda f: (f / "settings.json").write_text('{"x": 1}'),
            "translate",
            "must be the settings",
        ),
        (lambda f: cut(f / "weights.safetensors"), "translate", "must be a whole safetensors file"),
        (lambda f: (f / "weights.safetensors").unlink(), "translate", "No such file or directory"),
        (shutil.rmtree, "translate", "No such file or directory"),
    ],
)
def test_a_damaged_folder_is_said_in_one_line(copy, capsys, damage, command, words):
    damage(copy)
    arguments = [*NUMBERS, "--out", str(copy)] if command == "seq2seq" else [str(copy), "drei"]
    assert main([command, *arguments]) == 1
    said = one_line(capsys)
    assert words in said
    assert str(copy) in said


WRONG = {
    "model": ["gpt", 3, ["seq2seq"], None],
    "data": ["dat", None, 3],
    "source": [None, 3],
    "target": [["en"]],
    "digits": [3, [1], [1, "2"], [1, 2, 3]],
    "balance": [2, "0"],
    "style": [3],
    "count": ["8", 0, 1.5],
    "min_count": [0, True],
    "score": ["best", None],
    "embed_dim": [0, "8"],
    "hidden_dim": ["8", -8, 8.0, None],
    "layers": [0],
    "unidirectional": [0, "no"],
    "dropout": [-0.1, 1.1, "0", True],
    "steps": [None],
    "batch_size": [0],
    "lr": [0, "fast", float("nan"), float("inf")],
    "warmup": [-1],
    "seed": [-1, "0"],
    "sentences": [None],
    "max_length": [0],
    "source_tokens": ["abc", [1], None],
    "target_tokens": [["a", None], {"a": 1}],
    "schedule": ["fast", None],
    "weight_decay": [-1, "0"],
    "label_smoothing": [-0.1, 1.1, None],
    "heads": [0, "4"],
    "norm": ["batch"],
    "positions": ["absolute", None],
    "activation": ["tanh"],
    "tie": [1, "yes"],
    "context": [0, "8"],
    "texts": [None],
    "tokens": ["abc", [1]],
}
OF_A_LANGUAGE_MODEL = {"context", "texts", "tokens"}
OF_A_TRANSFORMER = {"heads", "norm", "positions", "activation", "tie"}


@pytest.fixture
def copies(copy, several, tmp_path):
    """A folder of each model, or for a language model what stands in its settings."""
    (tmp_path / "writer").mkdir()
    write_settings(tmp_path / "writer" / "settings.json", LanguageModelSettings())
    return copy, shutil.copytree(several, tmp_path / "several"), tmp_path / "writer"


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, values in WRONG.items() for v in values])
def test_a_setting_that_cannot_be_is_said_in_one_line(copies, capsys, name, value):
    copy = copies[2 * (name in OF_A_LANGUAGE_MODEL) + (name in OF_A_TRANSFORMER)]
    stated = json.loads((copy / "settings.json").read_text(encoding="utf-8"))
    (copy / "settings.json").write_text(json.dumps(stated | {name: value}), encoding="utf-8")
    assert main(["translate", str(copy), "drei"]) == 1
    said = one_line(capsys)
    assert "settings.json must be the settings of a training, got: " in said
    assert f"{name} must be " in said


def test_every_setting_is_looked_at():
    looked_at = [name for *_, settings in _MUST for name in settings.split()]
    there = {"model"} | {field.name for kind in KINDS.values() for field in fields(kind)}
    assert sorted(looked_at) == sorted(there) == sorted(WRONG)


def test_a_file_that_names_no_model_is_of_the_first_there_was(copy):
    stated = json.loads((copy / "settings.json").read_text(encoding="utf-8"))
    assert stated.pop("model") == "seq2seq"
    del stated["schedule"], stated["label_smoothing"], stated["weight_decay"]
    before = read_settings(copy / "settings.json")
    (copy / "settings.json").write_text(json.dumps(stated), encoding="utf-8")
    assert read_settings(copy / "settings.json") == before


def test_sizes_of_which_no_transformer_can_be_made_are_said_in_one_line(several, tmp_path, capsys):
    copy = shutil.copytree(several, tmp_path / "copy")
    stated = json.loads((copy / "settings.json").read_text(encoding="utf-8"))
    (copy / "settings.json").write_text(json.dumps(stated | {"heads": 3}), encoding="utf-8")
    assert main(["translate", str(copy), "12"]) == 1
    assert "num_heads must divide embed_dim" in one_line(capsys)


def test_settings_of_no_model_build_none():
    with pytest.raises(TypeError, match="settings must be those of a model, got Settings"):
        build_model(Settings())


def test_settings_are_read_as_they_were_written(tmp_path):
    for settings in (
        Seq2SeqSettings(
            data="dates", source="de", target="iso", style="long", count=9, unidirectional=True
        ),
        Seq2SeqSettings(
            source="de", digits=(1, 12), dropout=0.5, layers=2, source_tokens=("ä", "b")
        ),
        Seq2SeqSettings(data="pairs", score="none", lr=1, warmup=0, dropout=0),
        TransformerSettings(source="digits,en", target="de,fr", positions="rotary", tie=False),
        LanguageModelSettings(tokens=("\n", " ", "é"), context=9, dropout=0.5, texts="ab"),
    ):
        write_settings(tmp_path / "s.json", settings)
        assert read_settings(tmp_path / "s.json") == settings


def test_a_token_that_is_there_twice_is_said_with_the_file(copy, capsys):
    stated = json.loads((copy / "settings.json").read_text(encoding="utf-8"))
    stated["source_tokens"][1] = stated["source_tokens"][0]
    (copy / "settings.json").write_text(json.dumps(stated), encoding="utf-8")
    assert main(["translate", str(copy), "drei"]) == 1
    assert "settings.json must be the settings of a training, got: every token" in one_line(capsys)


def test_an_output_that_cannot_be_written_is_said_in_one_line(folder, capsys, monkeypatch):
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main(["translate", str(folder), "drei"]) == 1
        assert one_line(capsys) == "attn_notes.train: No space left on device\n"


def test_a_text_beyond_all_memory_is_named_and_the_others_are_translated(
    folder, capsys, monkeypatch
):
    translate = Translator.translate

    def with_little_memory(self, text, **options):
        if len(text) > 9:
            raise RuntimeError("can't allocate\n memory")
        return translate(self, text, **options)

    monkeypatch.setattr(Translator, "translate", with_little_memory)
    assert main(["translate", str(folder), "drei " * 9, "drei"]) == 1
    said = capsys.readouterr()
    assert said.out.splitlines() == ["", load_translator(folder).translate("drei")]
    assert said.err == "attn_notes.train: text 1: can't allocate memory\n"


def test_what_python_has_no_memory_for_is_said_in_one_line(capsys, monkeypatch):
    def beyond_memory(*_, **__):
        raise MemoryError

    monkeypatch.setattr(command, "load_pairs", beyond_memory)
    assert main(["seq2seq", *NUMBERS, "--out", "nowhere"]) == 1
    assert one_line(capsys) == "attn_notes.train: MemoryError\n"


@contextmanager
def no_reader(monkeypatch):
    """Inside, stdout is a pipe whose other end is closed, as that of `| head` is in the end."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        yield


def test_where_nobody_reads_on_a_translation_ends_without_a_word(folder, capsys, monkeypatch):
    with no_reader(monkeypatch):
        assert main(["translate", str(folder), "drei"]) == 141
    assert capsys.readouterr().err == ""


def test_where_nobody_reads_on_a_training_says_how_to_go_on(tmp_path, capsys, monkeypatch):
    with no_reader(monkeypatch):
        assert main(["seq2seq", *NUMBERS, "--out", str(tmp_path / "out")]) == 141
    words = "nobody reads what is printed; the same command goes on from the last checkpoint\n"
    assert one_line(capsys) == f"attn_notes.train: {words}"


# Killed, interrupted, out of room


@pytest.fixture(scope="module", params=OF_PAIRS)
def report(tmp_path_factory, request):
    """See `tests.killed_trainings`."""
    place = tmp_path_factory.mktemp("killed")
    ran = subprocess.run(
        [sys.executable, "-m", "tests.killed_trainings", str(place), request.param],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[1],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def table(output: str) -> str:
    return output.split("on the pairs held out:")[1]


def test_a_training_that_was_killed_again_and_again_ends_the_same(report):
    assert [end for _, end, _ in report["kills"]] == [-9] * 8
    steps = [step for *_, step in report["kills"]]
    assert steps == sorted(steps)
    assert (
        len({step for step in steps if 0 < step < OPTIONS["steps"]}) >= 3
    )  # they were killed under way
    code, resumed, _ = report["resumed"]
    assert (code, table(resumed)) == (0, table(report["expected"][1]))
    uninterrupted, again, killed = report["weights"]
    assert uninterrupted == again == killed
    assert report["files"]["broken"] == report["files"]["whole"]


def test_control_c_says_how_to_go_on(report):
    code, said = report["interrupted"]
    assert code == 130
    assert said == "\nstopped; the same command goes on from the last checkpoint\n"


def test_a_full_disk_spoils_nothing(report):
    found = report["full disk"]
    if "impossible" in found:
        pytest.skip(found["impossible"])
    assert found["code"] == 1
    assert re.fullmatch(
        r"attn_notes\.train: cannot write \S+checkpoint\.pt: No space left on device\n",
        found["said"],
    )
    assert found["old files whole"]
    assert found["afterwards"] == [0, report["weights"][0]]


def as_a_command(monkeypatch, *arguments: str) -> object:
    """The code, or the words, that the command ends with."""
    monkeypatch.setattr(sys, "argv", ["train", *arguments])
    monkeypatch.delitem(sys.modules, "attn_notes.train.__main__", raising=False)  # other tests'
    with pytest.raises(SystemExit) as caught:
        runpy.run_module("attn_notes.train", run_name="__main__")
    return caught.value.code


def test_the_module_runs_as_a_command(monkeypatch, tmp_path, capsys):
    before = signal.getsignal(signal.SIGINT)
    assert as_a_command(monkeypatch, "translate", str(tmp_path)) == 1
    assert "settings.json: No such file or directory" in one_line(capsys)
    assert signal.getsignal(signal.SIGINT) == before


def test_no_encoding_of_a_terminal_ends_it(monkeypatch, folder):
    """Neither bytes that are no text in it, nor a text that has no bytes in it."""
    stdin = io.TextIOWrapper(io.BytesIO(b"drei\nf\xc3\xbcnf\n"), encoding="ascii")
    stdout = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdin", stdin)
    monkeypatch.setattr(sys, "stdout", stdout)
    assert as_a_command(monkeypatch, "translate", str(folder)) == 1
    assert as_a_command(monkeypatch, "--help") == 0
    stdout.flush()
    said = stdout.buffer.getvalue().decode("ascii")
    assert said.startswith(load_translator(folder).translate("drei") + "\n\nusage: ")
    assert "COMMAND \\u2026" in said


def test_a_closed_stream_is_an_empty_one(folder):
    """As in a shell's `<&- >&-`, which Python has None for."""
    command = [sys.executable, "-m", "attn_notes.train", "translate", str(folder), "--device=cpu"]
    ran = subprocess.run(
        ["/bin/sh", "-c", '"$@" <&- >&-', "sh", *command],
        stderr=subprocess.PIPE, check=False, cwd=Path(__file__).parents[1],
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("missing", "data"),
    [
        ("num2words", "numbers"),
        ("babel", "dates"),
        ("sacrebleu", "numbers"),
        ("attn_notes.train.command", "numbers"),
    ],
)
def test_a_package_that_is_missing_is_said_before_the_training(
    monkeypatch, tmp_path, missing, data
):
    for name in [*sys.modules]:
        if name.partition(".")[0] == missing or name == missing:
            monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, missing, None)
    _converter.cache_clear()
    options = ["--data", data, "--source=en", "--target=de", "--device=cpu"]
    said = as_a_command(monkeypatch, "seq2seq", *options, "--out", str(tmp_path / "out"))
    assert str(said).startswith("attn_notes.train: ")
    assert f"`python -m pip install {missing.partition('.')[0]}` brings it" in said
    assert not (tmp_path / "out").exists()


def test_control_c_while_torch_loads_ends_it_without_a_word():
    """The child says when its first module stands, and is stopped within the load of torch."""
    code = (
        "import runpy, sys; from importlib.abc import MetaPathFinder\n"
        "class Slow(MetaPathFinder):\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'torch':\n"
        "            print('loading', flush=True); sys.stdin.read()\n"
        "sys.meta_path.insert(0, Slow())\n"
        "sys.argv = ['train', '--help']\n"
        "runpy.run_module('attn_notes.train', run_name='__main__')\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, cwd=Path(__file__).parents[1],
    ) as child:  # fmt: skip
        assert child.stdout.readline() == b"loading\n"
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=60)
    assert child.returncode == -signal.SIGINT
    assert said == b""


def test_what_the_package_offers_is_loaded_when_it_is_asked_for():
    code = (
        "import sys, attn_notes, attn_notes.train; assert 'torch' not in sys.modules\n"
        "from attn_notes import *; from attn_notes.train import *\n"
        "print(get_device.__module__, show_source.__module__, Settings.__module__,"
        " load_translator.__module__, len(SCORES))\n"
        "for module in (attn_notes, attn_notes.train):\n"
        "    assert not hasattr(module, 'nothing') and set(module.__all__) <= set(dir(module))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        cwd=Path(__file__).parents[1],
    )  # fmt: skip
    homes = "attn_notes.device attn_notes.source attn_notes.train.settings"
    assert ran.stdout.split() == [*homes.split(), "attn_notes.train.translator", "6"]
