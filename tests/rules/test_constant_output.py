from __future__ import annotations

import numpy as np
import pytest
from tests.rules.looks import spread
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.findings import Severity
from mothtrap.rules.constant_output import ConstantOutput

COLLAPSING = [0.4, 0.3, 0.1, 0.03, 0.01, 0.005, 0.003, 0.002]


def check(spreads, **more):
    return ConstantOutput().check(
        window(*[spread(step, between, **more) for step, between in enumerate(spreads)])
    )


def test_fires_on_the_same_output_for_every_row() -> None:
    [finding] = check([0.0] * 10)
    assert (finding.severity, finding.step, finding.count) == (Severity.ERROR, 0, 10)
    assert (finding.layers, finding.location) == (("Model",), "train.py:9")
    assert "all 32 rows" in finding.message


def test_the_onset_is_where_outputs_became_the_same() -> None:
    [finding] = check([0.2] * 5 + [0.0] * 9)
    assert finding.step == 5


def test_warns_of_representations_that_end_in_one_point() -> None:
    [finding] = check(COLLAPSING)
    assert (finding.severity, finding.step) == (Severity.WARNING, 4)
    assert "collapse" in finding.message
    assert finding.fixes[0].startswith("If the loss only pulls outputs together, stop the gradient")
    assert not any("axis" in fix for fix in finding.fixes), "a wrong axis collapses immediately"


def test_stays_quiet_on_a_last_layer_of_0_that_parts() -> None:
    assert check([0.0, 0.0, 0.001, 0.01, *[0.1] * 8]) == []


def test_stays_quiet_on_few_outputs_that_are_near_one_another() -> None:
    assert check(COLLAPSING, shape=(32, 1)) == []


def test_stays_quiet_on_a_large_offset_that_comes_with_the_spread_it_had() -> None:
    assert check([0.4] * 10, rms=1000.0) == []


def test_stays_quiet_where_one_output_of_several_is_constant_on_purpose() -> None:
    mean = [spread(step, 0.3, place="0") for step in range(12)]
    deviation = [spread(step, 0.0, place="1") for step in range(12)]
    assert ConstantOutput().check(window(*mean, *deviation)) == []


def test_inputs_that_are_the_same_prove_nothing() -> None:
    with pytest.raises(NotApplicable):
        check([0.0] * 12, inputs_differ=False)
    with pytest.raises(NotApplicable):
        check([0.0] * 12, inputs_differ=None)


def test_cannot_judge_from_two_looks() -> None:
    with pytest.raises(NotEnoughData, match="only 2 forward calls"):
        check([0.0, 0.0])
    assert check(np.full(7, 0.0)) == []
