"""CPU seconds of every test, including those of the programs that it starts.

Counted are the test's own process, the processes that it waited for, and the programs that were
forked from a preloaded one. On a busy machine the same test takes up to twice as many CPU
seconds, so only a limit far above what tests take can fail a run.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.harness import running

USUAL_S = 8.0
"""Limit on an idle machine for tests without the mark `full`; chosen by hand."""
SHOWN = 25
_SPENT = "cpu_s"
_OWN, _OF_CHILDREN = 11, 13
"""Fields of a process; those of its children are of the processes that it waited for."""
_TICKS = os.sysconf("SC_CLK_TCK")
_BEGAN = pytest.StashKey[float]()


def spent() -> float:
    """Return the CPU seconds that this process and its programs have used so far."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used) + _of_preloaded(_OF_CHILDREN)


def spent_in_all() -> float:
    """Return what `spent` does, with the CPU seconds of the preloaded processes themselves."""
    return spent() + _of_preloaded(_OWN)


def _of_preloaded(first: int) -> float:
    return sum(_seconds(pid, first) for pid in running.preloaded_pids())


def _seconds(pid: int, first: int) -> float:
    """Sum two fields of a process, in user and system mode; see `man 5 proc`."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return sum(int(field) for field in fields[first : first + 2]) / _TICKS


class CpuTimes:
    """A pytest plug-in that measures where tests run and reports where results are collected."""

    def __init__(self, limit_s: float | None, planned_s: float | None = None) -> None:
        self._limit_s, self._planned_s = limit_s, planned_s
        self._by_test: dict[str, float] = {}
        self._in_tests_s = self._of_workers_s = 0.0

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        item.stash[_BEGAN] = spent()
        return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        if call.when == "teardown":
            item.user_properties.append((_SPENT, spent() - item.stash[_BEGAN]))
            item.user_properties.append(("full", item.get_closest_marker("full") is not None))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        told = dict(report.user_properties)
        if _SPENT in told:
            seconds = float(told[_SPENT])  # type: ignore[arg-type]
            self._in_tests_s += seconds
            if not told["full"]:
                self._by_test[report.nodeid] = seconds

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        too_expensive = self._limit_s is not None and self._above(self._limit_s)
        if too_expensive and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output[_SPENT] = spent_in_all()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self._of_workers_s += getattr(node, "workeroutput", {}).get(_SPENT, 0.0)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        write = terminalreporter
        write.section("most expensive tests")
        dearest = sorted(self._by_test.items(), key=lambda one: -one[1])[:SHOWN]
        refused = f"; above {self._limit_s:g} the run fails" if self._limit_s else ""
        for name, seconds in dearest:
            write.line(f"{seconds:6.2f} s  {name}")
        for name, seconds in self._above(USUAL_S):
            write.line(
                f"{name} took {seconds:.1f} CPU seconds, at most {USUAL_S:g} are usual: make it "
                f"cheaper, or mark it `full` where a cheaper test covers it{refused}",
                red=True,
            )
        planned = f"; planned are {self._planned_s:g} on an idle machine" if self._planned_s else ""
        write.line(
            f"{self._in_all():.0f} CPU seconds: {self._in_tests_s:.0f} in tests, the rest to "
            f"import and to collect them{planned}"
        )

    def _in_all(self) -> float:
        if not self._of_workers_s:
            return spent_in_all()
        own = resource.getrusage(resource.RUSAGE_SELF)
        return own.ru_utime + own.ru_stime + self._of_workers_s

    def _above(self, limit_s: float) -> list[tuple[str, float]]:
        return [(name, seconds) for name, seconds in self._by_test.items() if seconds > limit_s]
