"""The package itself: what a session asks of an adapter."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from mothtrap.adapters import torch as adapter
from mothtrap.core import registry
from mothtrap.core.adapters import Adapter


def test_the_adapter_accepts_modules_only() -> None:
    assert adapter.accepts(nn.Linear(1, 1))
    assert not adapter.accepts(torch.ones(1))
    assert not adapter.accepts("model")


def test_its_reducer_exists() -> None:
    assert adapter.ARRAYS in registry.names("mothtrap.statistics")


def test_it_is_an_adapter() -> None:
    found: Adapter = adapter  # a type checker compares them
    assert (found.FRAMEWORK, found.refines()) == ("torch", None)


def test_versions_name_the_framework() -> None:
    assert adapter.environment().versions["torch"] == torch.__version__


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, (None, 1)),
        ({"RANK": "1", "WORLD_SIZE": "2"}, (1, 2)),
        ({"RANK": "nonsense", "WORLD_SIZE": "?"}, (None, 1)),
    ],
)
def test_ranks_come_from_the_launcher(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: tuple[int | None, int]
) -> None:
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    here = adapter.environment()
    assert (here.rank, here.size) == expected
