"""Builds the source distribution, and from it the wheel, without asking any other host.

python tools/dist.py    writes both into dist/

The build runs on a copy, so that nothing is left behind here. Once `_config.yml` names the book's
public home, the copy's pyproject.toml gets the addresses of the repository and of the pages.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "book" / "_ext")]
import attn_publish  # noqa: E402, this file is run as a script

LEFT_OUT = [".git", ".venv*", "_build", "lab", "assignments", "mutants", "dist", "build"]
LEFT_OUT += ["*.egg-info", "__pycache__", ".*_cache", ".hypothesis", ".ipynb_checkpoints"]


def urls(home: str) -> str:
    """The table of pyproject.toml that names a public home; nothing without one."""
    if not home:
        return ""
    return f'\n[project.urls]\nRepository = "{home}"\nBook = "{attn_publish.site_url(home)}"\n'


def build(root: Path, folder: Path) -> list[Path]:
    """Put the source distribution and the wheel of the project in `root` into a folder."""
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place, "project")
        shutil.copytree(root, copy, ignore=shutil.ignore_patterns(*LEFT_OUT))
        with (copy / "pyproject.toml").open("a", encoding="utf-8") as project:
            project.write(urls(attn_publish.named_url(copy)))
        command = [sys.executable, "-m", "uv", "build", "--offline", "--no-build-isolation"]
        command += ["--python", sys.executable, "--out-dir", str(folder.resolve()), str(copy)]
        subprocess.run([*command, "--quiet"], check=True)
    return sorted(folder.glob("attn_notes-*"))


if __name__ == "__main__":
    for path in build(ROOT, ROOT / "dist"):
        print(f"{path} ({path.stat().st_size / 1e6:.1f} MB)")
