"""Execute the book's notebooks in place and clean them, so that a run changes no more than it must.

python tools/notebooks.py                   execute every notebook, then clean it
python tools/notebooks.py book/index.ipynb  the same for one
python tools/notebooks.py --clean-only      clean without executing
python tools/notebooks.py --check           change nothing; fail where cleaning would change
                                            something, or a rule of notebook_rules is broken;
                                            its warnings are only printed
"""

import argparse
import importlib.util
import json
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
from tools import launch, notebook_rules  # noqa: E402, this file is run as a script

BOOK = ROOT / "book"
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
CELL_METADATA = ("tags", "mystnb")
TIMEOUT = 600  # seconds a cell
AT_ONCE = 2

Notebook = dict[str, Any]


def clean(notebook: Notebook) -> Notebook:
    """A copy with outputs and ids, and nothing that differs between two runs.

    Every cell that has been executed counts 1, so that a new cell changes no other.
    """
    cleaned = deepcopy(notebook)
    cleaned["metadata"] = _notebook_metadata(cleaned["metadata"])
    for cell in cleaned["cells"]:
        kept = {key: cell["metadata"][key] for key in CELL_METADATA if key in cell["metadata"]}
        cell["metadata"] = kept
        if cell["cell_type"] == "code":
            cell["execution_count"] = cell["execution_count"] and 1
            cell["outputs"] = merge_streams([_clean_output(out) for out in cell["outputs"]])
    cleaned["cells"] = launch.placed(cleaned["cells"], launch.repository())
    return cleaned


def _notebook_metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    """The kernel's name and the language; no versions and no widget state."""
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    kept = {key: metadata[key] for key in ("mystnb",) if key in metadata}
    return {"kernelspec": kernel, "language_info": {"name": "python"}} | kept


def _clean_output(output: dict[str, Any]) -> dict[str, Any]:
    """Without the view of a widget: it is dead when its kernel is gone."""
    output.pop("transient", None)
    if "execution_count" in output:
        output["execution_count"] = 1
    if "metadata" in output:
        output["metadata"] = {}
    output.get("data", {}).pop(WIDGET_VIEW, None)
    return output


def merge_streams(outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One stream where the kernel happened to send several in a row under one name."""
    merged: list[dict[str, Any]] = []
    for output in outputs:
        before = merged[-1] if merged else {}
        if output["output_type"] == "stream" and output.get("name") == before.get("name"):
            before["text"] = _text(before["text"]) + _text(output["text"])
        else:
            merged.append(output)
    return merged


def _text(value: str | list[str]) -> str:
    return value if isinstance(value, str) else "".join(value)


def dumps(notebook: Notebook) -> str:
    """The one spelling of a notebook on disk."""
    split = nbformat.v4.rwbase.split_lines(nbformat.from_dict(deepcopy(notebook)))
    return json.dumps(split, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


def read(path: Path) -> Notebook:
    return dict(nbformat.read(path, as_version=4))


def execute(path: Path) -> str:
    """Run one notebook in its own folder and write it back; return the error message, or ""."""
    notebook, stored = nbformat.read(path, as_version=4), read(path)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    reached = "before the first cell"

    def note(cell: Any, cell_index: int) -> None:
        nonlocal reached
        reached = f"cell {cell_index} ({cell.get('id', 'without an id')})"

    client = nbclient.NotebookClient(
        notebook,
        timeout=TIMEOUT,
        kernel_name="python3",
        store_widget_state=False,
        on_cell_start=note,
        resources={"metadata": {"path": str(path.parent)}},
    )
    try:
        client.execute()
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        return f"{path.name}, {reached}:\n{error}"
    for tag in not_to_be_made_here():
        keep_outputs(notebook, stored, tag)
    path.write_text(dumps(clean(notebook)), encoding="utf-8")
    return ""


def not_to_be_made_here() -> dict[str, str]:
    """Tags of the cells whose outputs come from another machine, and why."""
    why = {}
    if not runs_triton():
        why["needs-triton"] = "triton cannot run here"
    return why


def runs_triton() -> bool:
    """Whether Triton is installed, and can run the kernels on the device of the notebooks."""
    if importlib.util.find_spec("triton") is None:
        return False
    from attn_notes.device import get_device
    from attn_notes.triton_attention import obstacle

    return not obstacle(get_device())


def keep_outputs(notebook: Notebook, stored: Notebook, tag: str) -> None:
    """Give the cells with this tag their stored outputs back: here they cannot be made."""
    for cell, old in zip(notebook["cells"], stored["cells"], strict=True):
        if tag in cell["metadata"].get("tags", ()):
            cell["outputs"] = old["outputs"]


def run_all(paths: list[Path]) -> int:
    """Execute two at a time, each on one thread; return how many notebooks failed."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("ATTN_NOTES_DEVICE", "cpu")
    os.environ["ATTN_NOTES_PROGRESS"] = "0"  # a bar would stay in the outputs
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
