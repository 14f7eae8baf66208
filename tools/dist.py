"""Builds the source distribution, and from it the wheel, without asking any other host.

python tools/dist.py            into dist/
python tools/dist.py FOLDER     into another folder

The build runs on a copy, so that nothing is left behind here. Once `_config.yml` names the book's
public home, the copy's pyproject.toml gets the addresses of the repository and of the pages.
"""

import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "book" / "_ext")]
import attn_publish  # noqa: E402, this file is run as a script

# Python 3.11.2, which Debian 12 brings, has no filters yet.
FILTER: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
LEFT_OUT = [".git", ".venv*", "_build", "lab", "assignments", "mutants", "dist", "build"]
LEFT_OUT += ["*.egg-info", "__pycache__", ".*_cache", ".hypothesis", ".ipynb_checkpoints"]


def urls(home: str) -> str:
    """The table of pyproject.toml that names a public home; nothing without one."""
    if not home:
        return ""
    return f'\n[project.urls]\nRepository = "{home}"\nBook = "{attn_publish.site_url(home)}"\n'


def build(root: Path, folder: Path) -> tuple[Path, Path]:
    """The source distribution and the wheel of the project in `root`, in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place, "project")
        shutil.copytree(root, copy, ignore=shutil.ignore_patterns(*LEFT_OUT))
        with (copy / "pyproject.toml").open("a", encoding="utf-8") as project:
            project.write(urls(attn_publish.named_url(copy)))
        sdist = folder / _backend(f"build_sdist({str(folder.resolve())!r})", copy)
        with tarfile.open(sdist) as archive:
            archive.extractall(place, **FILTER)
        unpacked = Path(place, sdist.name.removesuffix(".tar.gz"))
        return sdist, folder / _backend(f"build_wheel({str(folder.resolve())!r})", unpacked)


def _backend(call: str, folder: Path) -> str:
    """What setuptools' build backend returns: the name of the file that it has made."""
    code = f"from setuptools import build_meta; print(build_meta.{call})"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return done.stdout.splitlines()[-1]


def main(arguments: list[str]) -> int:
    for path in build(ROOT, Path(*arguments) if arguments else ROOT / "dist"):
        print(f"{path} ({path.stat().st_size / 1e6:.1f} MB)")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
