"""Make the pictures of docs/ui.md: train the demo's network with its mistake, and open the page.

    python scripts/pictures.py [FOLDER]

Requires what `mothtrap demo` and the browser tests require.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from importlib.resources import files
from pathlib import Path

from playwright.sync_api import sync_playwright

PICTURES = {
    "overview": "#/overview?run=digits",
    "findings-dark": "#/findings?run=digits",
}
SIZE = {"width": 1200, "height": 760}


def main(folder: Path) -> int:
    """Write a picture of each place of the page."""
    mothtrap = [sys.executable, "-m", "mothtrap"]
    found = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    if found is None:
        raise SystemExit("no Chromium was found: install the package chromium")
    with tempfile.TemporaryDirectory() as work:
        shutil.copy(str(files("mothtrap") / "examples" / "digits.py"), work)
        with (Path(work) / "train.log").open("wb") as log:
            command = [*mothtrap, "run", "--name", "digits", "digits.py"]
            subprocess.run(command, cwd=work, stdout=log, stderr=log, check=True)
        server = subprocess.Popen(
            [*mothtrap, "ui", "--port", "0"], cwd=work, stdout=subprocess.PIPE, text=True
        )
        try:
            assert server.stdout is not None
            draw(server.stdout.readline().strip(), folder, found)
        finally:
            server.terminate()
            server.wait(30)
    return 0


def draw(url: str, folder: Path, chromium: str) -> None:
    """Open each place, wait for its chart, and write the picture."""
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, place in PICTURES.items():
            scheme = "dark" if name.endswith("dark") else "light"
            page = browser.new_context(viewport=SIZE, color_scheme=scheme).new_page()
            page.goto(url + place)
            page.get_by_role("img").first.wait_for()
            page.screenshot(path=folder / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    root = Path(__file__).parents[1]
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else root / "docs" / "pictures"))
