"""Make the pictures of docs/ui.md and the sample report from the demo's network with its mistake.

    python scripts/pictures.py [FOLDER]

Writes docs/pictures/page.json, too: a test compares it with the page, so that no picture is older
than the page. Requires what `mothtrap demo` and the browser tests require.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from importlib.resources import files
from pathlib import Path

import page
import page_labels

PICTURES = {
    "overview": "#/overview?run=digits",
    "findings-dark": "#/findings?run=digits",
    "layers": "#/layers?run=digits&stat=l2&at=120&row=2.weight",
    "tensors-dark": "#/tensors?run=digits&tensor=gradient:0.weight&at=100",
}
SETTINGS = """
[collections.spread]
tensors = ["gradients:*"]
statistics = ["all", "exponents"]
every = 1
"""
REPORT = Path(__file__).parents[1] / "docs" / "sample-report.html"
SIZE = {"width": 1200, "height": 760}


def main(folder: Path) -> int:
    """Write a picture of each place of the page."""
    with tempfile.TemporaryDirectory() as work:
        shutil.copy(str(files("mothtrap") / "examples" / "digits.py"), work)
        (Path(work) / "mothtrap.toml").write_text(SETTINGS)
        with (Path(work) / "train.log").open("wb") as log:
            command = [*page.MOTHTRAP, "run", "--name", "digits", "digits.py"]
            subprocess.run(command, cwd=work, stdout=log, stderr=log, check=True)
        report = [*page.MOTHTRAP, "report", "digits", "-o", str(REPORT)]
        subprocess.run(report, cwd=work, check=True)
        REPORT.write_text(REPORT.read_text().replace(work, "/home/user"))  # not of this machine
        with page.served(Path(work)) as url, page.browser() as browser:
            for name, place in PICTURES.items():
                scheme = "dark" if name.endswith("dark") else "light"
                view = browser.new_context(viewport=SIZE, color_scheme=scheme).new_page()
                view.goto(url + place)
                page.wait_until_read(view)
                page.shot(view, folder / f"{name}.png")
    page_labels.KEPT.write_text(json.dumps(page_labels.look(), indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    root = Path(__file__).parents[1]
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else root / "docs" / "pictures"))
