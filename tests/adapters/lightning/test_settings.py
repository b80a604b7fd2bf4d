"""Callbacks, settings, and manual steps of Lightning are recorded."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("lightning.pytorch")

from lightning.pytorch.callbacks import EarlyStopping
from tests.adapters.lightning.modules import Net, fit, trainer

from mothtrap.adapters.lightning import ADAPTER, left_out
from mothtrap.adapters.lightning.manual_steps import CALLS, ManualSteps
from mothtrap.core.facts.epochs import EpochMetrics, MetricWatched
from mothtrap.core.facts.trainers import OptimizerNeverStepped, TrainerSettings
from mothtrap.testing.adapters import Process


def facts(kind: type[Any], *args: Any, **settings: Any) -> list[Any]:
    process = Process("torch")
    with process.watched(ADAPTER):
        fit(*args, **settings)
    return [fact for fact in process.facts() if isinstance(fact, kind)]


def test_a_metric_that_a_callback_watches() -> None:
    callbacks = [EarlyStopping("val_loss", mode="max", patience=9)]
    seen = facts((MetricWatched, EpochMetrics), callbacks=callbacks)  # type: ignore[arg-type]
    [watched] = [one for one in seen if isinstance(one, MetricWatched)]
    assert (watched.callback, watched.direction, watched.stops) == ("EarlyStopping", "max", True)
    epochs = [one for one in seen if isinstance(one, EpochMetrics)]
    assert [one.epoch for one in epochs] == [0, 1, 2]
    assert epochs[0].lower_is_better == ("val_loss",)
    assert {one.fit for one in epochs} == {watched.fit}


@pytest.mark.parametrize(
    ("settings", "shown", "share"),
    [
        ({}, "", None),
        ({"limit_train_batches": 0.25}, "limit_train_batches=0.25", 0.25),
        ({"overfit_batches": 1}, "overfit_batches=1", 0.125),
    ],
)
def test_settings_that_leave_out_batches(settings: Any, shown: str, share: float | None) -> None:
    [seen] = facts(TrainerSettings, **settings)
    assert (seen.leaves_out, seen.share) == (shown, share)


def test_without_such_settings_nothing_is_left_out() -> None:
    assert left_out.setting(trainer()) == ""


@pytest.mark.parametrize(("kind", "found"), [("never steps", 1), ("manual", 0)])
def test_an_optimizer_that_never_steps(kind: str, found: int) -> None:
    seen = facts(OptimizerNeverStepped, kind, max_epochs=CALLS // 8)
    assert len(seen) == found
    assert all(one.parameters == 4 and one.parameter == "net.0.weight" for one in seen)


def test_an_automatic_optimization_steps_by_itself() -> None:
    class Trainer:
        lightning_module = Net()
        optimizers = ()

    assert [ManualSteps().called(Trainer(), 0) for _ in range(CALLS)] == [[]] * CALLS
