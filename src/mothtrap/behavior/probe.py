"""Base class of all probes. A probe looks for one weakness of a trained model by querying it."""

from __future__ import annotations

import abc
import dataclasses
import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from mothtrap.behavior.segments import Segment
from mothtrap.behavior.subject import Subject
from mothtrap.core.documented import Documented
from mothtrap.core.findings import EvidenceValue, Finding, Severity

MAX_IDS = 20
"""Row numbers in the evidence of a finding; all rows are stored. Chosen by hand."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Suspicion:
    """A weakness that a probe proposes.

    Attributes:
        message: what is wrong, where, a number, and the limit.
        p: p-value of the evidence, from rows that were not used to propose it; None for relations
            that are either true or false.
        features: Affected columns, most affected first.
        segment: Condition that selects the affected rows.
        rows: Indices of the affected rows in the given data, if there is no segment.
        evidence: numbers behind the message.
        severity: None for the severity of the probe.
        fixes: advice for this case, instead of the advice in the docstring.
        code: advice with code for this case, after the advice in the docstring.
        exact: the finding is a relation that must always be true, so few rows are enough.
    """

    message: str
    p: float | None = None
    features: tuple[str, ...] = ()
    segment: Segment | None = None
    rows: npt.NDArray[np.int64] = dataclasses.field(default_factory=lambda: np.zeros(0, np.int64))
    evidence: dict[str, EvidenceValue] = dataclasses.field(default_factory=dict)
    severity: Severity | None = None
    fixes: tuple[str, ...] = ()
    code: tuple[str, ...] = ()
    exact: bool = False


REFUTED = Suspicion(message="refuted", p=1.0)
"""Yielded for a proposal that the confirming rows do not support. It never becomes a finding, but
counts among the tests: else only the lucky ones were counted, and chance would be underrated."""


class Probe(Documented, abc.ABC):
    """Base of all probes; a subclass is a frozen dataclass whose fields are thresholds.

    A probe has no state, and does no I/O except querying the model. `cost` orders probes, the
    cheapest first. Probes with `needs_train` or `needs_new` run only if training rows or new rows
    were given.
    """

    cost: ClassVar[int] = 1
    needs_train: ClassVar[bool] = False
    needs_new: ClassVar[bool] = False

    @abc.abstractmethod
    def look(self, subject: Subject) -> Iterable[Suspicion]:
        """Search for the weakness.

        Returns:
            Suspicions, the strongest first.

        Raises:
            NotEnoughData: the probe applies, but there are too few rows, or the budget is spent.
            NotApplicable: the probe does not apply to this model or these data.
        """

    def finding(self, suspicion: Suspicion, rows: Sequence[Any], *, few: bool) -> Finding:
        """Convert a suspicion to a finding.

        Args:
            suspicion: A confirmed suspicion.
            rows: Names the affected rows in the user's data.
            few: Whether there are too few rows for statistical warnings.
        """
        severity = suspicion.severity or self.severity
        if few and not suspicion.exact:
            severity = Severity.INFO
        layers = tuple(f"input:{name}" for name in suspicion.features)
        evidence = dict(suspicion.evidence)
        where = str(suspicion.segment or "")
        if where:
            evidence = {"segment": where, **evidence}
        if len(rows):
            evidence["rows"] = len(rows)
            evidence["first_rows"] = [_plain(row) for row in rows[:MAX_IDS]]
        if suspicion.p is not None:
            evidence["p"] = float(f"{suspicion.p:.3g}")
        doc = self.doc()
        return Finding(
            code=self.code,
            name=self.name(),
            title=self.title,
            severity=severity,
            step=0,
            detected_step=0,
            last_step=0,
            mode="probe",
            layers=layers,
            message=suspicion.message,
            evidence={key: _plain(value) for key, value in evidence.items()},
            why=doc.why,
            fixes=(*(suspicion.fixes or doc.fixes_for(())), *suspicion.code),
            fingerprint=identity(self.code, where or "\0".join(layers)),
        )


def identity(code: str, what: str) -> str:
    """Return the fingerprint of a finding: code and segment, or code and columns."""
    return hashlib.blake2b(f"{code}\0{what}\0probe".encode(), digest_size=8).hexdigest()


def percent(share: float, digits: int = 0) -> str:
    """Return a share as `12 %`."""
    return f"{100 * share:.{digits}f} %"


def measured(value: float) -> str:
    """Format a value with three digits, or as a whole number if it is large."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float | int | str | bool) or value is None:
        return value
    return str(value)
