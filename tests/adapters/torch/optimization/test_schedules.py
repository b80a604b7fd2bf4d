from __future__ import annotations

import functools
import gc
import math
import weakref
from collections.abc import Callable

import pytest
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


def test_passes_count_if_the_model_gets_tensors_computed_from_the_batch() -> None:
    model = classifier()
    loader = DataLoader(TensorDataset(torch.randint(0, 6, (20,))), batch_size=5)
    with watched() as seen:
        optimizer = sgd(model)
        schedule = lr_scheduler.CosineAnnealingLR(optimizer, T_max=3)
        for _ in range(3):
            for (numbers,) in loader:
                optimizer.zero_grad()
                model(torch.eye(6)[numbers]).square().mean().backward()
                optimizer.step()
                schedule.step()
        [found] = told(seen)
    assert found.passes == 3


class Decay:
    """A schedule function that is a callable object."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __call__(self, call: int) -> float:
        return max(0.0, 1 - call / self.length)


def _of_closure(total_steps: int) -> Callable[[int], float]:
    return lambda call: 1 - call / total_steps


def _linear(call: int, *, warm_up: int, total: int) -> float:
    return min(call / warm_up, 1 - call / total)


def _of_roots(call: int, *, warm_up: int) -> float:
    return 0.3 * min(call**-0.5, call * warm_up**-1.5)


GLOBAL = 20


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (_of_closure(20), "total_steps"),
        (functools.partial(_linear, warm_up=3, total=20), "total"),
        (lambda call: 1 - call / GLOBAL, "GLOBAL"),
        (lambda call, length=20: 1 - call / length, "length"),
        (lambda call: 1 - call / 20, "constant 2"),
        (Decay(20), "length"),
    ],
)
def test_a_function_plans_for_the_number_of_steps_that_it_reads(
    function: Callable[[int], float], name: str
) -> None:
    [found] = _of_function(function)
    assert (found.argument, found.planned, found.calls, found.steps) == (name, 20, 5, 20)


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (functools.partial(_linear, warm_up=12, total=1000), "warm_up"),
        (lambda call, warmup_steps=12: min(1.0, (call + 1) / warmup_steps), "warmup_steps"),
        (lambda call: _of_roots(max(call, 1), warm_up=12), "constant"),
    ],
)
def test_a_rate_that_still_rises_in_a_line_is_in_its_warm_up(
    function: Callable[[int], float], name: str
) -> None:
    [found] = _of_function(function)
    assert (found.argument.split()[0], found.planned, found.warms_up) == (name, 12, True)


def test_a_warm_up_that_has_ended_has_no_plan() -> None:
    assert _of_function(functools.partial(_linear, warm_up=3, total=1000)) == []
    assert _of_function(lambda call: 1.1**call * 12) == []


def test_a_function_that_reads_other_numbers_has_no_plan() -> None:
    assert _of_function(_of_closure(55)) == []
    assert _of_function(lambda call: 0.9**call) == []


def _of_function(function: Callable[[int], float]) -> list[ScheduleEnded]:
    model = classifier()
    with watched() as seen:
        optimizer = sgd(model)
        schedule = lr_scheduler.LambdaLR(optimizer, function)
        for _ in range(5):
            train(model, optimizer, steps=4)
            schedule.step()
        return told(seen)


def test_schedules_without_a_plan_are_left_out() -> None:
    model = classifier()
    with watched() as seen:
        optimizer = sgd(model)
        kept = lr_scheduler.StepLR(optimizer, 5)
        train(model, optimizer, steps=3)
        assert told(seen) == []
        del kept


def test_a_schedule_may_end_with_the_function_that_trains() -> None:
    def trains(planned: int) -> None:
        model = classifier()
        optimizer = sgd(model)
        schedule = lr_scheduler.CosineAnnealingLR(optimizer, T_max=planned)
        for _ in range(2):
            train(model, optimizer, steps=4)
            schedule.step()

    with watched() as seen:
        trains(8)
        trains(20)
        found = told(seen)
    assert [(one.planned, one.calls, one.steps) for one in found] == [(8, 2, 8), (20, 2, 8)]


def test_a_schedule_and_its_model_are_not_kept_alive() -> None:
    with watched():
        model = classifier()
        schedule = lr_scheduler.LambdaLR(sgd(model), lambda call: 1.0)
        gone = weakref.ref(model), weakref.ref(schedule), weakref.ref(schedule.optimizer)
        del model, schedule
        gc.collect()
        assert [one() for one in gone] == [None, None, None]


class Cosine(lr_scheduler.LRScheduler):
    """A schedule of the user, which goes on after its end."""

    def __init__(self, optimizer: torch.optim.Optimizer, warmup: int, max_iters: int) -> None:
        self.warmup, self.max_iters = warmup, max_iters
        super().__init__(optimizer)

    def get_lr(self) -> list[float]:
        share = 0.5 * (1 + math.cos(math.pi * self.last_epoch / self.max_iters))
        return [rate * share for rate in self.base_lrs]


@pytest.mark.parametrize(("max_iters", "planned"), [(3, [3]), (12, [12]), (7, [])])
def test_a_schedule_of_the_user_plans_for_a_number_that_it_keeps(
    max_iters: int, planned: list[int]
) -> None:
    model = classifier()
    loader = DataLoader(TensorDataset(torch.randn(20, 6)), batch_size=5)
    with watched() as seen:
        optimizer = sgd(model)
        schedule = Cosine(optimizer, warmup=3, max_iters=max_iters)
        for _ in range(3):
            for (rows,) in loader:
                optimizer.zero_grad()
                model(rows).square().mean().backward()
                optimizer.step()
                schedule.step()
        found = told(seen)
    assert [one.planned for one in found] == planned
    assert all((one.schedule, one.argument) == ("Cosine", "max_iters") for one in found)
    made = test_a_schedule_of_the_user_plans_for_a_number_that_it_keeps.__code__.co_firstlineno
    assert all(int((one.location or ":0").rpartition(":")[2]) > made for one in found)


@pytest.mark.parametrize(
    ("rate", "argument"),
    [
        pytest.param(lambda step: min(1.0, (step + 1) / 60), "constant 2", id="a constant"),
        pytest.param(
            lambda step: min(1.0, (step + 1) / max(1.0, 3.0 * math.sqrt(400.0))), "", id="computed"
        ),
    ],
)
def test_a_linear_warm_up_may_be_longer_than_the_job(
    rate: Callable[[int], float], argument: str
) -> None:
    model = classifier()
    with watched() as seen:
        optimizer = sgd(model)
        schedule = lr_scheduler.LambdaLR(optimizer, rate)
        for _ in range(20):
            train(model, optimizer, steps=1)
            schedule.step()
        [found] = told(seen)
    assert (found.planned, found.calls, found.steps, found.warms_up) == (60, 20, 20, True)
    assert found.argument.split(" ")[0] == argument.split(" ")[0]


def test_a_warm_up_longer_than_a_job_is_not_reported_after_an_exception(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = classifier()
    monkeypatch.setattr("sys.last_value", KeyboardInterrupt(), raising=False)
    with watched() as seen:
        optimizer = sgd(model)
        schedule = lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 60))
        for _ in range(20):
            train(model, optimizer, steps=1)
            schedule.step()
        assert told(seen) == []


@pytest.mark.parametrize("planned", [40, 23])
def test_a_function_may_plan_for_the_number_of_batches(planned: int) -> None:
    model = classifier()
    with watched() as seen:
        optimizer = sgd(model)
        schedule = lr_scheduler.LambdaLR(optimizer, _of_closure(planned))
        for _ in range(10):
            for _ in range(4):
                model(torch.randn(8, 6)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
        found = told(seen)
    assert [(one.planned, one.calls, one.steps, one.batches) for one in found] == (
        [(40, 10, 10, 40)] if planned == 40 else []
    )
