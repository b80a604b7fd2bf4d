from __future__ import annotations

import torch
from tests.adapters.torch.watched import Seen, classifier, sgd, train, watched
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader, TensorDataset

from mothtrap.core.facts.optimizers import ScheduleEnded
from mothtrap.core.facts.workers import WorkerEnded


def told(seen: Seen) -> list[ScheduleEnded]:
    seen.tracer.ended()
    seen.tracer.recorder.finish(WorkerEnded(step=0, steps=0, own_s=0.0, wall_s=0.0))
    return [one for one in seen.observed(ScheduleEnded) if isinstance(one, ScheduleEnded)]


def test_calls_are_compared_with_steps_at_the_end() -> None:
    model = classifier()
    with watched() as seen:
        optimizer = sgd(model)
        schedule = lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=40)
        for _ in range(5):
            train(model, optimizer, steps=4)
            schedule.step()
        [found] = told(seen)
    assert (found.schedule, found.argument, found.planned) == ("OneCycleLR", "total_steps", 40)
    assert (found.calls, found.steps, found.passes) == (5, 20, 0)
    assert "test_schedules.py" in (found.location or "")


def test_passes_are_those_of_the_loader_that_is_trained_on() -> None:
    model = classifier()
    loader = DataLoader(TensorDataset(torch.randn(20, 6)), batch_size=5)
    with watched() as seen:
        optimizer = sgd(model)
        schedule = lr_scheduler.CosineAnnealingLR(optimizer, T_max=3)
        for _ in range(3):
            for (rows,) in loader:
                optimizer.zero_grad()
                model(rows).square().mean().backward()
                optimizer.step()
                schedule.step()
        [found] = told(seen)
    assert (found.planned, found.calls, found.steps, found.passes) == (3, 12, 12, 3)


def test_schedules_without_a_plan_and_gone_ones_are_left_out() -> None:
    model = classifier()
    with watched() as seen:
        optimizer = sgd(model)
        kept = lr_scheduler.StepLR(optimizer, 5)
        lr_scheduler.CosineAnnealingLR(sgd(classifier()), T_max=3)
        train(model, optimizer, steps=3)
        assert told(seen) == []
        del kept
