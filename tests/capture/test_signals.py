"""Losses and norms that leave the range of the latest ones."""

from __future__ import annotations

import math
import random

from mothtrap.capture.signals import FEWEST, Signals


def left(values: list[float]) -> list[int]:
    signals = Signals()
    return [place for place, value in enumerate(values) if signals.leaves("loss", value)]


def test_noise_stays_within_its_range() -> None:
    random.seed(0)
    assert left([random.gauss(0.0, 1.0) for _ in range(20_000)]) == []
    assert left([math.exp(random.gauss(0.0, 0.25)) for _ in range(5_000)]) == []


def test_a_loss_that_falls_smoothly_stays_within_it() -> None:
    assert left([2.0 * 0.999**step + 0.1 for step in range(5_000)]) == []


def test_a_jump_is_told_once_it_is_known_what_is_usual() -> None:
    usual = [1.0, 1.2, 0.9, 1.1] * 5
    assert left([*usual, 9.0]) == [20]
    assert left([*usual, -4.0]) == [20]
    assert left([*usual[: FEWEST - 1], 9.0]) == []


def test_values_that_are_not_finite_are_told_at_their_onset() -> None:
    nan = math.nan
    assert left([1.0, nan, nan, math.inf, 1.0, nan]) == [1, 5]


def test_signals_have_ranges_of_their_own() -> None:
    signals = Signals()
    for _ in range(FEWEST):
        assert not signals.leaves("generator", 1.0)
        assert not signals.leaves("discriminator", 100.0)
    assert signals.leaves("generator", 100.0)
