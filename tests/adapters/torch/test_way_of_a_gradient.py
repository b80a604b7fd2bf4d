"""A gradient passes through few files between its hook and its segment."""

from __future__ import annotations

from pathlib import Path

from tests.harness.running import PYTHON, run

SCRIPT = Path(__file__).parents[3] / "scripts" / "gradient_hops.py"
MOST_FILES = 12


def test_a_gradient_crosses_at_most_twelve_files(tmp_path: Path) -> None:
    done = run([*PYTHON, SCRIPT], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    *files, count = done.stdout.splitlines()
    assert files[0].startswith("adapters/torch/hooks/")
    assert files[-1] == "store/segments.py"
    assert {"capture/recorder.py", "capture/channel.py"} < set(files)
    assert count == f"{len(files)} files"
    assert len(files) <= MOST_FILES, files
