from __future__ import annotations

import numpy as np
import pytest
from tests.rules.windows import gradients, loss, series, window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.findings import Severity
from mothtrap.core.invariants import Constant, Invariant, Present, Range
from mothtrap.core.needs import Need
from mothtrap.rules.broken_invariant import BrokenInvariant

FLAT = np.ones(20)
LATER = np.arange(20) >= 7
RATE = Constant(of="lr:Adam")
LOSSES = Range(of="loss", at_most=5.0)
NORMS = Range(of="l2 of gradient", at_most=2.0)


def rule(*invariants: Invariant) -> BrokenInvariant:
    return BrokenInvariant(invariants=invariants)


def test_names_the_invariant_the_step_and_the_tensor() -> None:
    seen = window(
        series("lr", FLAT), gradients("l2", {"a.weight": FLAT, "b.weight": FLAT + 5 * LATER})
    )
    [finding] = rule(RATE, NORMS).check(seen)
    assert (finding.severity, finding.step, finding.last_step) == (Severity.WARNING, 7, 19)
    assert (finding.layers, finding.location, finding.count) == (("b.weight",), "model.py:2", 13)
    assert finding.message == (
        "in healthy runs the norm of every gradient is at most 2; in this run it is 6, "
        "first in b.weight"
    )


def test_tells_the_one_that_was_broken_first_and_counts_the_others() -> None:
    norms = gradients("l2", {"a.weight": np.where(np.arange(20) < 9, 1.0, 3.0)})
    seen = window(series("lr", FLAT - LATER / 2), norms, loss(FLAT))
    [finding] = rule(NORMS, LOSSES, RATE).check(seen)
    assert (finding.step, finding.layers) == (7, ())
    assert finding.message == (
        "in healthy runs the learning rate of Adam never changes; in this run it is 0.5; "
        "1 more invariant is violated"
    )
    assert finding.evidence["broken"] == [NORMS.sentence, RATE.sentence]


def test_tells_what_is_absent() -> None:
    norms = gradients("l2", {"a": FLAT, "b": FLAT}, absent=[(4, "a")])
    [finding] = rule(Present(of="l2 of gradient", tensors=("a", "b"))).check(window(norms))
    assert (finding.step, finding.layers, finding.evidence["value"]) == (4, ("a",), None)
    assert finding.message.endswith("has a value at each step, but not in this run, first in a")


def test_stays_quiet_where_all_holds_and_about_what_is_not_there() -> None:
    absent = Range(of="l2 of weight", at_most=0.0)
    assert rule(RATE, LOSSES, absent).check(window(series("lr", FLAT), loss(FLAT))) == []


def test_says_why_it_cannot_judge() -> None:
    with pytest.raises(NotApplicable, match="no invariants file"):
        BrokenInvariant().check(window(loss(FLAT)))
    with pytest.raises(NotEnoughData, match="none of the data"):
        rule(NORMS).check(window(loss(FLAT)))


def test_needs_what_the_invariants_are_about() -> None:
    assert BrokenInvariant().needs == ()
    rates, gradient, weight = rule(RATE, NORMS, Range(of="nan of weight", at_most=0.0)).needs
    assert rates == Need(scalars=("lr",), optional=True)
    assert gradient == Need(kinds=("gradient",), statistics=("l2",), optional=True)
    assert (weight.kinds, weight.statistics) == (("weight",), ("nan",))
    assert weight.schedule is not None
    assert not weight.schedule.is_due(100)
