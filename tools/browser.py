"""Finds the Chromium that the browser tests drive, and installs one where there is none.

python tools/browser.py   prints its path; `CHROMIUM=/path/to/it` chooses another
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

# First the engine without the windows around it, which opens a page in two thirds of the time.
NAMES = (
    *("chromium-headless-shell", "chromium", "chromium-browser"),
    *("google-chrome", "google-chrome-stable", "chrome"),
)
# No update, no sync, no first-run page: a test asks the network for nothing. And no graphics card,
# which Debian's package would have the processor play.
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-gpu-rasterization",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


def find() -> str | None:
    """The path of a Chromium on this machine, Playwright's own included; None if there is none."""
    chosen = os.environ.get("CHROMIUM")
    if chosen:
        if not Path(chosen).is_file():
            raise FileNotFoundError(f"CHROMIUM must be the path of a browser, got {chosen!r}")
        return chosen
    installed = next((path for name in NAMES if (path := shutil.which(name))), None)
    return installed or _playwrights_own()


def _playwrights_own() -> str | None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if Path(path).is_file() else None


def install() -> None:
    """Debian's package where that is allowed, Playwright's own download elsewhere."""
    apt = shutil.which("apt-get")
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    if apt and root:
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run([apt, "update"], env=environment, check=False)
        for package in ("chromium-headless-shell", "chromium"):
            command = [apt, "install", "-y", "--no-install-recommends", package]
            if subprocess.run(command, env=environment, check=False).returncode == 0 and find():
                return
    subprocess.run([sys.executable, "-m", "playwright", "install", "chromium"], check=True)


def main() -> int:
    path = find()
    if path is None:
        install()
        path = find()
    print(path or "no Chromium was found, and none could be installed", flush=True)
    return 0 if path else 1


if __name__ == "__main__":
    sys.exit(main())
