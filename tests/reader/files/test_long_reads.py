"""Long reads show their progress."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.reader.runs import DEAD_PID, info, raw, write_worker
from tests.store.records import record

from mothtrap.core.records import StepRecord
from mothtrap.core.tensors import TensorInfo
from mothtrap.reader.run import Run, open_run
from mothtrap.store import layout, progress

KEPT = TensorInfo(kind="weight", name="kept")
NUMBERED = TensorInfo(kind="gradient", name="numbered")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    attempt = layout.create_run(tmp_path / "x", info(pid=DEAD_PID))
    write_worker(attempt, *(step_record(step) for step in range(4)))
    return attempt.parent


def step_record(step: int) -> StepRecord:
    return record(
        step,
        defined=((0, NUMBERED), (1, KEPT)) if step == 0 else (),
        tensors=1,
        raw=(raw((1, np.arange(64.0) + step)),),
    )


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("reading events of w0", lambda run: None),
        ("reading scalars of w0", lambda run: run.scalars("loss")),
        ("reading stats of w0", lambda run: run.tensor("gradient:numbered").history("l2")),
        ("reading index of w0", lambda run: run.tensor("weight:kept").raw_keys()),
        ("reading values", lambda run: run.tensor("weight:kept").history("l2")),
    ],
)
def test_a_bar_tells_how_far_it_is(
    run_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    said: str,
    asked: Callable[[Run], object],
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(progress, "LONG_BYTES", 1)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stderr", terminal)
    asked(open_run(run_folder))
    assert re.search(rf"{said} [^\r]*100%", terminal.getvalue())


def test_tensors_that_a_small_budget_skipped_are_checked_later(run_folder: Path) -> None:
    files = open_run(run_folder)._files
    [path] = run_folder.rglob("raw-*")
    data = path.read_bytes()
    place = data.index(np.arange(64.0).tobytes()) + 100
    path.write_bytes(data[:place] + b"x" + data[place + 1 :])
    assert not any("kept whole" in text for text in files.damage(0))
    assert any("1 tensor kept whole" in text for text in files.damage(1 << 20))
    assert any("1 tensor kept whole" in text for text in files.damage(0))


def test_a_statistic_is_worked_out_from_values(run_folder: Path) -> None:
    history = open_run(run_folder).tensor("weight:kept").history("max")
    assert history.values_S.tolist() == [63.0, 64.0, 65.0, 66.0]
    assert history.steps_S.tolist() == [0, 1, 2, 3]
