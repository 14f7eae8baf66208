"""Measures what the book promises, and prints it beside the goal or the usual way.

python -m benchmarks                  all of them, one after another
python -m benchmarks widgets          one: attention, linear, multihead, transformer, published,
                                      decoding or widgets
python -m benchmarks --page FILE ...  writes those into a page
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

from attn_notes import get_device

TITLES = {
    "attention": "Attention",
    "linear": "A state beside a cache",
    "multihead": "Multi-head attention",
    "transformer": "Blocks",
    "published": "Published models",
    "decoding": "Decoding",
    "widgets": "Widgets",
}
INTRODUCTION = """\
# Benchmarks

How fast is the package compared with the libraries that a reader would use otherwise? This command
repeats the measurements and writes this page:

```sh
.venv/bin/python -m benchmarks --page book/benchmarks.md
```

All implementations in a row have the same weights, and their outputs are checked to agree before
any time is taken. Each runs once in every round, in the same process and in shuffled order, so
that a busy moment affects all of them. A cell gives the median of the rounds and, in parentheses,
the quartiles. Ratios are taken within each round. The goal is a ratio of at most 1.05 to the
fastest other implementation; where a row misses the goal, the line under the table gives a
reason.

The figures hold for the machine that is named above them, and the load average shows how busy it
was. On a GPU the same command measures in bfloat16, and the column *of the matrix rate* gives the
share of the rate that a large matrix product reaches on that device.
"""
ON_A_CPU = """
**No time on this page was measured on a GPU**, and the code for GPUs has not been run on one: the
tests run it on a CPU, in bfloat16.
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(TITLES))
    parser.add_argument("--page", type=Path, metavar="FILE", help="the page to write")
    chosen = parser.parse_args()
    if unknown := set(chosen.names) - set(TITLES):
        parser.error(f"NAME must be one of {', '.join(TITLES)}, got {', '.join(sorted(unknown))}")
    names = chosen.names or list(TITLES)
    failed = False
    for name in names:  # a process each: what one loads must not slow the next
        print(f"\n== {name}", flush=True)
        command = [sys.executable, "-m", f"benchmarks.{name}"]
        # torch's profiler would print a line for each start and stop
        settings = os.environ | {"KINETO_LOG_LEVEL": "99"}
        if not chosen.page:
            failed |= subprocess.run(command, env=settings, check=False).returncode != 0
            continue
        run = subprocess.run(command, env=settings, stdout=subprocess.PIPE, text=True, check=False)
        if run.returncode:
            failed = True
            continue
        # In a table the quartiles stand below the median.
        narrow = lambda row: re.sub(r"(?<=\d) \(", "<br>(", row[0])  # noqa: E731
        write_page(chosen.page, {name: re.sub(r"^\|.*", narrow, run.stdout, flags=re.MULTILINE)})
    return int(failed)


def write_page(page: Path, sections: dict[str, str]) -> None:
    """The new sections, and of an older page those that were not measured again."""
    old = page.read_text(encoding="utf-8") if page.is_file() else ""
    parts = dict(re.findall(r"^## (.+)\n\n((?:(?!^## ).*\n)*)", old, re.MULTILINE))
    parts |= {TITLES[name]: text for name, text in sections.items()}
    texts = [
        f"## {title}\n\n{parts[title].strip()}\n" for title in TITLES.values() if title in parts
    ]
    introduction = INTRODUCTION + ON_A_CPU * (get_device().type == "cpu")
    page.write_text("\n".join([introduction, *texts]), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
