from __future__ import annotations

import pytest
from tests.rules.looks import identical, initial
from tests.rules.windows import window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.findings import Severity
from mothtrap.rules.symmetric_initialization import symmetric_initialization

LAYERS = (initial("0", rms=0.0), initial("2"))


def check(*seen, steps: int = 30):
    return symmetric_initialization().check(window(*LAYERS, *seen, steps=steps))


def looks(layer: str, count: int, **more) -> list:
    return [identical(step, layer, step + 1, **more) for step in range(count)]


def test_fires_on_units_that_stay_the_same_while_steps_are_made() -> None:
    [finding] = check(*looks("0", 8))
    assert (finding.severity, finding.step, finding.last_step) == (Severity.ERROR, 0, 7)
    assert (finding.layers, finding.location) == (("0",), "model.py:0")
    assert "weights of 0 and get no gradient" in finding.message


def test_a_constant_that_is_not_0_is_as_bad() -> None:
    [finding] = check(*looks("0", 8, zero=False, gradient_zero=False))
    assert "the same weights and get the same gradient" in finding.message


def test_layers_are_told_in_one_finding_in_order() -> None:
    [finding] = check(*looks("0", 6), *looks("2", 6))
    assert finding.layers == ("0", "2")
    assert "1 more layer" in finding.message


def test_stays_quiet_on_a_last_layer_of_0_that_parts_at_the_first_step() -> None:
    assert check(identical(0, "2", 1)) == []


def test_stays_quiet_on_a_chain_of_zero_layers_that_parts_at_the_third() -> None:
    assert check(*looks("0", 3)) == []


def test_stays_quiet_while_nothing_is_changed_by_steps() -> None:
    assert check(*looks("0", 10, moved=False)) == []


def test_stays_quiet_where_no_units_were_the_same() -> None:
    assert check() == []


def test_cannot_judge_before_weights_were_seen() -> None:
    with pytest.raises(NotEnoughData, match="no weights"):
        symmetric_initialization().check(window(steps=10))
    with pytest.raises(NotEnoughData, match="fewer than 5 steps"):
        check(*looks("0", 2), steps=2)
