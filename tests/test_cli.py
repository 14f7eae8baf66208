"""The command line: what it leaves behind, what it prints, and what it says of a mistake."""

import io
import json
import math
import re
import shutil
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import torch

import attn_notes
from attn_notes.stored import (
    Translator,
    build_model,
    load_language_model,
    load_translator,
)
from attn_train.__main__ import main
from attn_train.files import load_checkpoint
from attn_train.running import Job
from attn_train.settings import (
    Seq2SeqShape,
    Settings,
    Training,
    read_training,
)
from tests.test_training_files import contents, names

QUICK = ["--steps=4", "--batch-size=8", "--embed-dim=8", "--device=cpu"]
NUMBERS = ["--count=60", "--digits", "1", "2", *QUICK]
SMALL = ["--num-heads=2", "--num-layers=1", "--ffn-dim=8"]
TEXT = "".join(f"line {n} of a text of {n * n} lines\n" for n in range(60))


def seq2seq(out: Path, *options: str) -> int:
    return main(["train", "seq2seq", *NUMBERS, "--hidden-dim=8", *options, f"--out={out}"])


def writer(out: Path, *options: str, text: str | bytes = TEXT) -> int:
    """Train a language model on this text, in a file beside the folder of the training."""
    path = out.with_suffix(".txt")
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    sizes = [*QUICK, *SMALL, "--max-length=16", f"--text={path}"]
    return main(["train", "language-model", *sizes, *options, f"--out={out}"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A recurrent translator of four updates, with snapshots before the first and after two."""
    out = tmp_path_factory.mktemp("out") / "deep" / "er"
    assert seq2seq(out, "--snapshots", "0", "2") == 0
    return out


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    """A Transformer of four updates that reads two languages and writes two."""
    out = tmp_path_factory.mktemp("several")
    languages = ["--source=digits,en", "--target=de,fr"]
    assert main(["train", "transformer", *NUMBERS, *languages, *SMALL, f"--out={out}"]) == 0
    return out


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A language model of four updates."""
    out = tmp_path_factory.mktemp("writer")
    assert writer(out) == 0
    return out


def one_line(capsys) -> str:
    said = capsys.readouterr().err
    assert said.startswith("attn-notes: ")
    assert said.count("\n") == 1
    return said


# What a training leaves behind


def test_a_training_leaves_a_translator_behind(folder):
    assert names(folder) == {
        "checkpoint.pt", "settings.json", "weights.safetensors",
        "weights-0.safetensors", "weights-2.safetensors",
    }  # fmt: skip
    translator = load_translator(folder, device="cpu")
    settings = translator.spec
    assert (settings.kind, settings.model["hidden_dim"]) == ("seq2seq", 8)
    tokens, said, weights = translator.steps("siebzehn")
    assert tokens == ("siebzehn",)
    assert weights.shape == (len(said), 1)
    assert not translator.model.training
    untrained = load_translator(folder, weights="weights-0.safetensors").model.state_dict()
    for name, tensor in build_model(settings).state_dict().items():
        assert torch.equal(untrained[name], tensor)


def test_weights_of_another_model_and_half_a_file_are_refused_by_name(folder, several, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "copy")
    for content in (
        (several / "weights.safetensors").read_bytes(),
        (folder / "weights.safetensors").read_bytes()[:-9],
    ):
        (copy / "weights.safetensors").write_bytes(content)
        with pytest.raises(ValueError, match=re.escape(f"{copy / 'weights.safetensors'} must")):
            load_translator(copy)


def test_the_same_command_again_changes_nothing_and_more_steps_go_on(folder, tmp_path, capsys):
    copy = shutil.copytree(folder, tmp_path / "copy")
    assert seq2seq(copy, "--snapshots", "0", "2") == 0
    assert f"continuing the training in {copy}" in capsys.readouterr().out
    assert contents(copy) == contents(folder)
    assert seq2seq(copy, "--steps=7") == 0
    losses = load_checkpoint(copy / "checkpoint.pt")["losses"]
    assert losses[:4] == load_checkpoint(folder / "checkpoint.pt")["losses"]
    assert len(losses) == read_training(copy).training.steps == 7


def test_losses_and_table_are_in_one_unit(tmp_path, capsys):
    assert writer(tmp_path / "out", "--checkpoint-every=2") == 0
    said = capsys.readouterr()
    on_the_way = re.findall(r"^step \d of 4: (\S+) .*, held out (\S+)$", said.out, re.MULTILINE)
    losses = load_checkpoint(tmp_path / "out" / "checkpoint.pt")["losses"]
    in_bits = [f"{losses[n] / math.log(2):.3f}" for n in (1, 3)]
    assert [trained for trained, _ in on_the_way] == in_bits
    found = re.findall(r"^held out, (.*): (\S+) bits per character$", said.out, re.MULTILINE)
    assert dict(found)["this model"] == on_the_way[-1][1]
    assert len(found) == 4
    assert said.err == ""  # no warning, either


def test_a_text_whose_passages_stand_on_both_sides_is_warned_of(tmp_path, capsys):
    assert writer(tmp_path / "out", text=TEXT[:400] * 6) == 0
    assert "held-out characters stand in the training texts too" in one_line(capsys)


@pytest.mark.parametrize("name", ["linear", "cosine", "inverse-sqrt", "constant"])
def test_every_schedule_warms_up_for_half_of_the_steps_at_most(name):
    schedule = Training(schedule=name, warmup=50, steps=8).factors()
    assert [schedule(step) for step in range(4)] == [0.25, 0.5, 0.75, 1.0]


@pytest.mark.parametrize("score", ["concat", "bilinear", "dot", "scaled", "gaussian", "none"])
@pytest.mark.parametrize("bidirectional", [True, False])
def test_every_score_fits_both_encoders(score, bidirectional):
    shape = Seq2SeqShape(score=score, bidirectional=bidirectional, hidden_dim=8, num_layers=2)
    words = ("drei",), ("three",)
    model = build_model(Settings(model=shape, training=Training(), vocabularies=words).spec())
    logits, _ = model(torch.tensor([[4, 4]]), torch.tensor([2]), torch.tensor([[1, 4]]))
    assert logits.shape == (1, 2, 5)


# Data of the reader's own


def test_a_reader_trains_on_pairs_of_their_own_in_any_encoding(tmp_path, capsys):
    pairs, out = tmp_path / "pairs.txt", tmp_path / "out"
    lines = [f"été {n}\tsummer {n}" for n in range(40)]
    pairs.write_text("\n".join([*lines, "no tab"]), encoding="latin-1")
    command = ["train", "seq2seq", f"--pairs={pairs}", *QUICK, "--hidden-dim=8", f"--out={out}"]
    assert main(command) == 2
    assert f"{pairs} must be text in utf-8, got byte 0xe9 in line 1" in one_line(capsys)
    assert not out.exists()
    with pytest.warns(UserWarning, match="40 pairs kept, 1 lines skipped"):
        assert main([*command, "--encoding=latin-1"]) == 0
    assert "été" in load_translator(out).source_vocab.tokens
    pairs.write_text("\n".join(lines[1:]), encoding="latin-1")
    assert main([*command, "--encoding=latin-1"]) == 2
    assert "holds a training with digest of the data" in one_line(capsys)


# Translating


def test_texts_and_lines_of_stdin_are_translated_and_what_fails_named(folder, capsys, monkeypatch):
    assert main(["translate", str(folder), "drei", "--device=cpu"]) == 0
    (alone,) = capsys.readouterr().out.splitlines()
    split = Translator.split

    def fragile(self, text, to=None):
        if text == "vier":
            raise RuntimeError("too much of it")
        return split(self, text.strip(), to)

    monkeypatch.setattr(Translator, "split", fragile)
    assert main(["translate", str(folder), "drei", "vier", "drei", "--device=cpu"]) == 1
    said = capsys.readouterr()
    assert said.out.splitlines() == [alone, "", alone]
    assert said.err == "attn-notes: line 2: too much of it\n"
    monkeypatch.setattr(sys, "stdin", io.StringIO("drei\n\nvier und x\n"))
    assert main(["translate", str(folder), "--device=cpu"]) == 0
    found = capsys.readouterr()
    assert found.out.splitlines()[:2] == [alone, ""]
    assert len(found.out.splitlines()) == 3
    assert found.err == "attn-notes: not known: 'x'\n"


def test_of_several_languages_the_first_is_written_or_the_one_that_is_asked_for(several, capsys):
    assert load_translator(several).steps("7", to="fr")[0] == ("<fr>", "7")
    assert load_translator(several).steps("seven")[0] == ("<de>", "seven")
    assert main(["translate", str(several), "7", "--to=es", "--device=cpu"]) == 2
    assert "the language to write must be one of ['de', 'fr'], got 'es'" in one_line(capsys)


def test_the_attention_of_every_layer_and_head_can_be_read(several, folder):
    translator = load_translator(several, device="cpu")
    tokens, said, weights = translator.attention("12", to="fr")
    S, T = len(tokens), len(said)
    assert tokens == ("<fr>", "1", "2")
    for kind, shape in zip(weights, [(2, S, S), (2, T, T), (2, T, S)], strict=True):
        assert [layer.shape for layer in kind] == [shape]
        torch.testing.assert_close(kind[0].sum(-1), torch.ones(shape[:2]))
    mean = torch.stack(weights.cross).mean(dim=(0, 1))
    torch.testing.assert_close(translator.steps("12", to="fr")[2], mean)
    with pytest.raises(TypeError, match="the model must be a Transformer, got Seq2Seq"):
        load_translator(folder).attention("drei")


# Writing


@pytest.mark.parametrize("how", [{}, {"temperature": 0.5, "top_k": 3, "seed": 2}])
def test_the_seed_and_the_temperature_decide_what_is_written(written, capsys, how):
    options = [f"--{name.replace('_', '-')}={value}" for name, value in how.items()]
    command = ["sample", str(written), "line 1é", "--length=30", "--device=cpu"]
    assert main([*command, *options]) == 0
    said = capsys.readouterr()
    model = load_language_model(written, device="cpu")
    expected = model.sample("line 1é", length=30, **{"temperature": 1.0} | how)
    assert said.out == f"line 1é{expected}\n"
    assert said.err == "attn-notes: not known: 'é'\n"


def test_beyond_its_window_a_model_goes_on_from_the_last_half(written):
    model = load_language_model(written, device="cpu")
    read = []
    model.model.body.register_forward_pre_hook(lambda _, inputs: read.append(inputs[0].shape[1]))
    assert len(model.sample("line " * 10, length=40)) <= 40
    assert max(read) <= model.model.config.max_length
    assert read[0] == 8


# What is wrong is said in one message, and nothing is lost


@pytest.mark.parametrize(
    "option",
    ["--data=pairs", "--hidden-dim=7", "--count=1", "--device=abacus", "--lr=-1", "--warmup=-1"],
)
def test_an_impossible_value_is_one_line_and_leaves_no_folder(tmp_path, capsys, option):
    assert seq2seq(tmp_path / "out", option) == 2
    one_line(capsys)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("out", ["", ".", ".."])
def test_a_folder_that_holds_this_one_is_refused(tmp_path, capsys, monkeypatch, out):
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    assert seq2seq(out) == 2
    assert "a folder of its own" in one_line(capsys)
    assert [*tmp_path.rglob("*")] == [here]


def test_a_folder_without_the_model_that_is_asked_for_is_named(folder, written, tmp_path, capsys):
    shutil.copy(folder / "settings.json", tmp_path)
    for use, place, code in (
        *(("sample", "nowhere", 1), ("translate", "nowhere", 1), ("translate", tmp_path, 1)),
        *(("sample", folder, 2), ("translate", written, 2)),
    ):
        assert main([use, str(place), "a"]) == code
        assert str(place) in one_line(capsys)


@pytest.mark.parametrize(
    ("options", "there", "words"),
    [
        (["--lr=0.5"], {}, "lr 0.003, got 0.5"),
        (["--source=fr"], {}, "source de, got fr"),
        (["--hidden-dim=4"], {}, "hidden_dim 8, got 4"),
        (["--lr=0.5"], {"checkpoint.pt": None, "weights.safetensors": None}, "lr 0.003, got 0.5"),
        (["--steps=3"], {}, "at most 3 steps, got 4"),
        (["--steps=9"], {"checkpoint.pt": b"damaged"}, "complete checkpoint"),
        ([], {"checkpoint.pt": None}, "weights without a checkpoint"),
        ([], {"checkpoint.pt": None, "weights.safetensors": None}, "weights without a checkpoint"),
        ([], {"settings.json": b"{}"}, "settings of a training"),
    ],
)
def test_what_a_folder_holds_is_never_lost(folder, tmp_path, capsys, *, options, there, words):
    """With another training, a shorter or a damaged one there, and with parts of this one."""
    copy = shutil.copytree(folder, tmp_path / "copy")
    for name, content in there.items():
        (copy / name).unlink() if content is None else (copy / name).write_bytes(content)
    before = contents(copy)
    assert seq2seq(copy, *options) == 2
    assert words in one_line(capsys)
    assert contents(copy) == before


@pytest.mark.parametrize("changed", ["no JSON", '{"kind": "poet"}', "pace", "score"])
def test_settings_are_validated_on_load(folder, tmp_path, changed):
    stated = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
    spoilt = {"pace": stated | {"pace": 3}, "score": stated | {"model": {"score": "loud"}}}
    text = json.dumps(spoilt[changed]) if changed in spoilt else changed
    (tmp_path / "settings.json").write_text(text)
    with pytest.raises(ValueError, match=r"settings\.json must be the settings of a training"):
        read_training(tmp_path)


# As it is called


def test_the_console_script_says_the_version_of_the_package(capsys):
    (script,) = entry_points(group="console_scripts", name="attn-notes")
    assert script.load()(["--version"]) == 0
    assert capsys.readouterr().out == f"attn-notes {attn_notes.__version__}\n"


@pytest.mark.slow
def test_where_a_library_is_missing_one_line_says_how_to_install_it():
    code = """
import sys
sys.modules |= dict.fromkeys(["tyro", "safetensors", "tqdm", "sacrebleu", "num2words"])
from attn_train.__main__ import main
sys.exit(main(["--help"]))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.count("\n") == 1
    assert "pip install -e '.[train]'" in ran.stderr


def test_ctrl_c_is_one_line(folder, capsys, monkeypatch):
    def interrupted(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(Job, "train", interrupted)
    assert seq2seq(folder) == 130
    assert "the same train command goes on from the last checkpoint" in one_line(capsys)
