"""Swapped arguments and multi-label rows are recognized; targets of another model are not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.adapters.torch.watched import batch, classifier, sgd, watched
from torch.nn import functional

from mothtrap.core.facts.evaluations import Evaluation
from mothtrap.core.facts.losses import LossCall

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def swapped(loss_of: Loss) -> list[LossCall]:
    """Return the calls with swapped arguments in a step on one-hot labels."""
    model = classifier()
    x, y = batch()
    labels = functional.one_hot(y, 3).float()
    with watched() as seen:
        optimizer = sgd(model)
        optimizer.zero_grad()
        loss_of(model(x), labels).backward()
        optimizer.step()
        assert seen.failed() == []
    return [call for call in seen.observed(LossCall) if call.swapped]


@pytest.mark.parametrize(
    ("name", "loss_of"),
    [
        ("cross_entropy", lambda z, t: functional.cross_entropy(t, z)),
        ("binary_cross_entropy", lambda z, t: functional.binary_cross_entropy(t, z.sigmoid())),
        (
            "binary_cross_entropy_with_logits",
            lambda z, t: functional.binary_cross_entropy_with_logits(t, z),
        ),
        ("kl_div", lambda z, t: functional.kl_div(t, z.log_softmax(1), reduction="sum")),
        ("kl_div", lambda z, t: functional.kl_div(t * 0.7 + 0.1, z.softmax(1), reduction="sum")),
    ],
)
def test_labels_as_the_prediction(name: str, loss_of: Loss) -> None:
    calls = swapped(loss_of)
    assert [call.function for call in calls] == [name]
    assert "test_loss_arguments.py" in (calls[0].location or "")


@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"])
def test_symmetric_losses_keep_their_operation(name: str) -> None:
    [call] = swapped(lambda z, t: getattr(functional, name)(t * 2, z))
    assert (call.operation, call.function) == ("elementwise", None)
    assert swapped(lambda z, t: getattr(functional, name)(z, t * 2)) == []


def test_targets_of_swapped_symmetric_losses() -> None:
    model = classifier()
    x, _ = batch()
    labels = torch.full((len(x), 3), 7.0)
    with watched() as seen:
        optimizer = sgd(model)
        optimizer.zero_grad()
        functional.mse_loss(labels, model(x)).backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            functional.mse_loss(labels, model(x))
        model.train()
        optimizer.zero_grad()
        functional.mse_loss(labels, model(x)).backward()
        optimizer.step()
        assert seen.failed() == []
    sampled = [call for call in seen.observed(LossCall) if call.targets is not None]
    assert {call.targets.mean for call in sampled if call.targets} == {7.0}
    assert all((call.predicted_greatest or 0.0) < 7.0 for call in sampled)
    [evaluation] = seen.observed(Evaluation)
    assert evaluation.guess is None


@pytest.mark.parametrize(
    "loss_of",
    [
        lambda z, t: functional.cross_entropy(z, t),
        lambda z, t: functional.kl_div(z.log_softmax(1), t, reduction="sum"),
        # The other direction of a divergence between a teacher and a student, which is intended.
        lambda z, t: functional.kl_div((t * 0.7 + 0.1).log(), z.softmax(1), reduction="sum"),
        lambda z, t: functional.kl_div(
            (t * 0.7 + 0.1).log(), z.log_softmax(1), reduction="sum", log_target=True
        ),
        lambda z, t: functional.cross_entropy(t * 4 - 2, z.softmax(1)),
    ],
)
def test_stays_quiet(loss_of: Loss) -> None:
    assert swapped(loss_of) == []


@pytest.mark.parametrize(
    ("rows", "bounds"),
    [
        (torch.tensor([[1.0, 1.0, 0.0]]), (2.0, 2.0)),
        (torch.tensor([[0.0, 0.0, 0.0]]), (0.0, 0.0)),
        (torch.tensor([[0.0, 1.0, 0.0]]), None),
        (torch.tensor([[0.2, 0.9, 0.4]]), None),
    ],
    ids=["several", "none", "one", "soft"],
)
def test_rows_of_labels_that_do_not_sum_to_1(
    rows: torch.Tensor, bounds: tuple[float, float] | None
) -> None:
    model = classifier()
    x, y = batch()
    with watched() as seen:
        optimizer = sgd(model)
        optimizer.zero_grad()
        functional.cross_entropy(model(x), rows.expand(len(y), 3)).backward()
        optimizer.step()
        assert seen.failed() == []
    sums = [c.targets.row_sums for c in seen.observed(LossCall) if c.targets and c.targets.row_sums]
    assert sums == ([bounds] if bounds else [])
