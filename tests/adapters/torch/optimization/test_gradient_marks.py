"""Gradients that a step applied or began with, and their later fate."""

from __future__ import annotations

import pytest
import torch
from tests.adapters.torch.watched import batch, classifier, sgd, watched
from torch import Tensor
from torch.nn import functional


@pytest.mark.parametrize("clears", [None, "optimizer", "model", "in place"])
def test_the_closure_of_an_accumulating_loop_is_a_micro_batch_while_gradients_stand(
    clears: str | None,
) -> None:
    model = classifier()
    x, y = batch()

    def loss_of(part: int) -> Tensor:
        return functional.cross_entropy(model(x[part::4]), y[part::4]) / 4

    with watched() as seen:
        optimizer = sgd(model)

        def closure() -> Tensor:
            if clears == "optimizer":
                optimizer.zero_grad()
            elif clears is not None:
                model.zero_grad(set_to_none=clears == "model")
            loss = loss_of(3)
            loss.backward()
            return loss

        expected = []
        for _ in range(2):
            earlier = [loss_of(part) for part in range(3)]
            for loss in earlier:
                loss.backward()
            last = optimizer.step(closure).item()
            expected.append(sum(loss.item() for loss in earlier) + (0 if clears else last))
            optimizer.zero_grad()
    totals = [sum(s.value for s in step.scalars if s.name == "loss") for step in seen.steps()]
    assert totals == pytest.approx(expected)


@pytest.mark.parametrize("micro_batches", [1, 3])
@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_evaluations_of_a_closure_that_do_not_clear_gradients_are_counted(
    micro_batches: int, search: str | None
) -> None:
    x, y = batch()

    def stale(*, clears: bool) -> tuple[list[float], list[int]]:
        model, evaluations = classifier(), []
        with watched() as seen:
            optimizer = torch.optim.LBFGS(
                model.parameters(), lr=0.1, max_iter=5, line_search_fn=search
            )

            def closure() -> Tensor:
                evaluations[-1] += 1
                if clears:
                    optimizer.zero_grad()
                parts = [
                    functional.cross_entropy(model(x[i::micro_batches]), y[i::micro_batches])
                    for i in range(micro_batches)
                ]
                for loss in parts:
                    loss.backward()
                return torch.stack(parts).sum()

            for _ in range(3):
                evaluations.append(0)
                optimizer.step(closure)
        return seen.scalars("stale_gradient"), evaluations

    assert stale(clears=True)[0] == [0.0, 0.0, 0.0]
    counts, evaluations = stale(clears=False)
    assert counts == [evaluations[0] - 1, *evaluations[1:]]
    assert evaluations[0] > 2
