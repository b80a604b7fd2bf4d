from __future__ import annotations

import pytest
from tests.rules.looks import initial, scale, scales
from tests.rules.windows import loss, window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.findings import Severity
from mothtrap.rules.poor_initialization import PoorInitialization

NAMES = ("0", "2", "4")
WEIGHTS = tuple(initial(name, fan_in=64) for name in NAMES)


def check(layers, *more, rule: PoorInitialization | None = None, normalizes: bool = False):
    look = scales(0, [*layers, scale("4", 0.3, last=True)], normalizes=normalizes)
    return (rule or PoorInitialization()).check(window(*WEIGHTS, look, *more, steps=30))


def test_fires_on_weights_that_multiply_the_scale_of_a_hidden_layer() -> None:
    [finding] = check([scale("0", 8.0, gain=8.0), scale("2", 40.0, gain=8.0, input_rms=5.0)])
    assert (finding.severity, finding.step) == (Severity.WARNING, 0)
    assert (finding.layers, finding.location) == (("0", "2"), "model.py:0")
    assert "root mean square of 1; 0.177 keeps the scale" in finding.message


def test_fires_on_weights_so_small_that_the_signal_fades() -> None:
    [finding] = check([scale("0", 0.08, gain=0.08), scale("2", 0.005, gain=0.08)])
    assert finding.layers == ("0", "2")
    assert "2 hidden layers are so small" in finding.message


def test_biases_do_not_hide_weights_that_are_too_small() -> None:
    [finding] = check([scale("0", 0.09, gain=0.02), scale("2", 0.07, gain=0.02)])
    assert "2 hidden layers are so small" in finding.message
    assert "consists of biases, and is 0.07x the size of the input of 0" in finding.message
    residual = [scale("0", 1.0, gain=0.02), scale("2", 1.0, gain=0.02)]
    assert check(residual) == []
    assert check([scale("0", 0.09, gain=0.02), scale("2", 0.07, gain=0.5)]) == []


def test_stays_quiet_on_the_usual_initializations() -> None:
    for gain in (3**-0.5, 1.0, 2**0.5):
        assert check([scale("0", gain, gain=gain), scale("2", gain**2, gain=gain)]) == []


def test_stays_quiet_on_small_weights_where_something_normalizes() -> None:
    small = [scale("0", 0.08, gain=0.08), scale("2", 0.005, gain=0.08)]
    assert check(small, normalizes=True) == []


def test_stays_quiet_on_large_weights_of_other_kinds() -> None:
    large = {"gain": 8.0}
    assert check([scale("0", 8.0, normalized=True, **large)]) == []
    assert check([scale("0", 8.0, fan_in=2, **large)]) == []
    assert check([scale("head", 8.0, last=True, **large)]) == []
    assert check([scale("frozen", 8.0, **large)]) == []
    assert check([scale("0", 2.0, **large)]) == []  # what it is given has no scale to multiply


def test_fires_on_weights_that_are_all_one_number() -> None:
    constant = initial("c", rms=0.1, std=0.0)
    [finding] = check([scale("c", 1.0)], constant)
    assert "all weights of c (Linear) are 0.1" in finding.message
    assert check([scale("c", 0.0)], initial("c", rms=0.0, std=0.0)) == []


def test_cannot_judge_without_weights() -> None:
    with pytest.raises(NotEnoughData):
        PoorInitialization().check(window(steps=0))
    with pytest.raises(NotApplicable):
        PoorInitialization().check(window(steps=9))


# What SageMaker Debugger's PoorWeightInitialization can be told, row by row.

UNEVEN = [scale("0", 1.0), scale("2", 0.2)]  # variances 25x apart


def test_threshold_is_the_ratio_of_variances_across_layers() -> None:
    assert check(UNEVEN) == []
    [finding] = check(UNEVEN, rule=PoorInitialization(variance_ratio=10.0))
    assert finding.evidence["value"] == pytest.approx(25.0)
    assert check(UNEVEN, rule=PoorInitialization(variance_ratio=30.0)) == []


def test_activation_inputs_regex_chooses_layers() -> None:
    rule = PoorInitialization(variance_ratio=10.0, layer_regex="^[0-1]$")
    assert check(UNEVEN, rule=rule) == []


def test_steps_bounds_what_is_looked_at() -> None:
    late = scales(12, UNEVEN)
    even = [scale("0", 0.4), scale("2", 0.3)]
    assert check(even, late, rule=PoorInitialization(variance_ratio=10.0)) == []
    assert check(even, late, rule=PoorInitialization(variance_ratio=10.0, steps=20)) != []


def test_distribution_range_is_the_width_of_the_gradients() -> None:
    narrow = initial("2", fan_in=64, gradient_range=1e-5)
    assert check([scale("0", 0.5)], narrow) == []
    [finding] = check([scale("0", 0.5)], narrow, rule=PoorInitialization(distribution_range=1e-3))
    assert finding.layers == ("2",)


def test_patience_is_how_long_the_loss_need_not_fall() -> None:
    flat = loss([1.0, 1.1, 1.2, 1.2, 1.3, 1.4, 1.5, 0.5, 0.4, 0.3])
    assert check([scale("0", 0.5)], flat) == []
    [finding] = check([scale("0", 0.5)], flat, rule=PoorInitialization(patience=5))
    assert "has not fallen in 6" in finding.message
    assert check([scale("0", 0.5)], flat, rule=PoorInitialization(patience=7)) == []
    falling = loss([1.0, 1.1, 0.9, 1.0, 0.8, 0.9, 0.7, 0.5, 0.4, 0.3])
    assert check([scale("0", 0.5)], falling, rule=PoorInitialization(patience=5)) == []
