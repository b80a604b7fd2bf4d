from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.adapters.torch.watched import Seen, classifier, sgd, train, watched
from torch import nn

from mothtrap.adapters.torch.optimization import rounding
from mothtrap.core.facts.optimizers import RoundedUpdates


def looks(seen: Seen) -> list[RoundedUpdates]:
    return [o for o in seen.observed(RoundedUpdates) if isinstance(o, RoundedUpdates)]


def narrow_training(
    rate: float,
    steps: int = 30,
    *,
    dtype: torch.dtype = torch.bfloat16,
    after: Callable[[nn.Module], None] = lambda model: None,
) -> nn.Module:
    torch.manual_seed(0)
    model = classifier().to(dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(4, 6, dtype=dtype)).sum().backward()
        optimizer.step()
        after(model)
    return model


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_small_updates_of_narrow_weights_are_seen_to_be_lost(dtype: torch.dtype) -> None:
    with watched() as seen:
        narrow_training(1e-7, dtype=dtype)
    [look] = looks(seen)
    assert (look.since, look.step) == (2, 21)
    assert look.dtypes == (str(dtype).removeprefix("torch."),)
    assert look.elements > 30
    assert look.unchanged > 0.9 * look.elements
    assert look.learning_rate == 1e-7


def test_large_updates_arrive() -> None:
    with watched() as seen:
        narrow_training(1e-2)
    [look] = looks(seen)
    assert look.unchanged < 0.1 * look.elements


def test_only_elements_with_a_gradient_count() -> None:
    torch.manual_seed(0)
    with watched() as seen:
        model = nn.Embedding(100, 4).to(torch.bfloat16)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
        for _ in range(25):
            optimizer.zero_grad()
            model(torch.tensor([3, 7])).sum().backward()
            optimizer.step()
    [look] = looks(seen)
    assert (look.elements, look.unchanged) == (8, 8)


def test_the_smallest_rate_of_the_stretch_is_told() -> None:
    with watched() as seen:
        model = classifier().to(torch.bfloat16)
        optimizer = sgd(model)
        for step in range(25):
            optimizer.param_groups[0]["lr"] = 0.0 if step == 10 else 0.1
            model(torch.ones(4, 6, dtype=torch.bfloat16)).sum().backward()
            optimizer.step()
    assert looks(seen)[0].learning_rate == 0.0


def test_looks_come_again_after_many_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounding, "BEGINS_EVERY", 30)
    with watched() as seen:
        narrow_training(1e-7, steps=60)
    assert [look.since for look in looks(seen)] == [2, 32]


def test_large_weights_are_sampled_and_many_of_them_thinned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rounding, "SAMPLED_TENSORS", 4)
    monkeypatch.setattr(rounding, "SAMPLED_ELEMENTS", 10)
    torch.manual_seed(0)
    with watched() as seen:
        layers = [nn.Linear(8, 8, bias=False) for _ in range(9)]
        model = nn.ModuleList(layers).to(torch.bfloat16)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
        x = torch.ones(2, 8, dtype=torch.bfloat16)
        for _ in range(25):
            optimizer.zero_grad()
            sum(layer(x).sum() for layer in layers).backward()
            optimizer.step()
    [look] = looks(seen)
    assert 20 < look.elements <= 40


def test_wide_weights_are_not_followed() -> None:
    with watched() as seen:
        model = classifier()
        train(model, sgd(model), 30)
    assert looks(seen) == []


def test_weights_that_vanish_on_the_way_are_no_trouble() -> None:
    with watched() as seen:
        narrow_training(1e-7, steps=10)
        narrow_training(1e-7)
    assert len(looks(seen)) == 1
