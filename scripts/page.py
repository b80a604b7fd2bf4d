"""Pictures of the page, for the scripts that make those of the documentation."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

MOTHTRAP = [sys.executable, "-m", "mothtrap"]
COLORS = 256


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve the runs of a folder; yield the first address of the page."""
    server = subprocess.Popen(
        [*MOTHTRAP, "ui", "--port", "0"], cwd=folder, stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
    finally:
        server.terminate()
        server.wait(30)


@contextmanager
def browser() -> Iterator[Any]:
    """Start the system's Chromium."""
    found = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    if found is None:
        raise SystemExit("no Chromium was found: install the package chromium")
    with sync_playwright() as started:
        opened = started.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield opened
        opened.close()


def shot(page: Any, path: Path, of: str = "") -> None:
    """Write what a page shows as a PNG of few colors; `of` is a selector of a part of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    (page.locator(of).first if of else page).screenshot(path=path)
    with Image.open(path) as taken:
        few = taken.convert("RGB").quantize(COLORS, dither=Image.Dither.NONE)
    few.save(path, optimize=True)


def wait_until_read(page: Any) -> None:
    """Wait until a view has its answers."""
    page.get_by_role("img").first.wait_for()
    page.get_by_text("Reading").first.wait_for(state="detached")
