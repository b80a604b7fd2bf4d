from __future__ import annotations

import numpy as np
import pytest
from tests.rules.looks import batches, data
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.findings import Severity
from mothtrap.rules.unnormalized_input import UnnormalizedInput

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (512, 64)).astype(float)
STANDARD = RNG.normal(size=(512, 12))


def check(rows: np.ndarray, rule: UnnormalizedInput | None = None, **about):
    return (rule or UnnormalizedInput()).check(window(*batches(rows, **about)))


def test_fires_on_bytes_of_pictures_from_the_first_batch() -> None:
    [finding] = check(PIXELS)
    assert (finding.severity, finding.step, finding.count) == (Severity.WARNING, 0, 8)
    assert (finding.layers, finding.location) == (("0",), "model.py:1")
    assert "from 0 to 255" in finding.message


@pytest.mark.parametrize("scale", [1 / 255, 1 / 16])
def test_stays_quiet_on_pixels_that_were_scaled(scale: float) -> None:
    assert check(PIXELS * scale) == []


def test_stays_quiet_on_standardised_features_and_on_small_integers() -> None:
    assert check(STANDARD) == []
    assert check(RNG.integers(0, 17, (512, 64)).astype(float)) == []


def test_fires_on_one_feature_that_drowns_the_others() -> None:
    rows = STANDARD.copy()
    rows[:, 3] = RNG.normal(5.0, 80.0, 512)
    rule = UnnormalizedInput(large_rms=1000.0)
    [finding] = check(rows, rule)
    assert "feature 3" in finding.message


def test_fires_on_data_far_too_small() -> None:
    [finding] = check(PIXELS / 255 / 255)
    assert finding.evidence["value"] < 0.005


def test_stays_quiet_where_a_normalization_follows() -> None:
    assert check(PIXELS, normalized=True) == []


def test_stays_quiet_where_small_weights_make_up_for_the_scale() -> None:
    assert check(PIXELS, gain=0.01) == []
    assert check(PIXELS / 255 / 255, gain=200.0) == []


def test_stays_quiet_on_sparse_data() -> None:
    words = np.zeros((512, 2000))
    words[np.arange(512), RNG.integers(0, 2000, 512)] = 1.0
    assert check(words) == []


def test_stays_quiet_on_a_single_batch_that_is_off() -> None:
    looks = batches(STANDARD)
    looks[2] = data(2, STANDARD[:64] * 100)
    assert UnnormalizedInput().check(window(*looks)) == []


def test_only_the_layer_that_is_given_such_data_is_named() -> None:
    looks = batches(STANDARD, layer="a") + batches(PIXELS, layer="b")
    [finding] = UnnormalizedInput().check(window(*looks))
    assert finding.layers == ("b",)


def test_does_not_apply_to_models_that_take_no_float_data() -> None:
    with pytest.raises(NotApplicable, match="float"):
        UnnormalizedInput().check(window(steps=10))
    with pytest.raises(NotEnoughData, match="fewer than 2"):
        UnnormalizedInput().check(window(data(0, PIXELS[:8])))


# What SageMaker Debugger's CheckInputImages can be told: threshold_mean, threshold_samples,
# channel.

IMAGES = UnnormalizedInput(threshold_mean=0.2, threshold_samples=500)
SHIFTED = RNG.normal(0.3, 0.5, (1024, 3))


def test_a_mean_above_the_threshold_is_told_once_enough_rows_were_seen() -> None:
    [finding] = check(SHIFTED, IMAGES)
    assert "their mean is 0.3" in finding.message
    assert check(SHIFTED[:256], IMAGES) == []
    assert check(SHIFTED - 0.25, IMAGES) == []
    assert check(SHIFTED) == []


def test_a_mean_may_be_judged_by_channel() -> None:
    rows = SHIFTED - [0.3, 0.3, 0.0]
    assert check(rows, UnnormalizedInput(threshold_mean=0.2, channel=1), grid=True) == []
    [finding] = check(rows, UnnormalizedInput(threshold_mean=0.2, channel=3), grid=True)
    assert "0.3" in finding.message


def test_regex_chooses_layers() -> None:
    looks = batches(STANDARD, layer="a") + batches(PIXELS, layer="stem.0")
    assert UnnormalizedInput(layer_regex="^a$").check(window(*looks)) == []
    assert UnnormalizedInput(layer_regex="stem").check(window(*looks)) != []


def test_a_placeholder_that_explains_the_scale_is_named() -> None:
    rows = np.where(RNG.random(STANDARD.shape) < 0.05, -999.0, STANDARD)
    [finding] = check(rows)
    assert "of the values are -999" in finding.message
    assert finding.fixes[0].startswith("Replace -999, which stands for missing values")
    seldom = STANDARD.copy()
    seldom[[100, 400], 3] = 9999.0  # in two of eight batches
    [finding] = check(seldom)
    assert finding.count == 2
    seldom[[100, 400], 3] = 1234.0
    assert check(seldom) == []
    [finding] = check(np.where(RNG.random(STANDARD.shape) < 0.5, -999.0, 400 * STANDARD))
    assert finding.fixes[0].startswith("Scale each feature")
