"""Evaluate the rules on the steps of one worker as they arrive."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Collection, Sequence
from itertools import product
from typing import Protocol

import numpy as np

from mothtrap.core.error_texts import traceback_of
from mothtrap.core.errors import CannotJudge, NotApplicable, NotEnoughData
from mothtrap.core.facts.captures import Thinned, ToolError
from mothtrap.core.facts.nonfinite import NonfiniteModule
from mothtrap.core.findings import Finding, RuleState, Severity
from mothtrap.core.needs import Need
from mothtrap.core.quiet import Quiet
from mothtrap.core.records import StepRecord
from mothtrap.core.rule import Rule
from mothtrap.core.runs import RuleStatus
from mothtrap.core.steps import Mode
from mothtrap.core.window import Window
from mothtrap.monitor.coverage import Coverage
from mothtrap.monitor.finding_history import FindingHistory
from mothtrap.monitor.own_checks import failure_of, found_by
from mothtrap.reader.series.windows import WindowBuilder
from mothtrap.statistics.summary import COLUMN

FIRST_STEPS = 16
"""Number of first train steps that are all evaluated; most wiring errors show there."""

DENSE_STEPS, DENSE_EVERY = 64, 4
"""Up to this train step, one step in N is evaluated, regardless of the cost."""

PAUSE_S, NEW_SHARE = 0.25, 0.25
"""Dense steps that are faster than this are evaluated when a quarter of all steps so far is new: 13
evaluations of 64 steps instead of 28, each of which takes 4 to 10 ms. By hand.
"""

COST_RATIO = 0.005
"""Share of wall time that evaluation may take after the dense steps; a training run that uses all
cores loses this processor time.
"""

LONGEST_STEPS = 128
"""Maximum number of train steps between evaluations: a window contains about 500 steps, and an
earlier onset is dated to its beginning.
"""

URGENT_RECORDS = 16
"""Number of records with non-finite signals that are evaluated immediately; later records wait."""


THINNED = "its data was captured less often, to stay within the budget (overhead)"


class WindowSource(Protocol):
    """Turns records into windows."""

    def feed(self, record: StepRecord) -> None:
        """Add the next record."""

    def window(self, now_s: float) -> Window:
        """Return the window that the rules read."""


class ReferenceRun(Protocol):
    """Provides a reference run up to the step that this run has reached."""

    def window(self, step: int, now_s: float) -> Window:
        """Return the reference window up to a step."""


class Monitor:
    """Evaluates rules on the records of one worker, in order.

    A window is a function of the records, so the same records give the same findings in every
    process. The speed of the machine has only one effect: after the dense first steps, not every
    window is evaluated. So `detected_step`, `count` and the evidence of a trend can differ, and a
    fault that appears and disappears between two evaluated windows is missed.

    A rule that fails in any way is switched off and reported in `failures`; the others continue.
    """

    def __init__(
        self,
        rules: Sequence[Rule],
        worker: int = 0,
        *,
        builder: WindowSource | None = None,
        clock: Callable[[], float] = time.perf_counter,
        quiet: Quiet | None = None,
        every: int | None = None,
        reference: ReferenceRun | None = None,
        switched_off: Sequence[RuleStatus] = (),
    ) -> None:
        """Prepare the evaluation.

        Args:
            rules: the active rules.
            worker: worker of the records.
            builder: builds the windows; by default from the needs of the rules.
            clock: returns seconds; only used to limit the evaluation time.
            quiet: severities and layers that the user ignores.
            every: number of records between evaluations after the dense first steps, regardless of
                the cost; None: as the clock allows.
            reference: another run that the windows include.
            switched_off: states of rules that could not be created.
        """
        self._switched_off = tuple(switched_off)
        needs = [need for rule in rules for need in rule.needs]
        self._builder: WindowSource = builder or WindowBuilder(needs, worker)
        self._rules = tuple(rules)
        self._clock = clock
        self._quiet = quiet or Quiet()
        self._every, self._reference = every, reference
        self._records = 0
        self._cases, self._coverage = FindingHistory(), Coverage()
        self._outcomes: dict[str, tuple[RuleState, str]] = {
            rule.code: (RuleState.NOT_ENOUGH_DATA, "no step was evaluated") for rule in rules
        }
        self._thinned: set[tuple[str, Mode, str]] = set()
        self._captured: set[tuple[str, Mode, str]] = set()
        self._failures: list[ToolError] = []
        self._train_records = self._unjudged = 0
        self._urgent_records = 0
        self._due_s, self._judged_s = 0.0, -PAUSE_S
        self._now_s = 0.0
        self._pending = False

    def feed(self, record: StepRecord) -> list[Finding]:
        """Add a record, and evaluate the rules if it is time.

        Returns:
            Findings that were opened or became worse.
        """
        self.take(record)
        urgent = self._urgent_records < URGENT_RECORDS and _is_urgent(record)
        self._urgent_records += urgent
        if not (urgent or self._is_early(record.key.mode) or self._is_time()):
            return []
        self._pending = False
        self._judge_all()
        return self._cases.take_worse()

    def take(self, record: StepRecord) -> None:
        """Add a record without evaluating; `finish` or the next record triggers the evaluation."""
        self._builder.feed(record)
        self._coverage.feed(record)
        for fact in record.observations:
            if isinstance(fact, Thinned):
                stream = set(product(fact.kinds, (fact.mode,), fact.statistics))
                self._thinned |= stream
                self._captured |= stream if fact.count < fact.due else set()
        self._now_s = record.wall_s
        self._pending = True
        self._train_records += record.key.mode is Mode.TRAIN
        self._unjudged += record.key.mode is Mode.TRAIN
        self._records += 1

    def idle(self, now_s: float) -> list[Finding]:
        """Evaluate rules that wait for a condition while no record arrives.

        Args:
            now_s: Unix time.

        Returns:
            Findings that were opened or became worse.
        """
        waiting = [rule for rule in self._rules if rule.waits]
        if waiting and self._train_records and now_s > self._now_s:
            self._judge(waiting, now_s)
        return self._cases.take_worse()

    def grown(self, counts: Collection[int], *, all_changed: bool = False) -> list[Finding]:
        """Return findings that lasted longer, or ended, since they were last returned.

        See `FindingHistory.take_grown`.
        """
        return self._cases.take_grown(counts, all_changed=all_changed)

    def finish(self) -> list[Finding]:
        """Evaluate the remaining records.

        Returns:
            Findings that changed in any way since they were last returned.
        """
        if self._pending:
            self._pending = False
            self._judge_all()
        return self._cases.take_changed()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The newest revision of every finding: worst first, then earliest."""
        return self._cases.findings

    @property
    def failures(self) -> tuple[ToolError, ...]:
        """Rules that raised an exception, one entry each, in order."""
        return tuple(self._failures)

    def lacking(self) -> dict[str, tuple[Need, ...]]:
        """Return the needs without data in the last window, by rule code."""
        window = self._builder.window(self._now_s)
        shown = {(matrix.kind, matrix.mode, matrix.statistic) for matrix in window.matrices}
        return {
            rule.code: tuple(
                need
                for need in rule.needs
                if need.kinds
                and not need.optional
                and shown.isdisjoint(product(need.kinds, need.modes, need.statistics))
            )
            for rule in self._rules
        }

    def statuses(self) -> tuple[RuleStatus, ...]:
        """Return the state of every rule, with its reason; sorted by code."""
        worst = {
            code: min(severities, key=lambda severity: severity.rank)
            for code, severities in self._cases.severities().items()
        }
        found = []
        for rule in sorted(self._rules, key=lambda rule: rule.code):
            state, reason = self._outcomes[rule.code]
            severity = worst.get(rule.code, Severity.INFO)
            if rule.code not in worst:
                state, reason = self._coverage.limited(rule, (state, reason))
            if state is not RuleState.RULE_FAILED and severity is not Severity.INFO:
                state, reason = RuleState(severity.value), ""
            found.append(RuleStatus(code=rule.code, name=rule.name(), state=state, reason=reason))
        return tuple(sorted((*found, *self._switched_off), key=lambda status: status.code))

    def _is_early(self, mode: Mode) -> bool:
        if self._train_records > DENSE_STEPS:
            return False
        more = self._unjudged >= DENSE_EVERY or mode is not Mode.TRAIN
        if not more and self._train_records > FIRST_STEPS:
            return False
        if self._every is not None or self._unjudged >= NEW_SHARE * self._train_records:
            return True
        return self._clock() - self._judged_s >= PAUSE_S

    def _is_time(self) -> bool:
        if self._every is not None:
            return self._records % self._every == 0
        return self._unjudged >= LONGEST_STEPS or self._clock() >= self._due_s

    def _judge_all(self) -> None:
        began_s = self._clock()
        self._judge(self._rules, self._now_s)
        ended_s = self._clock()
        self._unjudged, self._judged_s = 0, ended_s
        self._due_s = ended_s + (ended_s - began_s) * (1 / COST_RATIO - 1)

    def _judge(self, rules: Sequence[Rule], now_s: float) -> None:
        window = self._builder.window(now_s)
        if self._reference is not None:
            beside = self._reference.window(window.last_step, now_s)
            window = dataclasses.replace(window, reference=beside)
        self._coverage.judged(window)
        # The script may have set NumPy to raise on overflow or division.
        with np.errstate(all="ignore"):
            for rule in rules:
                if self._outcomes[rule.code][0] is not RuleState.RULE_FAILED:
                    self._run(rule, window)

    def _run(self, rule: Rule, window: Window) -> None:
        try:
            found = [self._quiet.apply(finding) for finding in found_by(rule, window)]
        except CannotJudge as reason:
            self._note(rule, reason)
            return
        except Exception as error:  # a broken rule must not stop the others, nor training
            self._failed(rule, window, error.__cause__ or error)
            return
        self._outcomes[rule.code] = (RuleState.OK, "")
        if rule.passes and not found:
            self._cases.passed(rule.code, window.last_step)
        for finding in found:
            if finding is not None:
                self._cases.add(finding, window)

    def _failed(self, rule: Rule, window: Window, error: BaseException) -> None:
        text = failure_of(rule, error)
        self._outcomes[rule.code] = (RuleState.RULE_FAILED, text)
        self._failures.append(
            ToolError(
                step=max(0, window.last_step),
                part=f"rule {rule.code} {rule.name()}",
                error=text,
                traceback=traceback_of(error),
            )
        )

    def _note(self, rule: Rule, reason: CannotJudge) -> None:
        """Record the data that a rule lacked, unless it was evaluated before.

        Data that was never captured because of thinning is unknown. A rule without this data
        must not report that it does not apply.
        """
        lacking = self._thinned
        if isinstance(reason, NotApplicable):
            lacking = self._thinned - self._captured
        if lacking and any(
            not lacking.isdisjoint(product(need.kinds, need.modes, need.statistics))
            for need in rule.needs
        ):
            reason = NotEnoughData(f"{reason}; {THINNED}")
        if isinstance(reason, NotApplicable):
            self._outcomes[rule.code] = (RuleState.NOT_APPLICABLE, str(reason))
        elif self._outcomes[rule.code][0] is not RuleState.OK:
            self._outcomes[rule.code] = (RuleState.NOT_ENOUGH_DATA, str(reason))


def _is_urgent(record: StepRecord) -> bool:
    """Return whether a record contains a non-finite loss or gradient."""
    if any(isinstance(seen, NonfiniteModule) for seen in record.observations):
        return True
    if any(s.name == "loss" and not np.isfinite(s.value) for s in record.scalars):
        return True
    if not len(record.tensor_T):
        return False
    nonfinite_T = record.summary_TF[:, COLUMN["nan"]] + record.summary_TF[:, COLUMN["inf"]]
    return bool((nonfinite_T > 0).any())
