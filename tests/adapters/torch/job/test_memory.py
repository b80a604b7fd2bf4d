"""Memory in use, and losses that are kept with their graphs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.adapters.torch.watched import Seen, batch, classifier, sgd, watched
from torch import nn

from mothtrap.adapters.torch.job import memory
from mothtrap.core.facts.memory import LossesKept

Tensor = torch.Tensor


def trained(steps: int, keep: Callable[[Tensor], None]) -> Seen:
    model = classifier()
    optimizer = sgd(model, 0.01)
    with watched(capture=()) as seen:
        for _ in range(steps):
            x, y = batch()
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            keep(loss)
    return seen


class Total:
    """A sum that scripts accumulate over an epoch."""

    def __init__(self) -> None:
        self.value: Tensor | float = 0.0

    def add(self, loss: Tensor) -> None:
        self.value = self.value + loss

    def add_number(self, loss: Tensor) -> None:
        self.value += loss.item()


@pytest.mark.parametrize("summed", [False, True])
def test_losses_that_are_kept_or_summed_with_their_graphs_are_counted(summed: bool) -> None:
    kept: list[Tensor] = []
    total = Total()
    seen = trained(120, total.add if summed else kept.append)
    told = seen.observed(LossesKept)
    assert [(o.step, o.kept, o.more) for o in told] == [(49, 50, False), (99, 100, False)]
    assert all("test_memory.py" in str(o.location) for o in told)


def test_numbers_and_detached_losses_keep_nothing() -> None:
    kept: list[Tensor] = []
    assert trained(110, lambda loss: kept.append(loss.detach())).observed(LossesKept) == []
    assert trained(110, Total().add_number).observed(LossesKept) == []


def test_losses_of_an_epoch_that_are_let_go_count_from_anew() -> None:
    kept: list[Tensor] = []

    def keep(loss: Tensor) -> None:
        kept.append(loss)
        if len(kept) == 70:
            kept.clear()

    told = trained(160, keep).observed(LossesKept)
    assert [(o.step, o.kept) for o in told] == [(49, 50)]


def test_memory_is_read_now_and_then() -> None:
    seen = trained(25, lambda loss: None)
    read = seen.scalars("memory_bytes", "process")
    assert len(read) == 3
    assert all(2**20 < value < 2**40 for value in read)


def test_a_mark_is_not_in_the_way_of_anomaly_detection(monkeypatch: pytest.MonkeyPatch) -> None:
    with torch.autograd.set_detect_anomaly(True, check_nan=True):
        seen = trained(2, lambda loss: None)
    assert seen.failed() == []


def test_trouble_with_the_memory_costs_itself_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MEMORY_EVERY", 0)
    model = classifier()
    with watched(capture=(), may_fail=True) as seen:
        x, y = batch()
        nn.functional.cross_entropy(model(x), y).backward()
        sgd(model).step()
    assert seen.failed() == ["memory"]
    assert len(seen.scalars("loss")) == 1
