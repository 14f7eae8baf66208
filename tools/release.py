"""What a release takes: its tag, version and notes agree, and the site is one file for a reader.

python tools/release.py notes v0.1.0    prints what CHANGELOG.md says of the package's version
python tools/release.py zip             after `make book`; writes _build/attention-notes-0.1.0.zip
"""

import re
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "_build"


def version() -> str:
    """The package's version, read without importing torch."""
    text = (ROOT / "attn_notes" / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    if not found:
        sys.exit("attn_notes/__init__.py must assign __version__")
    return found[1]


def notes(tag: str, changelog: str) -> str:
    """The entry of the version that a tag names; it must be the package's, and dated."""
    if tag != f"v{version()}":
        sys.exit(f"the tag must be v{version()}, as the package's __version__ says, got {tag}")
    heading = rf"^## {re.escape(version())} \(\d{{4}}-\d\d-\d\d\)\n"
    entry = re.search(heading + r"(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    if not entry:
        sys.exit(f"CHANGELOG.md must have an entry `## {version()} (YYYY-MM-DD)`")
    return entry[1].strip()


def write_zip(site: Path, target: Path) -> None:
    """The site in a folder of the archive's own name; what only a host needs stays behind."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(site.rglob("*")):
            name = path.relative_to(site)
            if path.is_file() and name.as_posix() not in {".buildinfo", ".nojekyll", "objects.inv"}:
                archive.write(path, Path(target.stem) / name)


def main(arguments: list[str]) -> int:
    match arguments:
        case ["notes", tag]:
            print(notes(tag, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")))
        case ["zip"]:
            target = BUILD / f"attention-notes-{version()}.zip"
            write_zip(BUILD / "html", target)
            print(f"{target}: {target.stat().st_size / 1e6:.1f} MB")
        case _:
            sys.exit(__doc__)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
