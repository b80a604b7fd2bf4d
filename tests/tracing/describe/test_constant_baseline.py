"""The loss of the best constant prediction, whatever the targets are."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mothtrap.tracing.describe.constant_baseline import ConstantBaseline


def test_the_best_constant_for_squared_errors_is_the_mean() -> None:
    baseline = ConstantBaseline()
    baseline.add_numbers(np.array([[1.0], [3.0]]), is_binary=False)
    assert baseline.loss() == 1.0


@pytest.mark.parametrize("values", [[1.0, np.inf], [np.inf, -np.inf], [1e200, 1e300], [np.nan, 1]])
def test_targets_without_a_finite_mean_make_no_warning(values: list[float]) -> None:
    baseline = ConstantBaseline()
    with np.errstate(all="raise"):  # as a script may request
        baseline.add_numbers(np.array(values)[:, None], is_binary=False)
        found = baseline.loss()
    assert found is not None
    assert not math.isfinite(found)
