"""Form of a case: a model with a weakness, data to query it with, and the expected finding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

CASES: dict[str, Callable[[int, bool], Case]] = {}


@dataclass(frozen=True, kw_only=True)
class Case:
    """A case.

    `codes`: any of these counts. `segment_R`: planted rows. `features`: must be named. `evidence`:
    values that the evidence must have. `is_found`: evaluates the report instead, if the weakness is
    not a finding.
    """

    predict: Any
    X: Any
    y: Any
    codes: tuple[str, ...]
    segment_R: Any = None
    features: tuple[str, ...] = ()
    evidence: dict[str, Any] = field(default_factory=dict)
    extras: dict[str, Any] = field(default_factory=dict)
    is_found: Callable[[Any], bool] | None = None


def case(name: str) -> Callable[[Callable[[int, bool], Case]], Callable[[int, bool], Case]]:
    """Register a builder of a case: seed, and whether the healthy twin is wanted."""

    def register(build: Callable[[int, bool], Case]) -> Callable[[int, bool], Case]:
        CASES[name] = build
        return build

    return register


def is_named(case: Case, report: Any) -> bool:
    """Return whether a report names the planted code with its rows or columns."""
    if case.is_found is not None:
        return case.is_found(report)
    for finding in report.findings:
        if finding.code not in case.codes:
            continue
        if case.segment_R is not None:
            found_R = np.zeros(len(case.y), bool)
            found_R[report.rows(finding)] = True
            if (found_R & case.segment_R).sum() < 0.7 * (found_R | case.segment_R).sum():
                continue
        if case.features:
            named = {layer.removeprefix("input:") for layer in finding.layers}
            if not set(case.features) <= named:
                continue
        if any(finding.evidence.get(key) != value for key, value in case.evidence.items()):
            continue
        return True
    return False
