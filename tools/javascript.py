"""Lints the widgets' JavaScript, each file of `attn_widgets/static` as the module that it is."""

import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from attn_widgets import assets

STATIC = Path(assets.__file__).with_name("static")
CONFIG = Path(__file__).resolve().parents[1] / ".oxlintrc.json"
EXPORTED = re.compile(r"^export \{([^}]+)\};$", re.MULTILINE)


def lint() -> list[str]:
    """What oxlint finds, each finding with its file and line."""
    oxlint = shutil.which("oxlint", path=sysconfig.get_path("scripts"))
    if oxlint is None:
        raise FileNotFoundError("oxlint is not installed: run pip install -r requirements.txt")
    command = [oxlint, "-c", str(CONFIG), "-f", "unix", "--deny", "no-unused-vars", "."]
    run = subprocess.run(command, cwd=STATIC, capture_output=True, text=True, check=False)
    found = re.findall(r"^(?:\./)?(\w+\.js:\d+):\d+: (.*)$", run.stdout, re.MULTILINE)
    if run.returncode and not found:
        raise RuntimeError(f"oxlint failed: {run.stdout}{run.stderr}")
    return [f"{place} {finding}" for place, finding in found]


def unused_exports() -> list[str]:
    """What a file gives and no other takes."""
    taken = {(assets.HOST, "start")}
    given = set()
    for path in STATIC.glob("*.js"):
        for file, names in assets.imported_by(path.stem).items():
            taken |= {(file, name) for name in names}
        for names in EXPORTED.findall(path.read_text(encoding="utf-8")):
            given |= {(path.stem, name) for name in re.findall(r"\w+", names)}
    return [f"{file}.js exports {name}, which no file imports" for file, name in given - taken]


def main() -> int:
    found = lint() + unused_exports()
    print("\n".join(sorted(found)) or "the widgets' JavaScript: no finding")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
