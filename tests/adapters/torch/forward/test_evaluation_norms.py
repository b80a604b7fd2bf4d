from __future__ import annotations

import torch
from tests.adapters.torch.watched import Seen, sgd, watched
from torch import nn

from mothtrap.core.facts.evaluations import EvaluationNorms
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
