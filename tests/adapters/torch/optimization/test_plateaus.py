from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.adapters.torch.watched import classifier, sgd, train, watched
from torch.optim.lr_scheduler import ReduceLROnPlateau

from mothtrap.core.facts.epochs import MetricWatched


class Meter:
    avg = 0.5


def told(step: Callable[[Any], None], mode: str = "min") -> list[tuple[str, str]]:
    model = classifier()
    with watched() as seen:
        optimizer = sgd(model)
        schedule = ReduceLROnPlateau(optimizer, mode=mode)
        for _ in range(3):
            train(model, optimizer, 2)
            step(schedule)
    found = [one for one in seen.observed(MetricWatched) if isinstance(one, MetricWatched)]
    assert all(one.lowers_rate and "test_plateaus.py" in (one.location or "") for one in found)
    return [(one.monitor, one.direction) for one in found]


def by_loss(schedule: Any) -> None:
    val_loss = 0.5
    schedule.step(val_loss / 10)


def by_keyword(schedule: Any) -> None:
    accuracy = 0.5
    schedule.step(metrics=accuracy)


def by_meter(schedule: Any) -> None:
    losses = Meter()
    schedule.step(losses.avg)


def negated(schedule: Any) -> None:
    accuracy = 0.5
    schedule.step(-accuracy)


def subtracted(schedule: Any) -> None:
    accuracy = 0.5
    schedule.step(1 - accuracy)


@pytest.mark.parametrize(
    ("step", "metric"),
    [(by_loss, "val_loss / 10"), (by_keyword, "accuracy"), (by_meter, "losses.avg")],
)
def test_the_metric_is_told_once(step: Callable[[Any], None], metric: str) -> None:
    assert told(step, "max") == [(metric, "max")]


@pytest.mark.parametrize("step", [negated, subtracted])
def test_metrics_that_may_change_their_sign_are_not_told(step: Callable[[Any], None]) -> None:
    assert told(step) == []
