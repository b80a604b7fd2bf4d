"""A small run of the reading benchmark."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from bench import reading as bench

TENSORS = 9


@pytest.fixture(autouse=True)
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run here what the process of a cold read runs."""

    def ask(run: Path, steps: int) -> str:
        printed: list[str] = []
        monkeypatch.setattr(sys, "argv", ["-c", str(run), str(steps)])
        exec(bench.COLD, {"print": printed.append})
        return printed[0]

    monkeypatch.setattr(bench, "ask", ask)


def test_both_lengths_are_read_and_a_growing_run_is_followed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    bench.main(["--steps", "20", "--tensors", str(TENSORS), "--runs", "1"])
    printed = capsys.readouterr().out
    for said in (
        *("2 steps x 9 tensors", "20 steps x 9 tensors", "first question", "memory MB"),
        *("wanted: 1 s", "wanted: 12", "delay of the reader", "with one number"),
    ):
        assert said in printed


def test_a_run_that_lacks_a_step_is_no_measurement(tmp_path: Path) -> None:
    bench.write(tmp_path / "run", 3, TENSORS)
    assert json.loads(bench.ask(tmp_path / "run", 3))["both"] > 0
    with pytest.raises(AssertionError):
        bench.ask(tmp_path / "run", 4)
