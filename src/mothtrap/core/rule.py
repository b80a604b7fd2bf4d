"""Base class of all rules; a rule detects one fault in a window."""

from __future__ import annotations

import abc
from typing import ClassVar

from mothtrap.core.documented import Documented
from mothtrap.core.findings import EvidenceValue, Finding, Severity, fingerprint, plain
from mothtrap.core.needs import Need
from mothtrap.core.proof import Proof
from mothtrap.core.ruledoc import possible_fixes
from mothtrap.core.texts import readable
from mothtrap.core.window import Window


class Rule(Documented, abc.ABC):
    """Base of all rules; a subclass is a frozen dataclass whose fields are thresholds.

    A rule has no state, does no I/O, reads no clock, and imports no framework. Its docstring is
    its documentation (for headings see `core.ruledoc`), and its file name is its name. The short
    form of a rule is a function (`core.own_rules`).

    Attributes:
        needs: the data that the rule reads.
        proof: chart of the data that proves a finding; None if no series of the run proves it.
        severity: default severity of its findings.
        title: name of the fault to show, if it differs from the words of the file name.
        explains: names of the rules whose findings this fault causes.
        passes: a finding becomes an `info` when the rule stops finding the fault.
        compares: the rule compares workers; its windows have the other workers as `peers`.
        waits: the rule is also called while the job makes no steps.
    """

    needs: ClassVar[tuple[Need, ...]] = ()
    proof: ClassVar[Proof | None] = None
    passes: ClassVar[bool] = False
    compares: ClassVar[bool] = False
    waits: ClassVar[bool] = False

    @abc.abstractmethod
    def check(self, window: Window) -> list[Finding]:
        """Search for the fault in a window.

        Returns:
            Findings; an empty list means that the rule was evaluated and found nothing.

        Raises:
            NotEnoughData: the rule applies, but the window has too little data.
            NotApplicable: the rule does not apply to this training run.
        """

    def fixes(self, window: Window) -> tuple[str, ...]:
        """Return the advice under `What to do` for the run's framework, most likely fix first."""
        return self.doc().fixes_for(window.adapters)

    def finding(
        self,
        window: Window,
        *,
        step: int,
        message: str,
        severity: Severity | None = None,
        layers: tuple[str, ...] = (),
        evidence: dict[str, EvidenceValue] | None = None,
        location: str | None = None,
        count: int = 1,
        last_step: int | None = None,
        confidence: str = "high",
        mode: str = "train",
        fixes: tuple[str, ...] | None = None,
        why: str | None = None,
        workers: tuple[int, ...] | None = None,
        title: str = "",
    ) -> Finding:
        """Create a finding of this rule.

        Args:
            window: the evaluated window.
            step: first step with the fault.
            message: what is wrong, where, and by how much.
            severity: severity; by default the rule's severity.
            layers: module paths or tensor names, the most affected first.
            evidence: numbers that show the fault, by name.
            location: `file:line` to change.
            count: number of captured steps with the fault.
            last_step: last captured step with the fault; by default `step`.
            confidence: `high`, `medium` or `low`.
            mode: mode of the step.
            fixes: advice; if None or empty, the advice of the docstring.
            why: reason why the fault matters; by default the docstring's.
            workers: ranks with the fault; by default the window's worker.
            title: name of the fault in this case.
        """
        fixes = fixes or self.fixes(window)
        return Finding(
            code=self.code,
            name=self.name(),
            title=title or self.title,
            severity=self.severity if severity is None else severity,
            step=step,
            detected_step=max(window.last_step, step),
            mode=mode,
            layers=layers,
            workers=(window.worker,) if workers is None else workers,
            count=count,
            last_step=step if last_step is None else last_step,
            message=readable(message),
            evidence={key: plain(value) for key, value in (evidence or {}).items()},
            why=self.doc().why if why is None else why,
            fixes=possible_fixes(fixes, self.code, step),
            confidence=confidence,
            location=location,
            fingerprint=fingerprint(self.code, layers, mode),
        )
