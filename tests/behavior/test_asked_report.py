"""A report answers further questions at any time."""

from __future__ import annotations

import pytest
from tests.behavior.asking import labels, people, sure

from mothtrap.behavior.asked_report import ProbeReport
from mothtrap.behavior.budget import Budget, BudgetSpent
from mothtrap.behavior.probing import run_probes
from mothtrap.behavior.subjects import make_subject


def test_questions_are_answered_after_the_budget_of_the_probes_is_spent() -> None:
    """A notebook asks more than two minutes after the probes began."""
    X = people(600)
    subject, everything = make_subject(sure, X, labels(X, 0.1))
    subject.budget = Budget(seconds=-1.0)
    with pytest.raises(BudgetSpent):
        subject.ask(everything)
    report = ProbeReport(subject, everything, run_probes(subject, [], everything), None)
    assert "$schema" in report.figure("pdp", "x0")
    assert report.what_if(3, x0="+10%")
