"""Nine real runs, one for each question that a reader of the page may have.

    python -m tests.web.trained_runs FOLDER

makes the runs in FOLDER/runs, and pictures of the first view of each in FOLDER, at the width of a
desktop and of a phone. Requires what the browser tests require, and xgboost.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

PROGRAMS = Path(__file__).parent / "trained"
TORCHRUN = str(Path(sys.executable).parent / "torchrun")
EXAMPLES = Path(str(files("mothtrap"))) / "examples"
TRAINED: dict[str, tuple[list[str], list[str]]] = {
    "nan": ([], [f"{PROGRAMS}/nan.py"]),
    "vanishing": ([], [f"{PROGRAMS}/vanishing.py"]),
    "leak": ([], ["churn_xgboost.py"]),
    "ranks": ([], ["--", TORCHRUN, "--nproc-per-node", "2", f"{PROGRAMS}/ranks.py"]),
    "crash": ([], [f"{PROGRAMS}/crash.py"]),
    "guard": (["--on-nonfinite", "skip"], [f"{PROGRAMS}/nan.py", "--running"]),
    "overfit": ([], [f"{PROGRAMS}/overfit.py"]),
    "healthy": ([], ["digits.py", "--fixed"]),
    "short": ([], [f"{PROGRAMS}/short.py"]),
}
"""Options of `mothtrap run`, and the command of the job, by name of the run."""
WIDTHS = {"desktop": 1440, "phone": 390}


def train(name: str, folder: Path) -> str:
    """Make a run in `folder/runs`; return the standard error of the job and mothtrap."""
    options, command = TRAINED[name]
    if not Path(command[0]).is_absolute() and (EXAMPLES / command[0]).is_file():
        shutil.copy(EXAMPLES / command[0], folder)  # lines of the package are not the user's
    head = [sys.executable, "-m", "mothtrap", "run", "--runs-dir", str(folder / "runs")]
    words = [*head, "--name", name, *options, *command]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode != 0) == (name == "crash"), done.stderr
    return done.stderr


def main(folder: Path) -> None:
    """Make the runs that are missing, and the pictures."""
    from playwright.sync_api import sync_playwright

    for name in TRAINED:
        if not (folder / "runs" / name).exists():
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{name}.txt").write_text(train(name, folder), encoding="utf-8")
    command = [sys.executable, "-m", "mothtrap", "ui", str(folder / "runs"), "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    url = server.stdout.readline().strip()
    with sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        for label, width in WIDTHS.items():
            page = browser.new_page(viewport={"width": width, "height": 900})
            page.goto(url)
            for name in TRAINED:
                page.goto(f"{url.partition('?')[0]}#/overview?run={name}")
                page.get_by_role("region", name="Verdict").wait_for()
                page.wait_for_timeout(1500)  # its charts
                page.screenshot(path=folder / f"{name}-{label}.png", full_page=label == "phone")
        browser.close()
    server.terminate()
    server.wait(30)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
