"""Lines of source are shown only as they were when the job began."""

from __future__ import annotations

import os
from pathlib import Path

from mothtrap.core.runs import RunInfo
from mothtrap.report.source import lines_at


def info(folder: Path, created_s: float) -> RunInfo:
    return RunInfo(
        id="x",
        attempt=1,
        command=("python", "train.py"),
        cwd=str(folder),
        created_s=created_s,
        pid=1,
        host="h",
        python="3.11",
        mothtrap="0",
    )


def test_the_line_of_a_place_is_read_without_its_indent(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("for x in y:\n    step(x)\n\n")
    os.utime(tmp_path / "train.py", (100, 100))
    places = ["train.py:2", "train.py:3", "train.py:9", "gone.py:1", "cell 2, line 4"]
    assert lines_at(info(tmp_path, 200.0), places, {}) == {"train.py:2": "step(x)"}


def test_a_file_that_was_changed_since_is_not_quoted(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("step(x)\n")
    os.utime(tmp_path / "train.py", (300, 300))
    assert lines_at(info(tmp_path, 200.0), ["train.py:1"], {}) == {}


def test_a_file_that_the_run_has_kept_is_quoted_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("step(x)\n")
    kept = {"train.py": "pass\n  step(old)\n"}
    assert lines_at(info(tmp_path, 0.0), ["train.py:2"], kept) == {"train.py:2": "step(old)"}


def test_a_run_without_its_start_has_no_source() -> None:
    assert lines_at(None, ["train.py:1"], {}) == {}
