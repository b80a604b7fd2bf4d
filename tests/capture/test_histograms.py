"""Histograms of weights and gradients at a few steps, captured by default."""

from __future__ import annotations

import pytest

from mothtrap.capture.depths import Depths
from mothtrap.capture.histograms import (
    MOST_ELEMENTS,
    MOST_TENSORS,
    STEPS,
    histograms,
    streams_of_run,
)
from mothtrap.capture.selection import LOGGED
from mothtrap.core.config import Collection, Config
from mothtrap.core.steps import Mode
from mothtrap.core.tensors import TensorInfo


def info(number: int, shape: tuple[int, ...], kind: str = "gradient") -> TensorInfo:
    return TensorInfo(kind=kind, name=f"blocks.{number}.weight", shape=shape)


def test_weights_and_gradients_have_them_and_no_more() -> None:
    found = histograms(Config())
    assert {kind for stream in found for kind in stream.kinds} == {"weight", "gradient"}
    assert all("exponents" in stream.statistics for stream in found)


@pytest.mark.parametrize(
    "config",
    [
        Config(capture="off"),
        Config(select=("NUM001",)),
        Config(collections={"mine": Collection(tensors=("gradients:*",))}),
    ],
)
def test_none_where_a_user_chose_what_is_captured(config: Config) -> None:
    assert histograms(config) == ()


def test_nothing_is_captured_where_capture_is_off() -> None:
    assert streams_of_run(Config(capture="off"), [], []) == ()
    assert streams_of_run(Config(select=("NUM001",)), [], []) == (LOGGED,)


def test_the_number_of_tensors_and_of_their_elements_is_bounded() -> None:
    (weights, gradients) = histograms(Config())
    assert sum(gradients.matches(info(n, (4, 4))) for n in range(500)) == MOST_TENSORS
    assert not weights.matches(info(0, (MOST_ELEMENTS, 2)))
    assert not weights.matches(info(1, (64,)))  # a bias
    assert weights.matches(info(2, (4, 4)))


def test_the_answer_for_a_tensor_stays() -> None:
    (weights, _) = histograms(Config())
    first = [weights.matches(info(n, (8, 8))) for n in range(100)]
    assert [weights.matches(info(n, (8, 8))) for n in range(100)] == first


def test_each_step_is_a_full_one_whatever_the_distance_of_full_steps() -> None:
    depths = Depths(0.02)
    for _ in range(40):
        depths.watched(0.01, 0.005, 0.0, light=False)
        depths.watched(0.01, 0.0001, 0.0, light=True)
    assert all(depths.is_full(step) for step in STEPS)


def test_a_long_run_has_few() -> None:
    [schedule] = {stream.schedules[Mode.TRAIN] for stream in histograms(Config())}
    assert sum(schedule.is_due(step) for step in STEPS if step <= 20_000) == 12
