"""Run custom rules so that their failures affect nothing else.

A custom rule runs on a separate thread for a limited time, with a copy of the window whose arrays
are read-only. Its findings are read on that thread, too: a generator may raise or never end.
"""

from __future__ import annotations

import copy
import ctypes
import dataclasses
import inspect
import threading
from pathlib import PurePath

import msgspec
import numpy as np

from mothtrap.core.checked_findings import findings_of
from mothtrap.core.errors import CannotJudge
from mothtrap.core.findings import Finding
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.schedule import Schedule
from mothtrap.core.steps import Mode
from mothtrap.core.window import Window
from mothtrap.monitor.rule_faults import advice, line_in, one_line
from mothtrap.monitor.rule_files import line_of

LOOKS, LOOK_S = 20, 0.5
"""Number and length of the waits for one window; chosen by hand. Short waits keep a process that
was stopped and continued from counting as late."""
SHOWN_RANGES = 3
"""Maximum number of named ranges of missing steps; chosen by hand."""


class TooSlow(Exception):
    """A rule exceeded its time limit."""


class RuleFailure(Exception):
    """A rule that is not part of mothtrap failed; `__cause__` is its exception."""


def is_own(rule: Rule) -> bool:
    """Return whether a rule is not part of mothtrap."""
    return not type(rule).__module__.startswith("mothtrap.")


def found_by(rule: Rule, window: Window) -> list[Finding]:
    """Return the findings of a rule in a window; custom rules are isolated.

    Raises:
        CannotJudge: raised by the rule.
        RuleFailure: a rule that is not part of mothtrap raised another exception, or took too long.
    """
    if not is_own(rule):
        return list(rule.check(window))
    call = _Call(rule, window)
    call.run()
    if isinstance(call.error, CannotJudge):
        raise call.error
    if call.error is not None:
        raise RuleFailure from call.error
    return [_with_missing(rule, window, finding) for finding in call.findings]


def failure_of(rule: Rule, error: BaseException) -> str:
    """Return one line about where and how a rule failed, and the change to make."""
    if not is_own(rule):
        return one_line(error)
    code = getattr(inspect.unwrap(type(rule).check), "__code__", None)
    file = code.co_filename if code is not None else PurePath(type(rule).__module__).name
    line = line_in(error, file)
    place = f"{file}:{line or line_of(type(rule))}"
    if isinstance(error, TooSlow):
        todo = "end its loops, or evaluate fewer values"
    elif line is None:
        todo = "change the value that it returns there"
    else:
        todo = f"correct line {line}"
    test = f"`mothtrap analyze RUN --rules {PurePath(file).name}` tries it on this run"
    return f"{place}: {one_line(error)}{advice(error)}; {todo}: {test}"


class _Call:
    """One call of a rule on a separate thread."""

    def __init__(self, rule: Rule, window: Window) -> None:
        self._rule, self._window = rule, window
        self.findings: list[Finding] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        """Call the rule, and wait until it is done, or late."""
        name = f"mothtrap-rule-{self._rule.code}"
        thread = threading.Thread(target=self._work, name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the process is ending, so no thread can be started
            self._work()
            return
        for _ in range(LOOKS):
            thread.join(LOOK_S)
            if not thread.is_alive():
                return
        self.findings, self.error = [], TooSlow(f"it took more than {LOOKS * LOOK_S:g} seconds")
        if thread.ident is not None:
            # This is the only way to end a loop on another thread, which would otherwise take the
            # interpreter from the training forever. A thread that waits in a C call continues to
            # sleep.
            late, stop = ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(late, stop)

    def _work(self) -> None:
        try:
            with np.errstate(all="ignore"):  # the script may have set NumPy to raise
                window = _own_window(self._window)
                found = findings_of(self._rule, window, self._rule.check(window))
        except BaseException as err:  # a rule must not end the process either
            self.error = self.error or err
        else:
            self.findings = [] if self.error else found


def _own_window(window: Window) -> Window:
    """Return a copy of a window that a rule may change without affecting other rules."""
    series = tuple(copy.copy(each) for each in window.series)
    matrices = tuple(copy.copy(each) for each in window.matrices)
    return dataclasses.replace(window, series=series, matrices=matrices)


def _with_missing(rule: Rule, window: Window, finding: Finding) -> Finding:
    """Add the required but missing steps of the rule to a finding."""
    missing = missing_steps(rule.needs, window)
    if not missing:
        return finding
    text = f"{finding.message}; the rule did not see {missing}"
    return msgspec.structs.replace(finding, message=text)


def missing_steps(needs: tuple[Need, ...], window: Window) -> str:
    """Describe the steps of a window at which a needed value was due but not captured."""
    if not len(window.steps_S):
        return ""
    every_S = np.arange(window.steps_S[0], window.last_step + 1)
    missing = np.setdiff1d(every_S, window.steps_S)
    for need in needs:
        shown = [
            matrix.steps_S
            for matrix in window.matrices
            if matrix.kind in need.kinds
            and matrix.statistic in need.statistics
            and matrix.mode is Mode.TRAIN
            and len(matrix.steps_S)
        ]
        if shown and Mode.TRAIN in need.modes:
            schedule = need.schedule or Schedule(every=need.every)
            begin = max(every_S[0], min(int(steps_S[0]) for steps_S in shown))
            due_S = np.array([s for s in every_S[every_S >= begin] if schedule.is_due(int(s))])
            missing = np.union1d(missing, np.setdiff1d(due_S, np.concatenate(shown)))
    return _in_words(missing.astype(int).tolist())


def _in_words(steps: list[int]) -> str:
    """Return steps as ranges, the latest ones: `12 steps (3, 8 to 10, ...)`."""
    if not steps:
        return ""
    ranges: list[list[int]] = []
    for step in steps:
        if ranges and step == ranges[-1][1] + 1:
            ranges[-1][1] = step
        else:
            ranges.append([step, step])
    words = [f"{a}" if a == b else f"{a} to {b}" for a, b in ranges[:SHOWN_RANGES]]
    more = f" and {len(ranges) - SHOWN_RANGES} more ranges" if len(ranges) > SHOWN_RANGES else ""
    return f"step {words[0]}" if len(steps) == 1 else f"steps {', '.join(words)}{more}"
