"""Execute the book's notebooks in place and clean them, so that a run changes no more than it must.

python tools/notebooks.py                   execute every notebook, then clean it
python tools/notebooks.py book/index.ipynb  the same for one
python tools/notebooks.py --clean-only      clean without executing
python tools/notebooks.py --check           change nothing; fail where cleaning would change
                                            something, or a rule of notebook_rules is broken;
                                            its warnings are only printed
"""

import argparse
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from pathlib import Path
from typing import Any

import nbclient
import nbformat
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from tools import launch, notebook_rules, stills  # noqa: E402, this file is run as a script

BOOK = ROOT / "book"
SVG = "image/svg+xml"
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
TIMEOUT = 600  # seconds a cell
AT_ONCE = 2

Notebook = dict[str, Any]
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def clean(notebook: Notebook) -> Notebook:
    """A copy with outputs and ids, and nothing that differs between two runs.

    Of the metadata the kernel's name and the language stay: no versions, no state of a widget.
    Every cell that has been executed counts 1, so that a new cell changes no other.
    """
    cleaned = deepcopy(notebook)
    language = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    cleaned["metadata"] = _kept(cleaned["metadata"], "mystnb") | language
    for cell in cleaned["cells"]:
        cell["metadata"] = _kept(cell["metadata"], "tags", "mystnb", "tolerance")
        if cell["cell_type"] == "code":
            cell["execution_count"] = cell["execution_count"] and 1
            cell["outputs"] = _merge_streams([_clean_output(out) for out in cell["outputs"]])
    cleaned["cells"] = launch.placed(cleaned["cells"], launch.repository())
    return cleaned


def _kept(metadata: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: metadata[name] for name in names if name in metadata}


def _clean_output(output: dict[str, Any]) -> dict[str, Any]:
    """Without the view of a widget: it is dead when its kernel is gone."""
    output.pop("transient", None)
    if "execution_count" in output:
        output["execution_count"] = 1
    if "metadata" in output:
        output["metadata"] = {}
    data = output.get("data", {})
    data.pop(WIDGET_VIEW, None)
    if SVG in data:
        data[SVG] = stills.tidy(data[SVG])
    return output


def _merge_streams(outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One stream where the kernel happened to send several in a row under one name."""
    merged: list[dict[str, Any]] = []
    for output in outputs:
        before = merged[-1] if merged else {}
        if output["output_type"] == "stream" and output["name"] == before.get("name"):
            before["text"] += output["text"]
        else:
            merged.append(output)
    return merged


def dumps(notebook: Notebook) -> str:
    """The one spelling of a notebook on disk."""
    return nbformat.writes(nbformat.from_dict(notebook)) + "\n"


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def execute(path: Path) -> str:
    """Run one notebook in its own folder and write it back; return the error message, or ""."""
    notebook, stored = read(path), read(path)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell |= {"outputs": [], "execution_count": None}
    settings: Notebook = {"timeout": TIMEOUT, "kernel_name": "python3", "store_widget_state": False}
    try:
        nbclient.execute(notebook, cwd=str(path.parent), **settings)
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        return str(error)
    for cell, old in zip(notebook["cells"], stored["cells"], strict=True):
        if set(not_to_be_made_here()) & set(cell["metadata"].get("tags", ())):
            cell["outputs"] = old["outputs"]
    path.write_text(dumps(clean(notebook)), encoding="utf-8")
    return ""


def not_to_be_made_here() -> dict[str, str]:
    """Tags of the cells whose outputs come from another machine, and why."""
    return {} if runs_triton() else {"needs-triton": "triton cannot run here"}


def runs_triton() -> bool:
    """Whether Triton is installed, and can run the kernels on the device of the notebooks."""
    from attn_notes.device import get_device
    from attn_notes.triton_attention import obstacle

    return not obstacle(get_device())


def run_all(paths: list[Path]) -> int:
    """Execute two at a time, each on one thread; return how many notebooks failed."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("ATTN_NOTES_DEVICE", "cpu")
    os.environ |= {
        "ATTN_NOTES_PROGRESS": "0",
        "TQDM_DISABLE": "1",
    }  # a bar would stay in the outputs
    os.environ.pop("MPLBACKEND", None)  # a reader's choice for scripts: no figure would be shown
    failed = 0
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for path, problem in zip(paths, pool.map(execute, paths), strict=True):
            failed += bool(problem)
            print(f"{path.name}: {'FAILED' if problem else 'done'}")
            if problem:
                print(problem, file=sys.stderr)
    return failed


def tidy(paths: list[Path], *, write: bool) -> int:
    """Clean, or only compare without `write`; return how many notebooks were not clean."""
    unclean = 0
    for path in paths:
        wanted = dumps(clean(read(path)))
        if path.read_text(encoding="utf-8") != wanted:
            unclean += 1
            print(f"{path.name}: {'cleaned' if write else 'not clean'}")
            if write:
                path.write_text(wanted, encoding="utf-8")
    return unclean


def complain(paths: list[Path]) -> int:
    """Print what the rules say of the notebooks; return how many complaints are no warnings."""
    count = 0
    for path in paths:
        for found in notebook_rules.complaints(path, notebook_rules.RULES):
            count += 1
            print(f"{path.name}: {found}")
        for found in notebook_rules.complaints(path, notebook_rules.WARNINGS):
            print(f"{path.name}: (warning) {found}")
    return count


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="*", type=Path, help="notebooks; all of book/ if none")
    parser.add_argument("--check", action="store_true", help="change nothing; fail if not in order")
    parser.add_argument("--clean-only", action="store_true", help="clean without executing")
    options = parser.parse_args(arguments)
    paths = options.paths or sorted(BOOK.glob("*.ipynb"))
    if options.check:
        unclean = tidy(paths, write=False)
        if unclean:
            print("run `make notebooks`, or `python tools/notebooks.py --clean-only`")
        return int(unclean + complain(paths) > 0)
    if options.clean_only:
        tidy(paths, write=True)
        return 0
    return int(run_all(paths) > 0)


if __name__ == "__main__":
    sys.exit(main())
