"""The CPU seconds of tests include those of their programs, and a limit can fail a run."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.harness.cpu_time import CpuTimes, spent
from tests.harness.running import ITSELF, PYTHON, ready, run

BUSY = "import time\nwhile time.process_time() < {}: pass\n"
"""A program that takes that many CPU seconds, however busy the machine is."""


def told(times: CpuTimes, seconds: float, *, full: bool = False) -> pytest.ExitCode:
    """Report a test that passed; return the exit status of the session."""
    report: Any = SimpleNamespace(nodeid="t", user_properties=[("cpu_s", seconds), ("full", full)])
    times.pytest_runtest_logreport(report)
    session: Any = SimpleNamespace(exitstatus=pytest.ExitCode.OK, config=SimpleNamespace())
    times.pytest_sessionfinish(session)
    return session.exitstatus


@pytest.mark.parametrize("python", [ITSELF, PYTHON], ids=["started", "forked"])
def test_programs_are_counted(python: tuple[str], tmp_path: Path) -> None:
    ready()
    (tmp_path / "busy.py").write_text(BUSY.format(0.5), encoding="utf-8")
    before_s = spent()
    assert run([*python, "busy.py"], cwd=tmp_path).returncode == 0
    assert spent() - before_s > 0.4


def test_a_test_above_the_limit_fails_the_run() -> None:
    assert told(CpuTimes(16.0), 17.0) is pytest.ExitCode.TESTS_FAILED
    assert told(CpuTimes(16.0), 15.0) is pytest.ExitCode.OK


def test_without_a_limit_and_for_a_full_test_it_only_tells() -> None:
    assert told(CpuTimes(None), 17.0) is pytest.ExitCode.OK
    assert told(CpuTimes(16.0), 17.0, full=True) is pytest.ExitCode.OK


def test_the_sum_has_what_workers_took_outside_of_tests() -> None:
    times = CpuTimes(None)
    told(times, 40.0)
    for seconds in (100.0, 200.0):
        times.pytest_testnodedown(SimpleNamespace(workeroutput={"cpu_s": seconds}))
    lines: list[str] = []
    reporter: Any = SimpleNamespace(section=lines.append, line=lambda text, **_: lines.append(text))
    times.pytest_terminal_summary(reporter)
    total, _, rest = lines[-1].partition(" CPU seconds: ")
    assert int(total) >= 300
    assert rest.startswith("40 in tests")
