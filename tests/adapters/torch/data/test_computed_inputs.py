"""Non-finite inputs that the script computed from finite data or obtained elsewhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from tests.adapters.torch.watched import sgd, watched
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from mothtrap.adapters.torch.data import loaders
from mothtrap.core.facts.data import NonfiniteInput

ROWS, BAD = 64, 37


def prices() -> tuple[Tensor, Tensor]:
    y = torch.rand(ROWS) + 0.5
    y[BAD] = -1.0
    return torch.rand(ROWS, 6) + 0.5, y


def loader(*tensors: Tensor) -> DataLoader[Any]:
    return DataLoader(TensorDataset(*tensors), batch_size=8)


def train(
    batches: Iterable[Any],
    given: Callable[..., Tensor] = lambda x, *_: x,
    target: Callable[..., Tensor] = lambda _, y: y,
) -> list[NonfiniteInput]:
    """Return the findings of a training on batches that the script has transformed."""
    model = nn.Linear(6, 1)
    with watched() as seen:
        optimizer = sgd(model)
        for batch in batches:
            optimizer.zero_grad()
            functional.mse_loss(model(given(*batch))[:, 0], target(*batch)).backward()
            optimizer.step()
    return seen.observed(NonfiniteInput)


@pytest.mark.parametrize("checked", [0, 64])
def test_a_target_computed_of_a_finite_batch_is_the_scripts(
    monkeypatch: pytest.MonkeyPatch, checked: int
) -> None:
    monkeypatch.setattr(loaders, "CHECKED", checked)
    found = train(loader(*prices()), target=lambda _, y: torch.sqrt(y))[0]
    assert (found.step, found.tensor, found.samples) == (4, "target", (BAD,))
    assert found.computed


def test_an_argument_computed_of_a_finite_batch_is_the_scripts() -> None:
    x, y = prices()
    x[BAD, 2] = -1.0
    found = train(loader(x, y), given=lambda x, _: torch.log(x))[0]
    assert (found.step, found.tensor, found.from_loader, found.computed) == (
        4,
        "input",
        False,
        True,
    )


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_target_that_was_not_finite_as_it_was_loaded_is_not(bad: float) -> None:
    x, y = prices()
    y[BAD] = bad
    found = train(loader(x, y), target=lambda _, y: y * 2)[0]
    assert not found.computed


def test_an_infinity_that_looks_like_a_mask_is_no_finite_value() -> None:
    x, y = prices()
    y[:], y[BAD] = 0.0, -math.inf
    found = train(loader(x, y), target=lambda _, y: y - y)[0]
    assert (found.tensor, found.nan, found.computed) == ("target", 1, False)


def test_a_target_that_the_script_looks_up_by_index_is_not() -> None:
    x, y = prices()
    kept = torch.sqrt(y)
    found = train(loader(x, torch.arange(ROWS)), target=lambda _, index: kept[index])[0]
    assert not found.computed


def test_a_target_of_another_loader_is_not() -> None:
    x, y = prices()
    y[BAD] = math.nan
    both = ((x, y) for (y,), (x, _) in zip(loader(y), loader(x, torch.rand(ROWS)), strict=True))
    found = train(both)
    assert found
    assert not any(fact.computed for fact in found)


def test_a_target_of_a_batch_that_was_loaded_ahead_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loaders, "CHECKED", 2)
    x, y = prices()
    y[BAD] = math.nan

    def ahead() -> Iterable[Any]:
        waiting = None
        for batch in loader(x, y):
            if waiting is not None:
                yield waiting
            waiting = [tensor.clone() for tensor in batch]

    found = train(ahead())
    assert found
    assert not any(fact.computed for fact in found)


def test_a_batch_that_was_only_looked_at_is_no_obstacle() -> None:
    data = loader(*prices())
    next(iter(data))
    assert train(data, target=lambda _, y: torch.sqrt(y))[0].computed
