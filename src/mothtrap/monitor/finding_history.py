"""History of findings: one case per fault and mode, revised while it lasts."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from mothtrap.core.findings import PASSED, UNDONE, Finding, Severity
from mothtrap.core.window import Window

LASTING_STEPS, LASTING_SHARE = 100, 0.75
"""Minimum number of steps, and share of all steps so far, for which a fault must have been active
to remain a warning after it ended: its end means little if it lasted for most of the training.
Chosen by hand.
"""
AGAIN = "again_since_step"
"""Evidence of a case that was found again after it had ended."""


class FindingHistory:
    """Merges a rule's findings in successive windows into one finding.

    A case keeps its first fingerprint and its earliest onset. Its severity may rise. It falls only
    when the script has undone the harm, or when the fault has ended: to a warning if it was active
    for most of the training, otherwise to an info. Message and evidence come from the last window
    that was as bad and still showed the onset; `detected_step` comes from the first. If the onset
    is later, the message says since when the case was milder.
    """

    def __init__(self) -> None:
        self._cases: dict[tuple[str, str], Finding] = {}
        self._reported: dict[tuple[str, str], Finding] = {}

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Newest revision of every case, worst first, then earliest."""
        return tuple(sorted(self._cases.values(), key=lambda f: (f.severity.rank, f.step, f.code)))

    def severities(self) -> dict[str, list[Severity]]:
        """Return the severities of all cases by rule code."""
        found: dict[str, list[Severity]] = {}
        for finding in self._cases.values():
            found.setdefault(finding.code, []).append(finding.severity)
        return found

    def add(self, finding: Finding, window: Window) -> None:
        """Open a case, or revise the case of the same rule and mode.

        Args:
            finding: finding of the rule in a window.
            window: the window.
        """
        key = finding.code, finding.mode
        old = self._cases.get(key)
        self._cases[key] = finding if old is None else _revised(old, finding, window)

    def passed(self, code: str, step: int) -> None:
        """Downgrade cases that a rule no longer finds at `step` to infos or warnings."""
        for key, case in self._cases.items():
            if case.code == code and case.severity is not Severity.INFO:
                self._cases[key] = _passed(case, step)

    def take_worse(self) -> list[Finding]:
        """Return the cases that were opened or became worse since the last call."""
        worse = [
            (key, case)
            for key, case in self._cases.items()
            if key not in self._reported or case.severity.rank < self._reported[key].severity.rank
        ]
        self._reported.update(worse)
        return [case for _, case in worse]

    def take_grown(self, counts: Collection[int], *, all_changed: bool = False) -> list[Finding]:
        """Return the cases that lasted longer, or ended, since the last call.

        Args:
            counts: numbers of captured steps for which a reaction waits.
            all_changed: include cases whose number has not doubled.
        """
        grown = [
            (key, case)
            for key, case in self._cases.items()
            if key in self._reported and _has_grown(self._reported[key], case, counts, all_changed)
        ]
        self._reported.update(grown)
        return [case for _, case in grown]

    def take_changed(self) -> list[Finding]:
        """Return the cases that changed in any way since the last call."""
        changed = [
            (key, case) for key, case in self._cases.items() if self._reported.get(key) != case
        ]
        self._reported.update(changed)
        return [case for _, case in changed]


def _passed(case: Finding, step: int) -> Finding:
    """Return a case that is no longer found at a step; it may have ended earlier."""
    ended = case.evidence.get(PASSED)
    message = case.message
    if not isinstance(ended, int):
        ended, message = step, f"{case.message}; it had ended by step {step}"
    again = case.evidence.get(AGAIN)
    # Until the rule looked again, the fault may have ended at any time.
    held = min(ended, case.last_step) - (again if isinstance(again, int) else case.step)
    lasting = held >= LASTING_STEPS and held >= LASTING_SHARE * (step + 1)
    return msgspec.structs.replace(
        case,
        severity=Severity.WARNING if lasting else Severity.INFO,
        message=message,
        evidence={**case.evidence, PASSED: ended},
    )


def _has_grown(told: Finding, case: Finding, counts: Collection[int], all_changed: bool) -> bool:
    if told is case or told == case:
        return False
    doubled = case.count.bit_length() > told.count.bit_length()
    awaited = any(told.count < count <= case.count for count in counts)
    has_passed = told.evidence.get(PASSED) != case.evidence.get(PASSED)
    return all_changed or doubled or awaited or has_passed


def _revised(old: Finding, new: Finding, window: Window) -> Finding:
    had_passed = PASSED in old.evidence
    undone = UNDONE in new.evidence
    worse = had_passed or undone or new.severity.rank < old.severity.rank
    as_bad = new.severity is old.severity and new.step <= old.step
    text = new if worse or as_bad else old
    again = new.step if had_passed else old.evidence.get(AGAIN)
    evidence = text.evidence if again is None else {**text.evidence, AGAIN: again}
    return msgspec.structs.replace(
        old,
        severity=text.severity,
        step=min(old.step, new.step),
        layers=tuple(dict.fromkeys((*old.layers, *new.layers))),
        workers=tuple(sorted({*old.workers, *new.workers})),
        count=_count(old, new, window),
        last_step=max(old.last_step, new.last_step),
        message=_message(old, text),
        evidence=evidence,
        fixes=text.fixes,
        confidence=text.confidence,
        location=text.location or old.location,
        detected_step=new.detected_step if worse else old.detected_step,
    )


def _message(old: Finding, text: Finding) -> str:
    if text.step <= old.step:
        return text.message
    passed = old.evidence.get(PASSED)
    if passed is not None:
        return (
            f"{text.message}; the problem that began at step {old.step} had ended by step {passed}"
        )
    milder = "a note" if old.severity is Severity.INFO else f"a {old.severity.value}"
    return f"{text.message}; {milder} since step {old.step}"


def _count(old: Finding, new: Finding, window: Window) -> int:
    """Return the number of captured steps with the fault, without counting any twice."""
    if len(window.steps_S) and window.steps_S[0] <= old.step:
        return max(old.count, new.count)
    if new.last_step <= old.last_step:
        return old.count
    # The window no longer covers the whole case: count only its new steps, assuming that they are
    # as dense as the others.
    share = (new.last_step - max(old.last_step, new.step - 1)) / (new.last_step - new.step + 1)
    return old.count + round(new.count * min(1.0, share))
