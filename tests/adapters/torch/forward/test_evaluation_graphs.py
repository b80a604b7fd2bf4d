from __future__ import annotations

from collections.abc import Callable

import torch
from tests.adapters.torch.watched import Seen, batch, classifier, sgd, train, watched
from torch.nn import functional

from mothtrap.core.facts.memory import EvaluationGraphsKept
from mothtrap.core.facts.workers import WorkerEnded

Keep = Callable[[torch.Tensor, torch.Tensor], object]


def evaluated(keep: Keep, *, graph: bool = True) -> Seen:
    """Train and evaluate alternately; `keep` gets prediction and loss."""
    model = classifier()
    optimizer = sgd(model)
    x, y = batch(rows=6)
    with watched() as seen:
        for _ in range(6):
            train(model, optimizer, steps=1)
            model.eval()
            with torch.set_grad_enabled(graph):
                for _ in range(2):
                    prediction = model(x)
                    keep(prediction, functional.cross_entropy(prediction, y))
            model.train()
        train(model, optimizer, steps=1)
    seen.tracer.recorder.finish(WorkerEnded(step=0, steps=0, own_s=0.0, wall_s=0.0))
    return seen


def kept(seen: Seen) -> list[tuple[int, int]]:
    found = seen.observed(EvaluationGraphsKept)
    return [(one.evaluations, one.forwards) for one in found]


def test_losses_of_evaluations_that_are_kept_are_counted() -> None:
    losses: list[torch.Tensor] = []
    seen = evaluated(lambda _, loss: losses.append(loss))
    assert kept(seen) == [(3, 6), (4, 8), (5, 10)]
    [*_, last] = seen.observed(EvaluationGraphsKept)
    assert "test_evaluation_graphs.py" in (last.location or "")


def test_predictions_that_are_kept_are_counted() -> None:
    predictions: list[torch.Tensor] = []
    assert kept(evaluated(lambda prediction, _: predictions.append(prediction)))[-1] == (5, 10)


def test_numbers_best_losses_and_evaluations_without_graphs_keep_nothing() -> None:
    numbers: list[object] = []
    assert kept(evaluated(lambda _, loss: numbers.append(loss.item()))) == []
    assert kept(evaluated(lambda _, loss: numbers.append(loss), graph=False)) == []
    best: dict[str, torch.Tensor] = {}

    def keep_best(_: torch.Tensor, loss: torch.Tensor) -> None:
        if not best or loss < best["loss"]:
            best["loss"] = loss

    assert kept(evaluated(keep_best)) == []
