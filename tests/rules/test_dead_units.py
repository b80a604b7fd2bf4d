from __future__ import annotations

import math

import numpy as np
import pytest
from tests.rules.windows import gradients, inactive, loss, window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.findings import Severity
from mothtrap.rules.dead_units import DeadUnits

SAMPLED = [0, 1, 2, 3, 4, 5, 6, 7, 16, 32, 48, 64, 80, 96, 112, 128, 144]
EARLY, LATE = 8, len(SAMPLED) - 9


def check(shares: dict[str, list[float]], **more):
    return DeadUnits().check(window(inactive(shares, steps=SAMPLED, **more)))


def test_fires_on_a_layer_that_is_dead_from_the_start() -> None:
    [finding] = check({"fc1": [0.1] * len(SAMPLED), "fc2": [1.0] * len(SAMPLED)})
    assert (finding.severity, finding.step) == (Severity.ERROR, 0)
    assert (finding.layers, finding.location) == (("fc2",), "model.py:2")
    assert finding.count == len(SAMPLED) - 1  # the first batch alone has too few examples


def test_onset_lies_where_the_silence_began_that_the_statistic_looks_back_over() -> None:
    [finding] = check({"fc": [0.1] * 15 + [1.0, 1.0]})
    assert SAMPLED[15] == 128
    assert finding.step == SAMPLED[15 - 7]


def test_warns_on_most_of_the_units_and_orders_layers_by_badness() -> None:
    [finding] = check({"a": [0.75] * len(SAMPLED), "b": [0.8] * len(SAMPLED)})
    assert finding.severity is Severity.WARNING
    assert finding.layers == ("b", "a")


def test_stays_quiet_on_a_layer_that_recovers() -> None:
    assert check({"fc": [0.1] * EARLY + [1.0] + [0.2] * LATE}) == []


def test_stays_quiet_where_half_of_the_units_live() -> None:
    assert check({"fc": [0.6] * len(SAMPLED)}) == []


def test_stays_quiet_until_it_persists() -> None:
    assert check({"fc": [0.1] * (len(SAMPLED) - 1) + [1.0]}) == []


def test_a_bottleneck_of_few_units_is_no_error() -> None:
    [finding] = check({"squeeze": [1.0] * len(SAMPLED)}, shape=(32, 4))
    assert finding.severity is Severity.WARNING
    assert check({"squeeze": [0.75] * len(SAMPLED)}, shape=(32, 4)) == []


def test_pixels_count_as_examples_of_a_channel() -> None:
    [finding] = check({"conv": [1.0] * len(SAMPLED)}, shape=(2, 16, 8, 8))
    assert (finding.severity, finding.evidence["units"]) == (Severity.ERROR, 16)


def test_cannot_judge_from_single_examples() -> None:
    with pytest.raises(NotEnoughData, match="examples"):
        check({"policy": [0.6] * len(SAMPLED)}, shape=(1, 64))


def test_rows_without_a_value_are_left_out() -> None:
    shares = [math.nan, 1.0] * 8 + [1.0]
    [finding] = check({"expert": shares})
    assert finding.step == 1


def test_does_not_apply_without_rectifiers() -> None:
    with pytest.raises(NotApplicable, match="ReLU module"):
        DeadUnits().check(window(steps=30))
    with pytest.raises(NotEnoughData):
        DeadUnits().check(window(steps=2))


def test_what_follows_a_loss_that_is_no_number_is_not_judged() -> None:
    shares = [0.1] * 12 + [1.0] * (len(SAMPLED) - 12)
    losses = np.where(np.arange(145) < SAMPLED[12], 1.0, np.nan)
    dead = inactive({"fc": shares}, steps=SAMPLED)
    assert DeadUnits().check(window(dead, loss(losses))) == []
    nan = gradients("nan", {"fc.weight": [0.0] * SAMPLED[12] + [9.0] * 30})
    assert DeadUnits().check(window(dead, nan, loss(np.ones(145)))) == []
    assert DeadUnits().check(window(dead, loss(np.ones(145))))


def test_a_step_that_was_left_out_hides_nothing() -> None:
    losses = np.where(np.arange(145) == 1, np.nan, 1.0)
    dead = inactive({"fc": [0.1] * 4 + [1.0] * (len(SAMPLED) - 4)}, steps=SAMPLED)
    assert DeadUnits().check(window(dead, loss(losses)))
