from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional

from mothtrap.adapters.torch.failedloss import failed_loss
from mothtrap.core.observations import FailedLoss

Tensor = torch.Tensor


def raised(act: Callable[[], object]) -> Exception:
    try:
        act()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def told(act: Callable[[], object]) -> FailedLoss:
    found = failed_loss(raised(act), step=3)
    assert found is not None
    return found


@pytest.mark.parametrize("loss", [functional.cross_entropy, nn.CrossEntropyLoss()])
def test_a_label_that_the_model_has_no_output_for(loss: Callable[..., Tensor]) -> None:
    found = told(lambda: loss(torch.randn(4, 3), torch.tensor([0, 1, 3, 2])))
    assert (found.operation, found.step, found.classes) == ("cross_entropy", 3, 3)
    assert (found.least, found.greatest, found.target_dtype) == (0, 3, "int64")
    assert "IndexError" in found.error
    assert found.location is not None
    assert "test_failedloss.py:" in found.location


def test_predictions_that_are_no_probabilities() -> None:
    found = told(lambda: functional.binary_cross_entropy(torch.tensor([2.0]), torch.ones(1)))
    assert (found.operation, found.predicted_greatest) == ("binary_cross_entropy", 2.0)
    assert (found.least, found.greatest, found.classes) == (1.0, 1.0, None)


def test_a_loss_of_log_probabilities() -> None:
    found = told(lambda: functional.nll_loss(torch.randn(4, 3), torch.tensor([0, 1, -1, 2])))
    assert (found.operation, found.least) == ("nll", -1)


def test_other_exceptions_are_none_of_a_loss() -> None:
    assert failed_loss(raised(lambda: torch.randn(2, 3) @ torch.randn(2, 3)), 0) is None
    assert failed_loss(raised(lambda: nn.Embedding(3, 2)(torch.tensor([7]))), 0) is None
    assert failed_loss(KeyboardInterrupt(), 0) is None


def test_what_is_no_tensor_has_no_range() -> None:
    found = told(lambda: functional.cross_entropy(torch.randn(4, 3), [0, 1, 2, 0]))
    assert (found.least, found.target_dtype) == (None, None)
