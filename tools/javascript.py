"""Lints the widgets' JavaScript as browsers get it: the page's script, and each live module.

The files of `attn_widgets/static` share names, so a file alone says little: only what Python
puts together from them shows a name that is defined nowhere, or never used.
"""

import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from attn_widgets import assets

STATIC = Path(assets.__file__).with_name("static")
CONFIG = Path(__file__).resolve().parents[1] / ".oxlintrc.json"
UNUSED = "no-unused-vars"


def lint(scripts: dict[str, str], *options: str) -> set[str]:
    """What oxlint finds in the scripts, each finding at the line of the file it came from."""
    oxlint = shutil.which("oxlint", path=sysconfig.get_path("scripts"))
    if oxlint is None:
        raise FileNotFoundError("oxlint is not installed: run pip install -r requirements.txt")
    command = [oxlint, "-c", str(CONFIG), "-f", "unix", *options, "."]
    with tempfile.TemporaryDirectory() as folder:
        for name, text in scripts.items():
            Path(folder, name).write_text(text, encoding="utf-8")
        run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    found = re.findall(r"^(?:\./)?([\w.]+):(\d+):\d+: (.*)$", run.stdout, re.MULTILINE)
    if run.returncode and not found:
        raise RuntimeError(f"oxlint failed: {run.stdout}{run.stderr}")
    return {f"{_source(scripts[name], int(line))} {said}" for name, line, said in found}


def _source(script: str, line: int) -> str:
    """The file, and the line in it, that a line of a script came from."""
    for path in sorted(STATIC.glob("*.js")):
        text = path.read_text(encoding="utf-8")
        at = max(script.find(text), script.find(text.replace("export default", "return")))
        first = script.count("\n", 0, at)
        if at >= 0 and first < line <= first + text.count("\n"):
            return f"{path.name}:{line - first}"
    return f"between the files:{line}"


def main() -> int:
    page = {"page_script.js": assets.page_script()}
    modules = {f"{name}.mjs": assets.module_source(name) for name in assets.WIDGETS}
    # The page uses all that is shared; a live module gets more than it needs.
    found = lint(page, "--deny", UNUSED) | lint(modules, "--allow", UNUSED)
    print("\n".join(sorted(found)) or f"{len(modules) + 1} scripts of the widgets: no finding")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
