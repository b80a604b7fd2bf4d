"""`mothtrap top`: one screen of a run, and the keys in a real terminal."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pexpect
import pytest
from click.testing import CliRunner
from tests.cli.stored_run import store_run
from tests.harness.running import environment
from tests.report.faulty_run import exploding

from mothtrap.cli import main
from mothtrap.report.screen import spark
from mothtrap.store.machine_log import MachineLog, Reading


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    second = exploding(code="NUM001", name="nonfinite_loss", step=3, fingerprint="f2", layers=())
    hostile = exploding(
        code="ZZZ001", name="own", step=90, message="x\x1b]0;title\x07[red]y", fingerprint="f3"
    )
    store_run(tmp_path / "runs" / "faulty", findings=(exploding(), second, hostile))
    store_run(tmp_path / "runs" / "well", created_s=1.0)
    log = MachineLog(tmp_path / "runs" / "faulty" / "1")
    log.append([Reading(1.0, "cpu_percent", "", 37.0)])
    log.close()
    return tmp_path


def test_one_screen_says_what_is_wrong(runs: Path) -> None:
    shown = CliRunner().invoke(main, ["top", "faulty"])
    assert shown.exit_code == 0, shown.output
    for text in (
        *(
            "faulty  finished  step 12",
            "GRD101 exploding gradient",
            "step 71",
            "NUM001 non-finite loss",
        ),
        *("loss ", "machine: CPU 37 %", "q quit"),
    ):
        assert text in shown.output, text
    assert "q quit" in shown.output.splitlines()[1]  # a low terminal cuts off the end
    assert "steps/s" not in shown.output  # the run is over
    assert "\x1b" not in shown.output
    assert "\x07" not in shown.output
    assert "[red]y" in shown.output
    assert max(map(len, shown.output.splitlines())) <= 100


def test_a_run_that_is_well_has_a_screen_too(runs: Path) -> None:
    shown = CliRunner().invoke(main, ["top", "well", "--once"])
    assert shown.exit_code == 0, shown.output
    assert "GRD101" not in shown.output


def test_keys_go_through_the_findings_and_leave_the_terminal_as_it_was(runs: Path) -> None:
    child = pexpect.spawn(
        sys.executable,
        ["-m", "mothtrap", "top", "faulty"],
        cwd=str(runs),
        env=environment(TERM="xterm"),
        dimensions=(40, 100),
        encoding="utf-8",
        timeout=30,
    )
    child.expect(r"─ NUM001 ─")
    child.send("n")
    child.expect(r"─ GRD101 ─")
    child.send("f")
    child.expect(r"─ NUM001 ─")
    child.send("s")
    child.expect("the job has ended")
    child.send("q")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0


def test_a_spark_shows_extremes_and_what_is_not_finite() -> None:
    assert spark(np.array([0.0, 1.0, 0.0]), 3) == "▁█▁"
    assert spark(np.array([1.0] * 50 + [9.0] + [1.0] * 49), 10) == "▁▁▁▁▁█▁▁▁▁"
    assert spark(np.array([1.0, np.nan, np.inf, 2.0]), 4) == "▁××█"
    assert spark(np.array([np.nan]), 4) == "×"
    assert spark(np.array([]), 4) == ""
    assert len(spark(np.arange(1000.0), 80)) == 80
