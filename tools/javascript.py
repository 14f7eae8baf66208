"""Lints the widgets' JavaScript, each file of `attn_widgets/static` as the module that it is.

TypeScript checks the types that stand in its comments, where npx is installed and can fetch it; no
Node project is needed for that.
"""

import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from attn_widgets import assets

STATIC = Path(assets.__file__).with_name("static")
CONFIG = Path(__file__).resolve().parents[1] / ".oxlintrc.json"
# No second try: without a network the check is left out.
TSC: tuple[str, ...] = ("npx", "--yes", "--fetch-retries=0", "--package", "typescript@5.9.3", "tsc")
TSC += ("--allowJs", "--checkJs", "--noEmit", "--pretty", "false", "--target", "es2023")
TSC += ("--module", "esnext", "--moduleResolution", "bundler", "--lib", "es2023,dom,dom.iterable")
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


def check_types() -> list[str] | None:
    """What TypeScript finds, or None where it cannot be had."""
    npx = shutil.which("npx")
    if npx is None:
        return None
    files = sorted(path.name for path in STATIC.glob("*.js"))
    command = [npx, *TSC[1:], *files]
    run = subprocess.run(command, cwd=STATIC, capture_output=True, text=True, check=False)
    found = re.findall(r"^(\w+\.js)\((\d+),\d+\): error (.*)$", run.stdout, re.MULTILINE)
    if run.returncode and not found:
        return None
    return [f"{name}:{line} {finding}" for name, line, finding in found]


def main() -> int:
    types = check_types()
    if types is None:
        print("npx found no TypeScript: the types of the widgets' JavaScript are not checked")
    found = lint() + unused_exports() + (types or [])
    print("\n".join(sorted(found)) or "the widgets' JavaScript: no finding")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
