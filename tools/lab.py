"""Opens the chapters in JupyterLab: copies of them in lab/, which a reader may change.

A copy whose cells or text have been changed stays as it is; the others follow the book. Delete a
copy to have it anew. What only the built book resolves becomes plain Markdown in the copies: links
to pages, citations, terms of the glossary, and references to what stands in another chapter.

python tools/lab.py
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
from pybtex.database import BibliographyData, Entry, parse_file

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "book" / "_ext"))
from attn_bibliography import authors  # noqa: E402, this file is run as a script

BOOK, LAB = ROOT / "book", ROOT / "lab"
ROLE = re.compile(r"\{(doc|cite|cite:t|term|ref|eq)\}`(?:([^`<]+?)\s*<([^`>]+)>|([^`]+))`")
DEFINED = re.compile(r"^\(([\w-]+)\)=|\$\$ \((eq-[\w-]+)\)|^:label: ([\w-]+)", re.MULTILINE)
LINK = re.compile(r"\]\(([a-z][\w-]+)\)")
TO_MODULES = re.compile(r"\[([^\]]+)\]\(api/[^)]*\)")
GLOSSARY = re.compile(r"^```\{glossary\}\n(.*?)^```", re.MULTILINE | re.DOTALL)
SETTINGS = """{
  "@jupyterlab/docmanager-extension:plugin": {"defaultViewers": {"markdown": "Markdown Preview"}},
  "@jupyterlab/apputils-extension:notification": {"fetchNews": "false"}
}
"""  # a page opens as it reads, and nobody is asked about news from another host


class Plain:
    """Rewrites Markdown of the book so that JupyterLab can follow its references."""

    def __init__(self, book: Path) -> None:
        self.book = book
        self.works: BibliographyData = parse_file(str(book / "references.bib"))
        self.home = {
            next(filter(None, found)): path.name
            for path in sorted(book.glob("*.ipynb"))
            for cell in nbformat.v4.reads(path.read_text("utf-8")).cells
            for found in DEFINED.findall(cell.source)
        }

    def __call__(self, text: str, page: str) -> str:
        """The text of the page with this file name."""
        text = ROLE.sub(lambda found: self._resolved(found, page), text)
        text = TO_MODULES.sub(r"\1", text)
        text = LINK.sub(lambda found: f"]({self.home.get(found[1], found[1])})", text)
        return GLOSSARY.sub(lambda found: self._entries(found[1]), text)

    def notebook(self, text: str, page: str) -> str:
        """The notebook of that name, with its Markdown plain."""
        notebook = nbformat.v4.reads(text)
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                cell.source = self(cell.source, page)
        return nbformat.v4.writes(notebook) + "\n"

    def _resolved(self, found: re.Match[str], page: str) -> str:
        role, words, target, bare = found.groups()
        target = target or bare
        if role.startswith("cite"):
            works = [self._cited(key.strip(), role) for key in target.split(",")]
            return "; ".join(works) if role == "cite:t" else f"({'; '.join(works)})"
        if role == "term":
            return f"[{words or target}](glossary.md)"
        if role == "doc":
            return self._page(words, target)
        home = self.home[target]
        if role == "eq":
            chapter = f"(chapter {int(home[:2])})" if home[:2].isdigit() else "(another page)"
            return found[0] if home == page else f"[{chapter}]({home})"
        return f"[{words or 'an exercise'}]({home})"

    def _page(self, words: str | None, target: str) -> str:
        """A link to a page that is copied, or the name of a module, whose page is not."""
        if target.startswith("api/"):
            return words or f"`attn_notes.{target.removeprefix('api/')}`"
        suffix = ".ipynb" if (self.book / f"{target}.ipynb").is_file() else ".md"
        return f"[{words or target.replace('_', ' ')}]({target}{suffix})"

    def _cited(self, key: str, role: str) -> str:
        """Authors and year, linked to the work where it has an address."""
        entry: Entry = self.works.entries[key]
        who, year = authors(entry), entry.fields["year"]
        words = f"{who} ({year})" if role == "cite:t" else f"{who}, {year}"
        stems = {"url": "", "doi": "https://doi.org/", "eprint": "https://arxiv.org/abs/"}
        urls = [stem + entry.fields[name] for name, stem in stems.items() if name in entry.fields]
        return f"[{words}]({urls[0]})" if urls else words

    @staticmethod
    def _entries(text: str) -> str:
        """The entries of the glossary as paragraphs, each under its term."""
        return re.sub(r"^(\S.*)\n((?:[ \t]+.*\n)+)", r"**\1**  \n\2", text, flags=re.MULTILINE)


def digest(text: str) -> str:
    """Of what a reader writes: a notebook's cells, without outputs, or a page."""
    try:
        cells = nbformat.v4.reads(text).cells
        text = repr([(cell.cell_type, cell.source) for cell in cells])
    except json.JSONDecodeError:
        pass
    return hashlib.sha256(text.encode()).hexdigest()


def copy(book: Path, lab: Path) -> list[str]:
    """Bring the copies up to date; return the names of those that their reader has changed."""
    plain, changed = Plain(book), []
    for folder in ("_data", "drawings"):
        shutil.copytree(book / folder, lab / folder, dirs_exist_ok=True)
    record = lab / ".copies.json"  # what each copy was when it was made
    known = json.loads(record.read_text("utf-8")) if record.exists() else {}
    for path in sorted([*book.glob("*.ipynb"), *book.glob("*.md")]):
        target, text = lab / path.name, path.read_text("utf-8")
        text = plain(text, path.name) if path.suffix == ".md" else plain.notebook(text, path.name)
        new = digest(text)
        old = digest(target.read_text("utf-8")) if target.exists() else None
        if old not in {None, new, known.get(path.name)}:
            changed.append(path.name)
            continue
        if old != new:
            target.write_text(text, encoding="utf-8")
        known[path.name] = new
    record.write_text(json.dumps(known), encoding="utf-8")
    return changed


def main() -> int:
    for name in copy(BOOK, LAB):
        print(f"lab/{name} has been changed, and is left as it is")
    settings = Path(sys.prefix, "share/jupyter/lab/settings/overrides.json")
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(SETTINGS, encoding="utf-8")
    opening = "--LabApp.default_url=/lab/tree/index.ipynb"
    command = [sys.executable, "-m", "jupyter", "lab", opening]
    if getattr(os, "geteuid", lambda: 1)() == 0:  # as in a container, where there is no other user
        command.append("--allow-root")
    os.chdir(LAB)
    if os.name != "nt":
        os.execv(sys.executable, command)  # so that Ctrl-C reaches JupyterLab alone
    return subprocess.call(command)


if __name__ == "__main__":
    sys.exit(main())
