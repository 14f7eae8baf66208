"""Begins a new chapter: a notebook that keeps the book's rules, and its place in the contents.

python tools/chapter.py low_rank    writes and runs book/12_low_rank.ipynb, if eleven are there

What stands in the cells says what belongs there. The chapter has no stubs yet: CONTRIBUTING.md
says what a checked exercise needs. The opening page and README have tables of chapters as well.
"""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from tools import notebooks  # noqa: E402, this file is run as a script

OPENING = """# {title}

Which question does this chapter answer? Ask it here, in at most 80 words, about something that the
reader can see."""
IMPORTS = """import torch

from attn_notes import get_device
from attn_notes.attention import attention_weights, scaled_dot_product_attention
from attn_notes.plotting import plot_attention, use_style
from attn_notes.widgets import AttentionHeatmap

use_style()
device = get_device()"""
WIDGET = """rng = torch.Generator().manual_seed({number})
words = ["the", "cat", "sat"]
query, key = torch.randn(2, 3, 8, generator=rng).to(device)
weights = attention_weights(query, key)
AttentionHeatmap(weights, query_tokens=words)"""
TRY = "What does the widget show, and what can the reader try? Ask for a guess before each step."
STILL = "ax = plot_attention(weights, query_tokens=words)"
DERIVATION = r"""*A caption says what to see: each row shows how a word shares a weight of 1.*

## The first idea

Derive the formula before the code, step by step:

$$f(\mathbf q)=\sum_j\alpha_j\,\mathbf v_j.$$ (eq-{label})

Say what to expect of the next cell, which runs {{eq}}`eq-{label}` as bare tensor expressions."""
CHECKED = """value = torch.randn(3, 2, generator=rng).to(device)
output = weights @ value  # (3, 2)
ours = scaled_dot_product_attention(query, key, value)
torch.testing.assert_close(output, ours)
print("shape of the output:", tuple(output.shape))"""
EXERCISE = """````{{exercise}} {title}
:label: ex-{label}-{n}

★ 10 minutes. {task}
````"""
SOLUTION = """````{{solution}} ex-{label}-{n}
:class: dropdown

The solution skips no step.
````"""
TASKS = {
    "A guess": "*Predict.* What would change if all keys were equal? Say why.",
    "A proof": "*Prove.* Show a consequence of {{eq}}`eq-{label}`.",
    "A mistake": "*Find the mistake* in a line that is nearly right.",
    "A variation": "*Work out* what another choice would have given.",
}
END = """## Summary

1. Three to five sentences say what was shown, {{eq}}`eq-{label}`.

## Further reading

Say where the idea comes from, as in {{cite:t}}`vaswani2017`. The page {{doc}}`api/attention`
describes the functions used here."""
ALT = "A heatmap of three words in rows and in columns; each row is brightest at one of them."


def cells(number: int, name: str) -> list[dict[str, Any]]:
    """The cells of a chapter in the house order, not yet run."""
    words = {"number": number, "title": name.replace("_", " ").capitalize()}
    words["label"] = label = name.replace("_", "-")
    still = {"tags": ["hide-input", "print-only"], "mystnb": {"image": {"alt": ALT}}}
    made = [
        _cell("title", OPENING.format(**words)),
        _cell("imports", IMPORTS, {"tags": ["hide-input"]}),
        _cell("widget", WIDGET.format(**words), {"tags": ["hide-input"]}),
        _cell("widget-try", TRY),
        _cell("widget-still", STILL, still),
        _cell("first", DERIVATION.format(**words)),
        _cell("first-check", CHECKED, {}),
        _cell("first-seen", "Say what was seen.\n\n## Exercises"),
    ]
    for n, (title, task) in enumerate(TASKS.items(), start=1):
        text = EXERCISE.format(title=title, label=label, n=n, task=task.format(label=label))
        made.append(_cell(f"ex-{n}", text))
        made.append(_cell(f"ex-{n}-solution", SOLUTION.format(label=label, n=n)))
    return [*made, _cell("summary", END.format(**words))]


def _cell(name: str, source: str, metadata: dict[str, Any] | None = None) -> dict[str, Any]:
    """Code where there are metadata, if only empty ones; Markdown otherwise."""
    if metadata is None:
        return {"cell_type": "markdown", "id": name, "metadata": {}, "source": source}
    code: dict[str, Any] = {"cell_type": "code", "outputs": [], "execution_count": None}
    return code | {"id": name, "metadata": metadata, "source": source}


def add(name: str, root: Path = ROOT) -> Path:
    """Write and run the next chapter, and give it its lines on the other pages."""
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name):
        sys.exit(f"NAME must be lower-case words joined by _, such as low_rank, got {name!r}")
    chapters = sorted((root / "book").glob("[0-9][0-9]_*.ipynb"))
    if any(path.stem[3:] == name for path in chapters):
        sys.exit(f"there is a chapter {name} already")
    number, last = len(chapters) + 1, chapters[-1].stem
    path = root / "book" / f"{number:02}_{name}.ipynb"
    whole = {"cells": cells(number, name), "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(notebooks.dumps(whole), encoding="utf-8")
    tool = [sys.executable, str(ROOT / "tools" / "notebooks.py")]
    if subprocess.run([*tool, str(path)], check=False).returncode:
        sys.exit(1)
    label, n = name.replace("_", "-"), len(TASKS)
    row = f"| {{doc}}`{path.stem}` | {n} | 0 | {10 * n} | {{ref}}`ex-{label}-1` |"
    _after(root / "_toc.yml", f"book/{last}", f"      - file: book/{path.stem}")
    _after(root / "book" / "teaching.md", f"| {{doc}}`{last}`", row)
    return path


def _after(path: Path, word: str, line: str) -> None:
    """Put a line below the one that holds a word."""
    lines = path.read_text(encoding="utf-8").splitlines()
    (at,) = [n for n, one in enumerate(lines) if word in one]
    lines.insert(at + 1, line)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        sys.exit(__doc__)
    path = add(arguments[0]).relative_to(ROOT)
    print(f"{path}, with lines in _toc.yml and book/teaching.md")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
