"""What a release takes: its tag and version agree, and the site is one file that a reader can keep.

python tools/release.py check v0.1.0    fails unless the tag names the version of the package
python tools/release.py zip             after `make book`; writes _build/attention-notes-0.1.0.zip
"""

import ast
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "_build"


def version() -> str:
    """The package's version, read without importing torch."""
    tree = ast.parse((ROOT / "attn_notes" / "__init__.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__version__":
            return str(ast.literal_eval(node.value))
    raise ValueError("attn_notes/__init__.py must assign __version__")


def check(tag: str) -> None:
    if tag != f"v{version()}":
        sys.exit(f"the tag must be v{version()}, as the package's __version__ says, got {tag}")


def write_zip(site: Path, target: Path) -> None:
    """The site in a folder of the archive's own name; what only a host needs stays behind."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(site.rglob("*")):
            name = path.relative_to(site)
            if path.is_file() and name.as_posix() not in {".buildinfo", ".nojekyll", "objects.inv"}:
                archive.write(path, Path(target.stem) / name)


def main(arguments: list[str]) -> int:
    match arguments:
        case ["check", tag]:
            check(tag)
        case ["zip"]:
            target = BUILD / f"attention-notes-{version()}.zip"
            write_zip(BUILD / "html", target)
            print(f"{target}: {target.stat().st_size / 1e6:.1f} MB")
        case _:
            sys.exit(__doc__)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
