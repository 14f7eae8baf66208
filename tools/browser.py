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
    *("--no-sandbox", "--disable-gpu", "--disable-gpu-rasterization", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)


def find() -> str | None:
    """The path of a Chromium on this machine, Playwright's own included; None if there is none."""
    if chosen := os.environ.get("CHROMIUM"):
        if not Path(chosen).is_file():
            raise FileNotFoundError(f"CHROMIUM must be the path of a browser, got {chosen!r}")
        return chosen
    if installed := next((path for name in NAMES if (path := shutil.which(name))), None):
        return installed
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        own = playwright.chromium.executable_path
    return own if Path(own).is_file() else None


def install() -> None:
    """Debian's package where that is allowed, Playwright's own download elsewhere."""
    apt = shutil.which("apt-get")
    if apt and hasattr(os, "geteuid") and os.geteuid() == 0:
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        options = ["install", "-y", "--no-install-recommends"]
        for call in (["update"], *([*options, package] for package in NAMES[:2])):
            subprocess.run([apt, *call], env=environment, check=False)
            if find():
                return
    subprocess.run([sys.executable, "-m", "playwright", "install", "chromium"], check=True)


if __name__ == "__main__":
    if not find():
        install()
    path = find()
    print(path or "no Chromium was found, and none could be installed")
    sys.exit(path is None)
