from __future__ import annotations

import torch
from tests.adapters.torch.watched import Seen, sgd, watched
from torch import nn

from mothtrap.core.facts.evaluations import EvaluationNorms, NormAverages
from mothtrap.core.facts.workers import WorkerEnded


def evaluated(*norms: nn.Module, last: int = 2) -> list[EvaluationNorms]:
    model = nn.Sequential(nn.Linear(4, 6), *norms, nn.Linear(6, 1))
    optimizer = sgd(model)
    with watched() as seen:
        for _ in range(2):
            for rows in (8, 8, last):
                optimizer.zero_grad()
                model(torch.randn(rows, 4)).square().mean().backward()
                optimizer.step()
            model.eval()
            with torch.no_grad():
                model(torch.randn(5, 4))
                model(torch.randn(3, 4))
            model.train()
    return reported(seen)


def reported(seen: Seen) -> list[EvaluationNorms]:
    seen.tracer.recorder.finish(WorkerEnded(step=0, steps=0, own_s=0.0, wall_s=0.0))
    return [one for one in seen.observed(EvaluationNorms) if isinstance(one, EvaluationNorms)]


def test_the_highest_momentum_and_the_rows_of_the_last_batch_are_reported() -> None:
    found = evaluated(nn.BatchNorm1d(6, momentum=0.6), nn.BatchNorm1d(6, momentum=0.99))
    assert [(one.step, one.module) for one in found] == [(3, "2"), (6, "2")]
    assert {(one.momentum, one.last_rows, one.rows) for one in found} == {(0.99, 2, 8)}


def test_usual_momenta_averages_and_other_norms_are_not_reported() -> None:
    assert evaluated(nn.BatchNorm1d(6), nn.BatchNorm1d(6, momentum=None)) == []
    assert evaluated(nn.LayerNorm(6)) == []


def averages(*norms: nn.Module, batches: int = 1) -> list[NormAverages]:
    model = nn.Sequential(nn.Linear(4, 6), *norms, nn.Linear(6, 1))
    optimizer = sgd(model)
    with watched() as seen:
        for _ in range(3):
            for _ in range(2):
                optimizer.zero_grad()
                for _ in range(batches):
                    model(torch.randn(8, 4)).square().mean().backward()
                optimizer.step()
            model.eval()
            with torch.no_grad():
                model(torch.randn(5, 4))
            model.train()
    seen.tracer.recorder.finish(WorkerEnded(step=0, steps=0, own_s=0.0, wall_s=0.0))
    return [one for one in seen.observed(NormAverages) if isinstance(one, NormAverages)]


def test_the_slowest_new_averages_are_reported_once() -> None:
    norms = nn.BatchNorm1d(6), nn.BatchNorm1d(6, momentum=0.001), nn.BatchNorm1d(6, momentum=None)
    [told] = averages(*norms)
    assert (told.step, told.module, told.momentum) == (2, "2", 0.001)
    assert (told.updates, told.per_step) == (2, 1.0)


def test_each_batch_of_a_step_counts() -> None:
    [told] = averages(nn.BatchNorm1d(6), batches=4)
    assert (told.updates, told.per_step) == (8, 4.0)


def test_averages_that_were_loaded_or_rest_are_not_new() -> None:
    loaded, frozen = nn.BatchNorm1d(6), nn.BatchNorm1d(6)
    loaded.load_state_dict(dict(loaded.state_dict(), running_mean=torch.ones(6)))
    frozen.eval()
    frozen.train = lambda mode=True: frozen  # type: ignore[method-assign,assignment]
    assert averages(loaded, frozen, nn.LayerNorm(6)) == []


def test_lazy_norms_are_new() -> None:
    [told] = averages(nn.LazyBatchNorm1d(momentum=0.01))
    assert told.momentum == 0.01
