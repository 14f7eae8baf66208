"""What README tells a reader to type can be typed, and the guides' links lead somewhere."""

import re
import shlex
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from attn_notes.transformer import DecoderOnly, TransformerConfig
from attn_train.commands import main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PACKAGE = (ROOT / "attn_notes" / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = BLOCK.findall(README)
GUIDES = ["README.md", "CONTRIBUTING.md", "STYLE.md", "SECURITY.md"]
# Enough to see that a training runs: the sizes that the README leaves to the defaults.
TINY = "--steps=4 --batch-size=8 --embed-dim=8 --device=cpu"
IN_BLOCKS = "--num-heads=2 --num-layers=1 --ffn-dim=8"
SIZES = {
    "seq2seq": f"{TINY} --count=60 --digits 1 2 --hidden-dim=8",
    "transformer": f"{TINY} --count=60 --digits 1 2 {IN_BLOCKS}",
    "language-model": f"{TINY} --max-length=16 {IN_BLOCKS}",
}


COMMANDS = [
    shlex.split(line, comments=True)
    for kind, block in BLOCKS
    if kind == "sh"
    for line in block.splitlines()
    if line
]


@pytest.mark.parametrize("guide", GUIDES)
def test_every_link_within_the_repository_leads_to_a_file(guide):
    text = (ROOT / guide).read_text(encoding="utf-8")
    targets = re.findall(r"\]\((?!https://)([^)#]+)\)", text)
    assert [target for target in targets if not (ROOT / target).is_file()] == []


@pytest.mark.slow
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
    assert snippets
    for snippet in snippets:
        exec(snippet, names)
    assert "<attn-widget" in Path("attention.html").read_text(encoding="utf-8")
