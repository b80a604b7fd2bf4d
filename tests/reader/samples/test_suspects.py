from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest

from mothtrap.core.facts.samples import SampleBatch
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.steps import Mode
from mothtrap.core.window import Series
from mothtrap.reader.samples.sample_index import BatchOfSamples, Sample, StepSamples
from mothtrap.reader.samples.suspects import at_least, outliers, rank, steps_of


def series(values: object) -> Series:
    loss_S = np.asarray(values, np.float64)
    return Series(
        name="loss",
        of="",
        mode=Mode.TRAIN,
        steps_S=np.arange(len(loss_S)),
        values_S=loss_S,
        total=len(loss_S),
        first=float(loss_S[0]),
    )


def noise(count: int = 400) -> np.ndarray:
    return 1.0 + 0.2 * np.random.default_rng(0).standard_normal(count)


def steps(*batches: list[int], worker: int = 0) -> Iterator[StepSamples]:
    for number, indices in enumerate(batches):
        told = BatchOfSamples(
            told=SampleBatch(rows=len(indices)),
            samples=tuple(Sample(0, index) for index in indices),
            data=(),
        )
        yield StepSamples(step=number, worker=worker, attempt=1, batches=(told,))


def epochs(count: int, *, size: int = 64, rows: int = 8) -> list[list[int]]:
    generator = np.random.default_rng(1)
    orders = [generator.permutation(size).reshape(-1, rows).tolist() for _ in range(count)]
    return [batch for order in orders for batch in order]


def test_the_sample_that_makes_steps_bad_comes_first_and_stands_out() -> None:
    batches = epochs(6)
    bad = {(0, step) for step, batch in enumerate(batches) if 17 in batch}
    found = rank(steps(*batches), bad)
    assert (found.bad_steps, found.steps, found.samples) == (6, 48, 64)
    guilty = found.ranked[0]
    assert (guilty.sample.index, guilty.bad, guilty.steps) == (17, 6, 6)
    assert guilty.lift == pytest.approx(8)
    assert guilty.stands_out
    assert not any(other.stands_out for other in found.ranked[1:])


def test_after_one_pass_nothing_can_be_told() -> None:
    batches = epochs(1)
    found = rank(steps(*batches), {(0, 3)})
    assert {each.sample.index for each in found.ranked} == set(batches[3])
    assert not any(each.stands_out for each in found.ranked)


def test_bad_steps_at_random_accuse_no_one() -> None:
    generator = np.random.default_rng(2)
    accused = 0
    for _ in range(20):
        bad = {(0, int(step)) for step in generator.choice(160, 12, replace=False)}
        accused += any(each.stands_out for each in rank(steps(*epochs(20)), bad).ranked)
    assert accused <= 2


def test_steps_of_another_worker_are_not_bad() -> None:
    found = rank(steps([1], [2], worker=1), {(0, 0)})
    assert (found.bad_steps, found.ranked) == (0, ())
    assert rank([], {(0, 0)}).steps == 0


@pytest.mark.parametrize(("times", "rate"), list(product((1, 5, 12), (0.1, 0.5))))
def test_chance_is_that_of_independent_draws(times: int, rate: float) -> None:
    drawn = np.random.default_rng(3).binomial(times, rate, 200_000)
    for count in range(times + 1):
        assert at_least(count, times, rate) == pytest.approx((drawn >= count).mean(), abs=4e-3)
    assert at_least(times, times, 1.0) == 1.0


def test_losses_far_above_their_neighbors_are_bad() -> None:
    loss_S = noise()
    assert outliers(series(loss_S)) == []
    loss_S[[30, 200, 399]] += 5.0
    loss_S[100] = np.nan
    loss_S[101] = np.inf
    assert outliers(series(loss_S)) == [30, 100, 101, 200, 399]


def test_a_loss_that_falls_or_jumps_once_to_another_level_is_not_bad() -> None:
    falls = 5 * np.exp(-np.arange(400) / 40) + 0.01 * noise()
    assert outliers(series(falls)) == []
    assert len(outliers(series(np.concatenate((noise(200), 3 + noise(200)))))) < 60


def test_a_few_losses_are_not_compared() -> None:
    assert outliers(series([1.0, 1.0, 9.0])) == []
    assert outliers(series([1.0, np.nan])) == [1]


def finding(step: int, last_step: int, count: int) -> Finding:
    return Finding(
        code="LOS404",
        name="loss_spike",
        severity=Severity.INFO,
        step=step,
        detected_step=last_step,
        last_step=last_step,
        count=count,
        message="",
    )


def test_a_finding_with_several_steps_brings_the_outliers_between() -> None:
    loss_S = noise()
    loss_S[[30, 100, 200, 300]] += 5.0
    places = steps_of([finding(100, 300, 3)], [(0, series(loss_S)), (1, series(loss_S))])
    assert set(places) == {(0, 100), (0, 200), (0, 300)}
    assert set(steps_of([finding(100, -1, 1)], [])) == {(0, 100)}
