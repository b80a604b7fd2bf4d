"""First arguments of `kl_div`: probabilities are reported, log-probabilities are not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.adapters.torch.watched import batch, classifier, sgd, watched
from torch.nn import functional

from mothtrap.core.facts.losses import LossCall


def observed(loss_of: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> list[LossCall]:
    """Return the calls of `kl_div` that were reported in a short training."""
    model = classifier()
    x, y = batch()
    target = functional.one_hot(y, 3) * 0.7 + 0.1
    with watched() as seen:
        optimizer = sgd(model)
        for _ in range(12):
            optimizer.zero_grad()
            loss_of(model(x), target).backward()
            optimizer.step()
        assert seen.failed() == []
    return [call for call in seen.observed(LossCall) if call.operation == "kl_div"]


def test_probabilities_are_told() -> None:
    calls = observed(lambda y, t: functional.kl_div(y.softmax(1), t, reduction="batchmean"))
    assert len(calls) == 8
    assert calls[0].chain[:1] == ("softmax",)
    assert "test_divergences.py" in (calls[0].location or "")


@pytest.mark.parametrize(
    "loss_of",
    [
        lambda y, t: functional.kl_div(y.log_softmax(1), t, reduction="batchmean"),
        lambda y, t: functional.kl_div(y.softmax(1).log(), t, reduction="sum"),
        lambda y, t: functional.kl_div(t.log(), y.softmax(1), reduction="sum"),
    ],
)
def test_log_probabilities_are_fine(
    loss_of: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> None:
    assert observed(loss_of) == []
