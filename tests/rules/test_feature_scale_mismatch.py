from __future__ import annotations

import msgspec
import numpy as np
import pytest
from tests.rules.looks import batches, data
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.layers import DISTANCES, VARIANCES
from mothtrap.core.findings import Severity
from mothtrap.rules.feature_scale_mismatch import feature_scale_mismatch

RNG = np.random.default_rng(0)
STANDARD = RNG.normal(size=(512, 6))
TABLE = STANDARD * [1.0, 0.002, 1.0, 0.5, 2.0, 1.0]


def check(rows: np.ndarray, **about):
    return feature_scale_mismatch().check(window(*batches(rows, **about)))


def test_fires_on_a_feature_far_smaller_than_the_others() -> None:
    [finding] = check(TABLE)
    assert (finding.severity, finding.step) == (Severity.WARNING, 0)
    assert (finding.evidence["largest_feature"], finding.evidence["smallest_feature"]) == (4, 1)
    assert finding.evidence["value"] == pytest.approx(1000, rel=0.15)
    assert (finding.layers, finding.location) == (("0",), "model.py:1")


def test_stays_quiet_on_features_that_the_model_computes() -> None:
    with pytest.raises(NotApplicable):
        feature_scale_mismatch().check(
            window(*(msgspec.structs.replace(look, computed=True) for look in batches(TABLE)))
        )


def test_stays_quiet_on_features_of_like_scale() -> None:
    assert check(STANDARD * [1.0, 0.05, 1.0, 0.5, 2.0, 1.0]) == []


def test_stays_quiet_on_constant_and_on_sparse_features() -> None:
    rows = STANDARD.copy()
    rows[:, 0] = 1.0
    rows[:, 1] = np.where(RNG.random(512) < 0.01, 1e-3, 0.0)
    assert check(rows) == []


def test_stays_quiet_on_channels() -> None:
    with pytest.raises(NotApplicable, match="table"):
        check(TABLE, grid=True)


def test_a_normalization_that_follows_does_not_undo_one_huge_feature() -> None:
    [finding] = check(STANDARD * [1.0, 1.0, 1e5, 1.0, 1.0, 1.0], normalized=True)
    assert (finding.severity, finding.evidence["limit"]) == (Severity.WARNING, 1e4)
    assert finding.evidence["largest_feature"] == 2
    assert finding.evidence["value"] == pytest.approx(1e5, rel=0.15)


@pytest.mark.parametrize("scales", [[1, 1, 3e3, 1, 1, 1], [1, 1e-5, 1, 1, 1, 1], [1, 0.002, 1] * 2])
def test_less_than_that_is_learned_where_a_normalization_follows(scales: list[float]) -> None:
    assert check(STANDARD * scales, normalized=True) == []


def test_batches_are_judged_together() -> None:
    shifts = np.repeat([[0.0], [1.0]], 64, axis=0)
    rows = 1e-4 * STANDARD[:128] + shifts  # each batch alone hardly varies
    rows[:, 0] = STANDARD[:128, 0]
    assert check(rows) == []


def test_cannot_judge_from_a_few_rows() -> None:
    with pytest.raises(NotEnoughData, match="rows"):
        feature_scale_mismatch().check(window(data(0, TABLE[:8])))
    with pytest.raises(NotApplicable):
        feature_scale_mismatch().check(window(steps=5))


@pytest.mark.parametrize("scale", [1e160, float("inf"), float("nan")])
def test_a_batch_whose_numbers_overflow_says_nothing_about_scales(scale: float) -> None:
    rows = STANDARD.copy()
    rows[384:] = -rows[256:384]  # a mean near 0: its square is finite, the variance is not
    rows[256:] *= scale
    with np.errstate(over="ignore", invalid="ignore"):
        assert check(rows) == []


@pytest.mark.parametrize(("ties", "found"), [(0.25, 0), (0.05, 1)])
def test_stays_quiet_on_the_first_rows_of_a_replay_buffer(ties: float, found: int) -> None:
    repeated = (msgspec.structs.replace(one, feature_ties=(ties,) * 6) for one in batches(TABLE))
    assert len(feature_scale_mismatch().check(window(*repeated))) == found


@pytest.mark.parametrize(("scale", "found"), [(300.0, 1), (3.0, 0)])
def test_a_feature_with_nearly_all_of_the_variance_misleads_pca(scale: float, found: int) -> None:
    rows = STANDARD * [1.0, 0.02, 1.0, 0.5, scale, 1.0]
    assert len(check(rows, layer_type=VARIANCES)) == found


def test_features_in_the_order_of_their_scale_are_components() -> None:
    rows = STANDARD * [8.0, 2.0, 1.0, 0.5, 0.1, 0.02]
    assert check(rows, layer_type=DISTANCES) == []
    assert len(check(rows[:, ::-1], layer_type=DISTANCES)) == 1
    assert len(check(rows)) == 1
