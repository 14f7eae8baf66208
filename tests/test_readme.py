"""What README and the other guides tell a reader to type can be typed."""

import re
import shlex
from pathlib import Path

import pytest
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers
from torch.distributed.run import get_args_parser

from attn_notes.cli.commands import main, parse
from attn_notes.transformer import DecoderOnly, TransformerConfig

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
PACKAGE = (ROOT / "attn_notes" / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = BLOCK.findall(README)
GUIDES = ["README.md", "CONTRIBUTING.md", "STYLE.md", "SECURITY.md"]
GUIDES += [f"book/{name}.md" for name in ("teaching", "beyond", "benchmarks", "colophon")]
# Enough to see that a training runs: the sizes that the README leaves to the defaults.
TINY = "--steps=4 --batch-size=8 --embed-dim=8 --device=cpu"
IN_BLOCKS = "--num-heads=2 --num-layers=1 --ffn-dim=8"
SIZES = {
    "seq2seq": f"{TINY} --count=60 --digits 1 2 --hidden-dim=8",
    "transformer": f"{TINY} --count=60 --digits 1 2 {IN_BLOCKS}",
    "language-model": f"{TINY} --max-length=16 {IN_BLOCKS}",
}


def lines(language: str) -> list[str]:
    """The lines of all blocks in a language, without comments."""
    text = "\n".join(block for kind, block in BLOCKS if kind == language)
    return [line for line in text.splitlines() if line and not line.startswith("::")]


COMMANDS = [shlex.split(line, comments=True) for line in lines("sh")]


def test_every_block_is_of_a_kind_that_is_tested_here():
    assert {kind for kind, _ in BLOCKS} == {"bat", "python", "sh"}
    tested = {"make", ".venv/bin/attn-notes", ".venv/bin/torchrun"}
    assert {words[0] for words in COMMANDS} == tested


@pytest.mark.parametrize("guide", GUIDES)
def test_every_target_variable_and_tool_that_a_guide_names_exists(guide):
    text = (ROOT / guide).read_text(encoding="utf-8")
    blocks = "\n".join(block for _, block in BLOCK.findall(text))
    typed = re.findall(r"`([^`\n]+)`", text) + re.split(r"\n| && ", blocks)
    known = {*re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE), "TORCH_INDEX", "\u2026"}
    known |= {*re.findall(r"\$\((\w+)\)", MAKEFILE)}
    for words in (line.split("#")[0].split() for line in typed):
        if words[:1] == ["make"]:
            assert {word.split("=")[0] for word in words[1:]} <= known, words
        for word in words:
            tool = word.replace("\\", "/")
            if re.fullmatch(r"tools/\w+\.py", tool):
                options = [one for one in words[words.index(word) :] if one.startswith("--")]
                source = (ROOT / tool).read_text(encoding="utf-8")
                assert all(f'"{option}"' in source for option in options), words


@pytest.mark.parametrize("guide", GUIDES[:4])
def test_every_link_within_the_repository_leads_to_a_file(guide):
    text = (ROOT / guide).read_text(encoding="utf-8")
    targets = re.findall(r"\]\((?!https://)([^)#]+)\)", text)
    assert [target for target in targets if not (ROOT / target).is_file()] == []


def test_the_film_moves_and_is_small_enough_to_load_at_once():
    (name,) = re.findall(r"!\[[^\]]{40,}\]\(([^)]+)\)", README)
    assert (ROOT / name).stat().st_size < 2_000_000
    with Image.open(ROOT / name) as film:
        assert film.n_frames > 8


def test_the_table_of_commands_names_every_target_of_the_makefile():
    targets = re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE)
    table = README.split("## All commands")[1]
    missing = [name for name in targets if f"`{name}`" not in table]
    assert not missing, f"the table in README.md under All commands lacks {missing}"


def test_every_command_for_several_processes_is_understood():
    jobs = [get_args_parser().parse_args(w[1:]) for w in COMMANDS if w[0].endswith("torchrun")]
    assert {(job.module, job.training_script) for job in jobs} == {(True, "attn_notes")}
    assert all(callable(parse(job.training_script_args)) for job in jobs)


def test_the_commands_run_one_after_the_other(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = "".join(f"It was line {n} of a novel.\n" for n in range(60))
    Path("novel.txt").write_text(text, encoding="utf-8")
    for words in COMMANDS:
        if words[0].endswith("attn-notes"):
            sizes = SIZES[words[2]].split() if words[1] == "train" else []
            assert main([*words[1:], *sizes]) == 0
            assert sizes or capsys.readouterr().out.strip()


def test_the_snippets_run_as_they_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sizes = {"vocab_size": 32, "embed_dim": 8, "num_heads": 2, "num_layers": 1, "ffn_dim": 8}
    words = ["?", "The", "keys", "to", "the", "cabinet", "are", "on", "table"]
    ids = {word: n for n, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    names = {"model": DecoderOnly(TransformerConfig(**sizes)).eval(), "tokenizer": tokenizer}
    snippets = [block for kind, block in BLOCKS + BLOCK.findall(PACKAGE) if kind == "python"]
    assert len(snippets) == 3
    for snippet in snippets:
        exec(snippet, names)
    assert "<attn-widget" in Path("attention.html").read_text(encoding="utf-8")
