"""Callbacks, settings, and manual steps of Lightning are recorded."""

from __future__ import annotations

from typing import Any

import pytest
import torch

pytest.importorskip("lightning.pytorch")

from lightning.pytorch.callbacks import EarlyStopping
from tests.adapters.lightning.modules import Net, fit, trainer

from mothtrap.adapters.lightning import ADAPTER, left_out
from mothtrap.adapters.lightning.manual_steps import CALLS, ManualSteps
from mothtrap.core.facts.epochs import EpochMetrics, MetricWatched
from mothtrap.core.facts.trainers import TrainerSettings
from mothtrap.testing.adapters import Process
from mothtrap.tracing.trainers.trainer_handle import count


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


class Loop:
    """A trainer whose module has two optimizers, of which only the first steps."""

    def __init__(self, *, automatic: bool) -> None:
        self.lightning_module = Net("plain" if automatic else "manual")
        first, last = self.lightning_module.net[0], self.lightning_module.net[3]
        self.optimizers = [torch.optim.SGD(each.parameters(), lr=0.1) for each in (first, last)]

    def step(self) -> None:
        self.lightning_module.net(torch.ones(4, 8)).sum().backward()
        self.optimizers[0].step()


def test_an_optimizer_that_never_steps() -> None:
    loop, seen, found = Loop(automatic=False), ManualSteps(), []
    for number in range(2 * CALLS):
        loop.step()
        found += seen.called(loop, number)
    [one] = found
    assert (one.optimizer, one.parameter, one.parameters) == ("SGD", "net.3.weight", 2)
    assert (one.step, one.calls) == (0, CALLS)


def test_an_automatic_optimization_steps_by_itself() -> None:
    loop, seen = Loop(automatic=True), ManualSteps()
    assert [seen.called(loop, 0) for _ in range(CALLS)] == [[]] * CALLS


@pytest.mark.parametrize(("given", "known"), [(3, 3), (2.0, 2), (-1, None), (float("inf"), None)])
def test_an_endless_dataset_has_no_number_of_batches(given: float, known: int | None) -> None:
    assert count(given) == known
