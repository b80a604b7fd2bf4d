from __future__ import annotations

import numpy as np
import pytest
from tests.rules.looks import scale, scales
from tests.rules.windows import loss, window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.findings import Severity
from mothtrap.rules.activation_growth import ActivationGrowth


def check(*sizes: list[float], last: bool = True, **more):
    looks = []
    for step, row in enumerate(sizes):
        layers = [scale(str(2 * place), size, **more) for place, size in enumerate(row)]
        layers += [scale("head", 1.0, last=True)] if last else []
        looks.append(scales(step, layers))
    return ActivationGrowth().check(window(*looks))


def test_fires_on_sizes_that_grow_by_a_factor_from_layer_to_layer() -> None:
    [finding] = check([3.0**depth for depth in range(8)])
    assert (finding.severity, finding.step, finding.layers) == (Severity.WARNING, 0, ("14",))
    assert "grow by a factor of 3 per layer" in finding.message


def test_fires_on_sizes_that_fade() -> None:
    [finding] = check([0.3**depth for depth in range(8)])
    assert "shrink by a factor of 0.3 per layer" in finding.message


def test_stays_quiet_on_layers_that_keep_the_scale_or_reach_their_biases() -> None:
    assert check([0.5, 0.4, 0.6, 0.5, 0.4, 0.5]) == []
    assert check([0.6, 0.25, 0.12, 0.09, 0.08, 0.08, 0.08, 0.08]) == []


def test_stays_quiet_on_few_layers_and_on_sizes_without_a_line() -> None:
    assert check([1.0, 1e4]) == []
    assert check([1.0, 1e4, 1.0, 1e4, 1.0, 1e4]) == []
    assert check([0.0, 1.0, 10.0, 100.0, 1e3, 1e4]) == []


def test_fires_on_a_layer_that_grows_on_and_on() -> None:
    sizes = [*[1.0] * 6, *np.geomspace(2.0, 5e3, 10)]
    [finding] = check(*[[0.5, size] for size in sizes])
    assert finding.layers == ("2",)
    assert finding.message.startswith("the output of 2 (Linear)")
    assert 6 < finding.step < 14


def test_stays_quiet_on_growth_that_ended_or_stays_small_or_is_normalized() -> None:
    grown = [*[1.0] * 6, *np.geomspace(2.0, 5e3, 10)]
    assert check(*[[0.5, size] for size in [*grown, 4e3]]) == []
    assert check(*[[0.5, size / 1e3] for size in grown]) == []
    assert check(*[[0.5, size] for size in grown], normalized=True) == []


def test_cannot_judge_what_was_not_looked_at() -> None:
    with pytest.raises(NotEnoughData):
        ActivationGrowth().check(window(steps=0))
    with pytest.raises(NotApplicable):
        ActivationGrowth().check(window(steps=9))


def test_a_last_layer_may_grow_to_reach_its_targets() -> None:
    looks = [
        scales(step, [scale("price", size, last=True)])
        for step, size in enumerate([*[1.0] * 6, *np.geomspace(2.0, 5e3, 10)])
    ]
    learned, stays = loss(np.geomspace(9e4, 1e3, 40)), loss(np.full(40, 9e4))
    assert ActivationGrowth().check(window(*looks, learned)) == []
    assert ActivationGrowth().check(window(*looks, stays))
