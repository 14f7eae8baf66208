"""Measures what the book promises, and prints it beside the goal or the usual way.

python -m benchmarks           all of them, one after another
python -m benchmarks widgets   one: widgets, pages, attention, multihead, transformer or decoding
"""

import subprocess
import sys

NAMES = ("widgets", "pages", "attention", "multihead", "transformer", "decoding")


def main(arguments: list[str]) -> int:
    name, *rest = arguments or [""]
    if name not in ("", *NAMES):
        print(f"benchmark must be one of {', '.join(NAMES)}, got {name!r}")
        return 2
    failed = False
    # A process each: what one loads must not slow the next.
    for chosen in [name] if name else NAMES:
        print(f"\n== {chosen}", flush=True)
        command = [sys.executable, "-m", f"benchmarks.{chosen}", *rest]
        failed |= subprocess.run(command, check=False).returncode != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
