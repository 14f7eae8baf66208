"""The commands of language models: what they leave, what they write, and what they say."""

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
import torch
from attn_notes.train import (
    LanguageModel,
    LanguageModelSettings,
    build_model,
    load_language_model,
    load_translator,
    stopping,
    writing,
)
from attn_notes.train.command import main
from attn_notes.train.evaluation import _first
from attn_notes.train.stopping import Stop, going_on, listening
from attn_notes.train.stored import write_settings
from attn_notes.train.texts import load_texts
from attn_notes.training.updates import Updates

from attn_notes.data import END, START, UNKNOWN, split_text
from attn_notes.decoding import sample
from attn_notes.ngrams import NGramModel
from attn_notes.training import bits_per_character, fit, load_checkpoint
from tests.commands import assert_wrong_option, one_line
from tests.several_processes import Known, until_heard

TEXT = "".join(f"{n} times {n} is {n * n}\n" for n in range(99))
SMALL = {
    "context": 8, "layers": 1, "embed-dim": 8, "hidden-dim": 16, "heads": 2, "steps": 6,
    "warmup": 2, "batch-size": 8, "device": "cpu",
}  # fmt: skip
OPTIONS = [f"--{name}={value}" for name, value in SMALL.items()]


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "own.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


def trained(text: Path, folder: Path, *options: str) -> Path:
    command = ["language-model", *OPTIONS, "--text", str(text), *options, "--out", str(folder)]
    assert main(command) == 0
    return folder


@pytest.fixture(scope="module")
def folder(text, tmp_path_factory):
    return trained(text, tmp_path_factory.mktemp("writer") / "out", "--snapshots", "0,3")


# What a training leaves behind


def test_it_leaves_a_language_model_behind(folder):
    writer = load_language_model(folder, device=torch.device("cpu"))
    s, config = writer.settings, writer.model.config
    assert (s.context, s.heads, s.positions, s.steps) == (8, 2, "learned", 6)
    assert (config.max_length, config.norm, config.tie_embeddings) == (8, "pre", True)
    assert {*writer.vocab.tokens} == {*split_text([TEXT])[0][0]}
    assert not writer.model.training
    snapshots = [path.name for path in sorted(folder.glob("weights-*"))]
    assert snapshots == ["weights-0.safetensors", "weights-3.safetensors"]


def test_it_prints_sizes_and_what_the_model_is_worth(text, tmp_path, capsys):
    folder = trained(text, tmp_path / "out")
    out = capsys.readouterr().out
    train, held_out = split_text([TEXT])
    writer = load_language_model(folder, device=torch.device("cpu"))
    sizes = f"{len(train[0]):,} to train on, {len(held_out[0]):,} held out"
    assert f"characters: {sizes}, {len(writer.vocab.tokens)} different ones\n" in out
    assert "on cpu, in float32\n" in out
    own = bits_per_character(writer.model, held_out, writer.vocab, length=8)
    grams = [NGramModel(n, train, writer.vocab).bits_per_character(held_out) for n in (1, 3, 5)]
    expected = [f"{bits:.3f}" for bits in (own, *grams)]
    table = out.partition("held-out bits per character\n")[2]
    assert [row.split()[-1] for row in table.splitlines()] == expected


def test_counts_are_of_so_many_characters_at_most():
    assert _first(["abc", "", "de", "f"], 4) == ["abc", "", "d"]
    assert _first(["abc"], 9) == ["abc"]


def test_without_a_text_it_reads_pythons_documentation():
    train, held_out = load_texts()
    assert sum(map(len, train)) > 300_000
    assert held_out


def test_several_texts_are_several_documents(text, tmp_path, capsys):
    other = tmp_path / "other.txt"
    other.write_text("another text\n" * 20, encoding="utf-8")
    assert len(load_texts([text, other])[0]) == 2
    out = trained(text, tmp_path / "out", str(other))  # --text takes more than one
    assert "a" in load_language_model(out).vocab.tokens


def test_options_reach_the_model_and_the_training(text, tmp_path, monkeypatch):
    asked = {}

    def watched(*arguments, **keywords):
        asked.update(keywords)
        return fit(*arguments, **keywords)

    monkeypatch.setattr("attn_notes.train.run.fit", watched)
    options = [
        "--norm=post", "--positions=rotary", "--activation=gelu_tanh", "--no-tie", "--dropout=0.2",
        "--weight-decay=0.01", "--precision=bfloat16", "--checkpoint-every=5", "--seed=3",
        "--label-smoothing=0.5",
    ]  # fmt: skip
    config = load_language_model(trained(text, tmp_path / "out", *options)).model.config
    assert (config.norm, config.positions, config.activation) == ("post", "rotary", "gelu_tanh")
    assert (config.tie_embeddings, config.dropout) == (False, 0.2)
    assert (asked["precision"], asked["compile"], asked["weight_decay"]) == (
        "bfloat16",
        False,
        0.01,
    )
    assert (asked["checkpoint_every"], asked["seed"]) == (5, 3)
    there = load_checkpoint(tmp_path / "out" / "checkpoint.pt")
    smoothed = there["losses"][0]
    again = load_checkpoint(trained(text, tmp_path / "b", *options[:-1]) / "checkpoint.pt")[
        "losses"
    ][0]
    assert smoothed != again


def test_the_first_weights_are_those_of_the_seed():
    one, same, other = (
        build_model(LanguageModelSettings(tokens=("a",), seed=seed)).out_proj.weight
        for seed in (1, 1, 2)
    )
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


@pytest.mark.parametrize(
    ("device", "capability", "triton", "expected"),
    [
        ("cpu", (9, 0), True, ("float32", False)),
        ("mps", (9, 0), True, ("float32", False)),
        ("cuda", (9, 0), True, ("bfloat16", True)),
        ("cuda", (9, 0), False, ("bfloat16", False)),
        ("cuda", (7, 5), True, ("float16", True)),
        ("cuda", (6, 1), True, ("float16", False)),
    ],
)
def test_a_gpu_decides_on_precision_and_compiling(
    monkeypatch, device, capability, triton, expected
):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: object() if triton else None)
    device = torch.device(device)
    assert (writing._precision(device), writing._can_compile(device)) == expected


# Writing


def test_the_prompt_and_what_follows_are_printed(folder, capsys):
    arguments = ["sample", str(folder), "3 times ", "--length", "30", "--seed", "5"]
    assert main([*arguments, "--top-k", "3", "--top-p", "0.9", "--temperature", "0.5"]) == 0
    said = load_language_model(folder).sample(
        "3 times ", length=30, seed=5, top_k=3, top_p=0.9, temperature=0.5
    )
    assert capsys.readouterr().out == f"3 times {said}\n"


def test_other_weights_and_no_prompt(folder, capsys):
    assert main(["sample", str(folder), "--weights", "weights-0.safetensors"]) == 0
    untrained = load_language_model(folder, weights="weights-0.safetensors")
    assert capsys.readouterr().out == untrained.sample() + "\n"


def test_the_seed_decides_and_leaves_the_callers_numbers_alone(folder):
    writer = load_language_model(folder)
    state = torch.get_rng_state()
    assert writer.sample("1", seed=1) == writer.sample("1", seed=1) != writer.sample("1", seed=2)
    assert torch.equal(torch.get_rng_state(), state)


def never_ending(context: int, positions: str = "learned") -> LanguageModel:
    """A model that writes a and b and nothing else."""
    settings = LanguageModelSettings(
        tokens=("a", "b"), context=context, layers=1, embed_dim=8, tie=False, positions=positions
    )
    model = build_model(settings)
    with torch.no_grad():
        model.body.norm.bias.fill_(1.0)
        model.out_proj.weight[:4] = -1e3
    return LanguageModel(settings, model)


def test_within_the_context_it_is_what_sample_draws():
    writer = never_ending(9)
    source = torch.tensor([[START, 4, 5]])
    generator = torch.Generator().manual_seed(2)
    found = sample(
        writer.model, source, torch.tensor([3]), max_length=7, temperature=0.8, generator=generator
    )
    assert writer.sample("ab", length=7, seed=2) == "".join(writer.vocab.decode(found.tokens[0]))


@pytest.mark.parametrize("context", [1, 2, 5, 8])
@pytest.mark.parametrize("prompt", ["", "ab", "ab" * 20])
def test_beyond_the_context_it_goes_on_from_the_last_half(monkeypatch, context, prompt):
    writer, read = never_ending(context), []
    start = writer.model.start
    monkeypatch.setattr(
        writer.model, "start", lambda x, n: read.append(x[0].tolist()) or start(x, n)
    )
    for length in (1, 7, 33):
        read.clear()
        said = writer.sample(prompt, length=length)
        assert len(said) == length
        assert {*said} <= {"a", "b"}
        whole = [START, *writer.vocab.encode(iter(prompt + said))]
        end = len(prompt) + 1
        for seen in read:
            assert len(seen) == (end if end <= context else max(1, context // 2))
            assert seen == whole[end - len(seen) : end]
            end += context + 1 - len(seen)


def test_it_stops_at_the_end_of_a_text():
    writer = never_ending(9)
    with torch.no_grad():
        writer.model.out_proj.weight[END] = 1e3
    assert writer.sample("ab") == ""


def test_what_is_not_known_is_said_and_read_all_the_same(folder, capsys):
    assert main(["sample", str(folder), "7 Ärzte Ä", "--length", "4"]) == 0
    said = capsys.readouterr()
    assert said.err == "not known: 'Ä', 'r', 'z'\n"
    writer = load_language_model(folder)
    assert writer.vocab.encode(["Ä"]) == [UNKNOWN]


def test_a_text_of_no_length_is_refused(folder):
    with pytest.raises(ValueError, match="length must be 1 or more, got 0"):
        load_language_model(folder).sample(length=0)


# Mistakes


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("language-model", "arguments are required: --out"),
        ("language-model --out f --encoding utf-8", "--encoding is of --text"),
        ("language-model --out f --heads 3", "--heads must divide --embed-dim, got 3 and 128"),
        (
            "language-model --out f --steps 9 --warmup 9",
            "--warmup must be below --steps, got 9 and",
        ),
        ("language-model --out f --context 0", "--context: must be a whole number, 1 or more"),
        ("language-model --out f --precision int8", "--precision: invalid choice: 'int8'"),
        ("language-model --out f --digits 3", "unrecognized arguments: --digits 3"),
        ("sample", "arguments are required: FOLDER"),
        ("sample f x y", "unrecognized arguments: y"),
        ("sample f --length 0", "--length: must be a whole number, 1 or more, got '0'"),
        ("sample f --temperature 0", "--temperature: must be a number from 1e-06 to 1e+06, got"),
        ("sample f --top-k 0", "--top-k: must be a whole number, 1 or more, got '0'"),
        ("sample f --top-p 1.5", "--top-p: must be a number from 1e-09 to 1, got '1.5'"),
    ],
)
def test_a_wrong_option_is_said_in_one_line(capsys, options, words):
    assert_wrong_option(capsys, options, words)


def test_of_several_processes_the_first_alone_says_it(capsys, monkeypatch):
    for number, words in (("0", "--out"), ("1", "")):
        monkeypatch.setenv("RANK", number)
        with pytest.raises(SystemExit) as caught:
            main(["language-model"])
        assert caught.value.code == 2
        said = capsys.readouterr().err
        assert (words in said) if words else said == ""


def test_help_shows_how_to_train_on_eight_gpus(capsys):
    for of in ("language-model", "sample"):
        with pytest.raises(SystemExit) as caught:
            main([of, "--help"])
        assert caught.value.code == 0
        out = capsys.readouterr().out
        assert "torchrun --standalone --nproc-per-node 8 -m attn_notes.train language-model" in out
        assert max(map(len, out.splitlines())) <= 100


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        (b"fine\nca\xe9\n", [], "own.txt:2: "),
        (b"fine\0\n", [], "own.txt:1: "),
        (b"", [], "own.txt must "),
        (b"short\n", [], "got 7 ids and a window of 9"),
        (b"a text\n" * 99, ["--min-count", "999999"], "min_count must leave a character"),
        (b"a text\n" * 99, ["--encoding", "martian"], "martian"),
        (b"a text\n" * 99, ["--device", "meta"], "device must be one that computes"),
        (None, [], "own.txt: No such file or directory"),
    ],
)
def test_what_cannot_be_learnt_from_is_said_in_one_line(tmp_path, capsys, content, options, words):
    path, out = tmp_path / "own.txt", tmp_path / "out"
    if content is not None:
        path.write_bytes(content)
    command = ["language-model", *OPTIONS, "--text", str(path), *options, "--out", str(out)]
    assert main(command) == 1
    assert words in one_line(capsys)
    assert not out.exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--context", "9"], "with --context 8, and --context 9 is asked for"),
        (["--seed", "1"], "with --seed 0, and --seed 1 is asked for"),
        (["--precision", "bfloat16"], "got precision float32 there and bfloat16 here"),
    ],
)
def test_a_folder_of_other_settings_is_left_alone(folder, text, capsys, options, words):
    copy = shutil.copytree(folder, folder.with_name(f"copy{options[0]}"))
    before = {path.name: path.read_bytes() for path in copy.iterdir()}
    command = ["language-model", *OPTIONS, "--text", str(text), *options, "--out", str(copy)]
    assert main(command) == 1
    assert words in one_line(capsys)
    assert {path.name: path.read_bytes() for path in copy.iterdir()} == before


def test_other_texts_are_other_settings(folder, tmp_path, capsys):
    other = tmp_path / "own.txt"
    other.write_text(TEXT + "more\n", encoding="utf-8")
    command = ["language-model", *OPTIONS, "--text", str(other), "--out", str(folder)]
    assert main(command) == 1
    assert "with other texts than those given now" in one_line(capsys)


def test_folders_of_other_models_are_told_apart(folder, tmp_path, capsys):
    assert main(["translate", str(folder), "drei"]) == 1
    assert f"{folder} must hold a translator, got a language-model" in one_line(capsys)
    with pytest.raises(ValueError, match="must hold a translator, got a language-model"):
        load_translator(folder)
    write_settings(tmp_path / "settings.json", build_settings())
    assert main(["sample", str(tmp_path)]) == 1
    assert f"{tmp_path} must hold a language-model, got a seq2seq" in one_line(capsys)


def build_settings():
    from attn_notes.train import Seq2SeqSettings

    return Seq2SeqSettings(source="de", target="en")


def test_translators_are_trained_in_one_process(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main(["seq2seq", "--out", str(tmp_path / "out"), "--device", "cpu"]) == 1
    assert "must be trained in one process, got several of torchrun" in one_line(capsys)


# Told to stop


def test_a_signal_ends_it_after_the_step_with_a_checkpoint(text, tmp_path, monkeypatch, capsys):
    whole = load_checkpoint(trained(text, tmp_path / "whole") / "checkpoint.pt")["losses"]
    descend, calls = Updates.descend, iter(range(99))

    def told(self, loss):
        if next(calls) == 3:
            os.kill(os.getpid(), signal.SIGTERM)
            until_heard()
        return descend(self, loss)

    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    out = tmp_path / "out"
    command = ["language-model", *OPTIONS, "--text", str(text), "--out", str(out)]
    with monkeypatch.context() as patched:
        patched.setattr(Updates, "descend", told)
        patched.setattr(stopping, "Stop", Known)
        assert main(command) == 143
    said = one_line(capsys)
    assert f"stopped after step 4 of 6; {going_on(out / 'checkpoint.pt')}" in said
    assert said.endswith("holds 4 steps; the same command goes on from there\n")
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
    assert main(command) == 0
    assert load_checkpoint(out / "checkpoint.pt")["losses"] == whole


def test_nothing_is_heard_outside_the_main_thread():
    import threading

    found = []

    def listen():
        with listening(lambda: "") as stop:
            found.append(stop())

    thread = threading.Thread(target=listen)
    thread.start()
    thread.join()
    assert found == [False]


def test_a_damaged_checkpoint_is_no_promise(tmp_path):
    path = tmp_path / "checkpoint.pt"
    path.write_bytes(b"cut")
    assert going_on(path) == f"{path} cannot be read"


def test_the_code_is_the_shells_for_the_signal():
    stop = Stop()
    assert (stop(), stop.code) == (False, 143)  # another process was told
    stop.signal = signal.SIGINT
    assert (stop(), stop.code) == (True, 130)


def test_settings_are_in_the_folder_as_text(folder):
    stated = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
    assert stated["model"] == "language-model"
    assert sys.getsizeof(stated["texts"]) > 64  # a digest
