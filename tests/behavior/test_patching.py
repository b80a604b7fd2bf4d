"""Patches count only if they help where they act, and harm nowhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.behavior.asking import labels, people, subject_of, sure

from mothtrap.behavior.asked_report import ProbeReport
from mothtrap.behavior.patching import patched
from mothtrap.behavior.probes.weak_segment import WeakSegment
from mothtrap.behavior.probing import run_probes
from mothtrap.behavior.segments import Literal, Segment
from mothtrap.core.errors import ConfigError

X = people(3000)
Y = labels(X, 0.1)
WEAK = Segment((Literal("kind", level="c"),))


def turned(rows: Any) -> np.ndarray:
    """A model that is wrong where kind is c."""
    right = sure(rows)
    return np.where((rows.kind == "c").to_numpy()[:, None], right[:, ::-1], right)


def right(rows: Any, _: Any) -> np.ndarray:
    return sure(rows)


def test_a_patch_of_the_weak_segment_is_accepted_and_answers() -> None:
    found = patched(subject_of(turned, X, Y), right, WEAK)
    assert found.accepted, found.reason
    assert found.after < found.before
    assert 300 < found.changed < 450  # a fourth of one half
    assert np.array_equal(found.predict(X), sure(X))
    some = X[X.kind != "c"]
    assert np.array_equal(found.predict(some), turned(some))


def test_a_patch_that_harms_elsewhere_is_refused() -> None:
    def everything(rows: Any, predictions: Any) -> np.ndarray:
        """Turn all answers where age is below 45 and kind is a, and mend kind c."""
        harmed = ((rows.kind == "a") & (rows.age < 45)).to_numpy()[:, None]
        mended = (rows.kind == "c").to_numpy()[:, None]
        return np.where(harmed | mended, predictions[:, ::-1], predictions)

    found = patched(subject_of(turned, X, Y), everything)
    assert found.after < found.before  # on the whole it helps
    assert not found.accepted
    assert "raises the mean loss" in found.reason
    assert "kind = a" in found.reason
    assert np.array_equal(found.predict(X), turned(X))


def test_a_patch_that_does_not_help_is_refused() -> None:
    found = patched(subject_of(sure, X, Y), lambda rows, answers: answers[:, ::-1], WEAK)
    assert not found.accepted
    assert "does not lower the loss" in found.reason
    small = Segment((Literal("age", low=79, high=79), Literal("kind", level="c")))
    found = patched(subject_of(turned, X, Y), right, small)
    assert "30 are needed" in found.reason


def test_the_report_patches_the_segment_of_a_finding() -> None:
    subject = subject_of(turned, X, Y)
    outcome = run_probes(subject, [WeakSegment()], subject.table)
    report = ProbeReport(subject, subject.table, outcome, None)
    (finding,) = report.findings
    assert report.patch(right, finding).accepted
    plain = run_probes(subject, [], subject.table)
    with pytest.raises(ConfigError, match="no segment"):
        ProbeReport(subject, subject.table, plain, None).patch(right, finding)
