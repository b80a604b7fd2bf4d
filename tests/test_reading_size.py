"""The number of lines that a task requires reading does not grow."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.harness.running import run

SCRIPT = Path(__file__).parents[1] / "scripts" / "reading_size.py"
MOST_LINES = {"a rule": 400, "a small adapter": 350, "a wrong loss fact in Keras": 700}
"""The aims, which the script prints, too."""


def test_little_must_be_read_for_a_task(tmp_path: Path) -> None:
    done = run([sys.executable, SCRIPT], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    read = {}
    for line in done.stdout.splitlines():
        task, _, told = line.partition(": ")
        read[task] = int(told.split()[0])
    assert read.keys() == MOST_LINES.keys()
    assert {task: n for task, n in read.items() if n > MOST_LINES[task]} == {}
