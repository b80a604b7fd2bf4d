"""Tests of means, counts and order agree with scipy; the choice among many is bounded."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from mothtrap.behavior import confirm

RNG = np.random.default_rng(3)


def test_welch_is_that_of_scipy() -> None:
    first, second = RNG.normal(0.3, 2, 40), RNG.normal(0, 1, 90)
    theirs = stats.ttest_ind(first, second, equal_var=False, alternative="greater")
    p, (low, high) = confirm.welch(first, second)
    assert p == pytest.approx(theirs.pvalue)
    both = stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.99)
    assert (low, high) == pytest.approx((both.low, both.high))


def test_mean_above_is_that_of_scipy() -> None:
    values = RNG.normal(0.2, 1, 50)
    assert confirm.mean_above(values, 0.1)[0] == pytest.approx(
        stats.ttest_1samp(values, 0.1, alternative="greater").pvalue
    )


def test_correlation_is_that_of_scipy() -> None:
    first = RNG.normal(size=60)
    second = first + RNG.normal(size=60)
    theirs = stats.pearsonr(first, second, alternative="greater")
    assert confirm.correlation(first, second) == pytest.approx((theirs.statistic, theirs.pvalue))


def test_counts_are_those_of_scipy() -> None:
    assert confirm.binomial_above(7, 100, 0.02) == pytest.approx(stats.binom.sf(6, 100, 0.02))
    assert confirm.poisson_above(7, 2.5) == pytest.approx(stats.poisson.sf(6, 2.5))


def test_ljung_box_sees_order_and_no_order() -> None:
    noise = RNG.normal(size=500)
    walk = np.convolve(noise, np.ones(5), "valid")
    assert confirm.ljung_box(noise)[1] > 0.01
    first, p = confirm.ljung_box(walk)
    assert first > 0.5
    assert p < 1e-10


def test_ljung_box_of_known_numbers() -> None:
    """The value of the formula, written out for three lags."""
    values = np.array([1.0, 3.0, 2.0, 5.0, 4.0, 6.0, 5.0, 8.0])
    centred = values - values.mean()
    auto = [centred[k:] @ centred[:-k] / (centred @ centred) for k in (1, 2, 3)]
    q = 8 * 10 * sum(r**2 / (8 - k) for k, r in zip((1, 2, 3), auto, strict=True))
    assert confirm.ljung_box(values, 3) == pytest.approx((auto[0], stats.chi2.sf(q, 3)))


def test_benjamini_hochberg_is_that_of_scipy() -> None:
    p = np.sort(np.concatenate([RNG.random(40), RNG.random(5) * 1e-3]))
    theirs = stats.false_discovery_control(p) <= 0.01
    assert confirm.benjamini_hochberg(p.tolist()) == theirs.tolist()
    assert confirm.benjamini_hochberg([]) == []


def test_halves_are_disjoint_and_keep_the_shares_of_classes() -> None:
    strata = np.repeat([0, 1], [900, 100])
    first, second = confirm.split_halves(1000, np.random.default_rng(0), strata)
    assert (first != second).all()
    assert strata[first].sum() == pytest.approx(50, abs=1)


def test_rare_errors_of_even_noise_are_confirmed_no_more_often_than_the_level() -> None:
    """Welch's test alone calls more than twice as many segments wrong at this level."""
    rng = np.random.default_rng(0)
    found = {"welch": 0, "both": 0}
    for _ in range(6_000):
        inside_R, outside_R = (rng.random(400) < 0.1) * 1.0, (rng.random(120) < 0.1) * 1.0
        p = confirm.welch(inside_R, outside_R)[0]
        found["welch"] += p < 0.005
        found["both"] += max(p, confirm.pooled(inside_R, outside_R)) < 0.005
    assert found["welch"] > 45
    assert found["both"] <= 35
