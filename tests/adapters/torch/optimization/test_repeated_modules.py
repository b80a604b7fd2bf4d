"""Lists of modules that hold one module several times."""

from __future__ import annotations

import pytest
import torch
from tests.adapters.torch.watched import sgd, watched
from torch import nn

from mothtrap.core.facts.modules import RepeatedModule


class Base(nn.Module):
    blocks: nn.ModuleList | nn.Sequential

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x


class Multiplied(Base):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(6, 6)] * 3)


class InSequence(Base):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*2 * [nn.Linear(6, 6)])


class Separate(Base):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(6, 6) for _ in range(3)])


class OnPurpose(Base):
    def __init__(self) -> None:
        super().__init__()
        shared = nn.Linear(6, 6)
        self.blocks = nn.ModuleList([shared, nn.Linear(6, 6), shared])


class WithoutParameters(Base):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 6)
        self.blocks = nn.Sequential(*[nn.ReLU()] * 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(self.first(x))


def found(model: nn.Module) -> list[RepeatedModule]:
    with watched() as seen:
        optimizer = sgd(model)
        for _ in range(6):
            optimizer.zero_grad()
            model(torch.randn(4, 6)).square().mean().backward()
            optimizer.step()
        assert seen.failed() == []
        return [one for one in seen.observed(RepeatedModule) if isinstance(one, RepeatedModule)]


@pytest.mark.parametrize(("model", "copies"), [(Multiplied(), 3), (InSequence(), 2)])
def test_a_multiplied_list_is_found(model: nn.Module, copies: int) -> None:
    [one] = found(model)
    assert (one.container, one.module_type, one.copies, one.elements) == (
        "blocks",
        "Linear",
        copies,
        42,
    )
    assert "test_repeated_modules.py" in (one.location or "")


@pytest.mark.parametrize("model", [Separate(), OnPurpose(), WithoutParameters()])
def test_other_lists_are_quiet(model: nn.Module) -> None:
    assert found(model) == []
