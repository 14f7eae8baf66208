"""The command line: what it leaves behind, what it says of a mistake, and what a kill cannot do."""

import io
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from attn_notes.data import END, number_pairs
from attn_notes.train import SCORES, Settings, Translator, build_model, load_translator
from attn_notes.train.command import main
from attn_notes.train.seq2seq import evaluate, load_pairs
from attn_notes.training import load_checkpoint, load_weights
from tests.test_training_checkpoints import names

SMALL = {"steps": 4, "warmup": 1, "batch-size": 8, "hidden-dim": 8, "embed-dim": 4}
QUICK = [f"--{name}={value}" for name, value in SMALL.items()] + ["--device=cpu"]
NUMBERS = ["--count", "60", "--digits", "1-2", *QUICK]


def trained(folder: Path, *options: str) -> Path:
    assert main(["seq2seq", *NUMBERS, *options, "--out", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A training of four steps, with snapshots before the first and after the second."""
    return trained(tmp_path_factory.mktemp("out") / "deep" / "er", "--snapshots", "0,2")


@pytest.fixture
def copy(folder, tmp_path):
    return shutil.copytree(folder, tmp_path / "copy")


def one_line(capsys) -> str:
    """What went to stderr: one line, and no traceback."""
    text = capsys.readouterr().err
    assert re.fullmatch(r"attn_notes\.train[^\n]*\n", text)
    assert "Traceback" not in text
    return text


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
    settings = Settings(
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


def test_dates_are_read_letter_by_letter(tmp_path):
    options = ["--data=dates", "--source=en", "--target=iso", "--count=40"]
    assert main(["seq2seq", *options, *QUICK, "--out", str(tmp_path)]) == 0
    tokens, _, _ = load_translator(tmp_path).steps(" July 21, 1969")
    assert "".join(tokens) == "July 21, 1969"


def test_one_seed_decides_everything(tmp_path):
    settings = Settings(source="de", target="en", source_tokens=("drei",), hidden_dim=4)
    one, same, other = (
        build_model(replace(settings, seed=seed)).decoder.out_proj.weight for seed in (1, 1, 2)
    )
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    path = trained(tmp_path / "out", "--seed", "5") / "checkpoint.pt"
    assert load_checkpoint(path)["settings"]["seed"] == 5


def test_the_step_that_says_the_end_has_no_row():
    settings = Settings(source="de", target="en", target_tokens=("three",), max_length=9)
    model = build_model(settings)
    with torch.no_grad():
        model.decoder.out_proj.bias[END] = 1e6
    tokens, said, weights = Translator(settings, model).steps("zwei Millionen")
    assert (tokens, said, weights.shape) == (("zwei", "Millionen"), (), (0, 2))


# What it measures


def test_the_table_counts_what_is_right_overall_and_by_length():
    pairs = number_pairs("digits", "digits", count=40, digits=(1, 4))[0]
    settings = Settings(
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
        Settings(source="de", target="en", count=300, digits=(1, 4)),
        Settings(data="dates", source="de", target="iso", count=300, style="long"),
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
    monkeypatch.setattr(sys, "stdin", io.StringIO("drei\n\nsiebzig\r\nzwei"))
    assert main(["translate", str(folder), "--beam-size", "2"]) == 0
    assert capsys.readouterr().out.splitlines() == [expected[0], "", *expected[1:]]


def test_another_weights_file_may_be_named(folder, capsys):
    assert main(["translate", str(folder), "--weights", "weights-0.safetensors", "drei"]) == 0
    untrained = load_translator(folder, weights="weights-0.safetensors")
    assert capsys.readouterr().out == untrained.translate("drei") + "\n"


# Mistakes


def test_help_shows_commands_a_reader_can_copy(capsys):
    for arguments in (["--help"], ["seq2seq", "--help"], ["translate", "--help"]):
        with pytest.raises(SystemExit) as caught:
            main(arguments)
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
        ("seq2seq --out f --snapshots 1,x", "--snapshots: must be a whole number, 0 or more"),
        ("seq2seq --out f --steps 60 --snapshots 61", "--snapshots must be from 0 to --steps"),
        ("seq2seq --out f --steps 50", "--warmup must be below --steps, got 50 and 50"),
        ("seq2seq --out f --score best", "--score: invalid choice: 'best'"),
        ("seq2seq --out f --style long", "--style does not go with numbers"),
        ("seq2seq --out f --data dates --digits 1-3", "--digits does not go with dates"),
        ("seq2seq --out f --pairs x --source de", "--source does not go with pairs"),
    ],
)
def test_a_wrong_option_is_said_in_one_line(capsys, options, words):
    with pytest.raises(SystemExit) as caught:
        main(options.split())
    assert caught.value.code == 2
    assert words in one_line(capsys)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--source xx", "language must be one of de, digits"),
        ("--data dates --source xx", "locale must be one of de, en"),
        ("--count 2000 --digits 1-2", "count must be at most 100"),
        ("--count 5 --digits 1", "pairs to hold out, about one in ten, got 5 and 0"),
        ("--hidden-dim 7", "hidden_dim must be even for two directions, got 7"),
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


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


@pytest.mark.parametrize(
    ("damage", "command", "words"),
    [
        (lambda f: cut(f / "checkpoint.pt"), "seq2seq", "must be a whole checkpoint, got one that"),
        (lambda f: cut(f / "settings.json"), "seq2seq", "must be the settings of a training, got"),
        (lambda f: (f / "settings.json").unlink(), "seq2seq", "No such file or directory"),
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


def test_an_output_that_cannot_be_written_is_said_in_one_line(folder, capsys, monkeypatch):
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main(["translate", str(folder), "drei"]) == 1
        assert one_line(capsys) == "attn_notes.train: No space left on device\n"


# Killed, interrupted, out of room


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """See `tests.killed_trainings`."""
    place = tmp_path_factory.mktemp("killed")
    ran = subprocess.run(
        [sys.executable, "-m", "tests.killed_trainings", str(place)],
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
    assert len({step for step in steps if 0 < step < 24}) >= 3  # they were killed under way
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


def test_the_module_runs_as_a_command(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(sys, "argv", ["train", "translate", str(tmp_path)])
    monkeypatch.delitem(sys.modules, "attn_notes.train.__main__", raising=False)  # other tests'
    with pytest.raises(SystemExit) as caught:
        runpy.run_module("attn_notes.train", run_name="__main__")
    assert caught.value.code == 1
    assert "settings.json: No such file or directory" in one_line(capsys)
