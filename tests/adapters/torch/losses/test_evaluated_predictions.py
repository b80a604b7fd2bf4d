from __future__ import annotations

import pytest
import torch
from tests.adapters.torch.watched import Seen, batch, classifier, sgd, train, watched
from torch.nn import functional

from mothtrap.adapters.torch.losses.evaluated_predictions import FIRST_LOOKS, are_probabilities
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.facts.workers import WorkerEnded
from mothtrap.core.steps import Mode


def calls_of(seen: Seen) -> list[LossCall]:
    """Return the loss calls of evaluations."""
    seen.tracer.recorder.finish(WorkerEnded(step=0, steps=0, own_s=0.0, wall_s=0.0))
    calls = [one for one in seen.observed(LossCall) if isinstance(one, LossCall)]
    return [call for call in calls if call.mode is Mode.EVAL]


@pytest.mark.parametrize("graph", [False, True])
def test_an_evaluation_is_looked_at_with_and_without_a_graph(graph: bool) -> None:
    model = classifier()
    optimizer = sgd(model)
    x, y = batch(rows=10)
    with watched() as seen:
        for _ in range(2):
            train(model, optimizer, steps=1)
            model.eval()
            with torch.set_grad_enabled(graph):
                functional.cross_entropy(model(x).softmax(-1), y)
            model.train()
        train(model, optimizer, steps=1)
    calls = calls_of(seen)
    assert [call.rows_are_probabilities for call in calls] == [True, True]
    assert {call.operation for call in calls} == {"cross_entropy"}
    assert "test_evaluated_predictions.py" in (calls[0].location or "")


def test_logits_are_no_probabilities_and_few_calls_are_looked_at() -> None:
    model = classifier()
    x, y = batch(rows=10)
    with watched() as seen:
        train(model, sgd(model), steps=1)
        with torch.no_grad():
            for _ in range(2 * FIRST_LOOKS):
                functional.nll_loss(model(x).log_softmax(-1), y)
    calls = calls_of(seen)
    assert [call.rows_are_probabilities for call in calls] == [False] * (FIRST_LOOKS + 1)
    assert {call.operation for call in calls} == {"nll"}


def test_rows_that_are_all_the_same_prove_nothing() -> None:
    assert not are_probabilities(torch.full((8, 4), 0.25))
    assert not are_probabilities(torch.rand(1, 4).softmax(-1))
    assert not are_probabilities(torch.randn(8, 4))
    assert are_probabilities(torch.randn(8, 4).softmax(-1).half())
    assert are_probabilities(torch.randn(2, 4, 3, 3).softmax(1))


def test_predictions_are_counted_by_label() -> None:
    model = classifier()
    x, y = batch(rows=10)
    with watched() as seen:
        train(model, sgd(model), steps=1)
        with torch.no_grad():
            functional.cross_entropy(functional.one_hot((y + 1) % 3, 3).float() + 0 * model(x), y)
    [call] = calls_of(seen)
    assert call.targets is not None
    expected = torch.zeros(3, 3, dtype=torch.int64)
    expected.index_put_((y, (y + 1) % 3), torch.tensor(1), accumulate=True)
    assert call.targets.confusion == tuple(expected.reshape(-1).tolist())


def test_the_range_of_the_logits_of_binary_losses_is_told() -> None:
    model = classifier()
    optimizer = sgd(model)
    x, y = batch(rows=10)
    labels = functional.one_hot(y, 3).float()
    with watched() as seen:
        train(model, optimizer, steps=1)
        with torch.no_grad():
            functional.binary_cross_entropy_with_logits(model(x).sigmoid(), labels)
            functional.binary_cross_entropy(model(x).sigmoid(), labels)
        train(model, optimizer, steps=1)
    [call] = calls_of(seen)
    assert call.operation == "binary_cross_entropy_with_logits"
    assert call.predicted_least is not None
    assert call.predicted_greatest is not None
    assert 0 < call.predicted_least < call.predicted_greatest < 1
