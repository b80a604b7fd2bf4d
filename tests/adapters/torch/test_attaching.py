"""The functions of the package itself that a session calls."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from mothtrap.adapters.torch import ADAPTER
from mothtrap.core import registry


def test_the_adapter_accepts_modules_only() -> None:
    assert ADAPTER.accepts(nn.Linear(1, 1))
    assert not ADAPTER.accepts(torch.ones(1))
    assert not ADAPTER.accepts("model")


def test_its_reducer_exists() -> None:
    assert ADAPTER.arrays in registry.names("mothtrap.statistics")


def test_it_is_an_adapter() -> None:
    assert (ADAPTER.framework, ADAPTER.refines) == ("torch", None)


def test_versions_name_the_framework() -> None:
    assert ADAPTER.environment().versions["torch"] == torch.__version__


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
    here = ADAPTER.environment()
    assert (here.rank, here.size) == expected
