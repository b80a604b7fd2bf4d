"""The line that detaches the input of a module is found in the source of its caller."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
import torch

from mothtrap.tracing.source.cut import cut_at


def called(z: torch.Tensor, *, plus: int = 0) -> str | None:
    """Imitate a module; return the line of the caller that detached its input."""
    return cut_at(sys._getframe(1))


def in_the_call(z: torch.Tensor) -> str | None:
    return called(z.detach())


def of_the_data(z: torch.Tensor) -> str | None:
    return called(z.data)


def above_the_call(z: torch.Tensor) -> str | None:
    z = z.detach()
    return called(z)


def in_a_branch(z: torch.Tensor) -> str | None:
    if z.requires_grad:
        z = 2 * z.detach()
    return called(z)


def of_another_tensor(z: torch.Tensor) -> str | None:
    mean = z.mean().detach()
    z = z - 1
    assert mean.shape == ()
    return called(z)


def assigned_again(z: torch.Tensor) -> str | None:
    z = z.detach()
    z = torch.relu(z)
    return called(z)


@pytest.mark.parametrize(
    ("caller", "offset"),
    [(in_the_call, 1), (of_the_data, 1), (above_the_call, 1), (in_a_branch, 2)],
)
def test_the_line_that_cuts_is_named(
    caller: Callable[[torch.Tensor], str | None], offset: int
) -> None:
    first = caller.__code__.co_firstlineno
    found = caller(torch.zeros(2, requires_grad=True))
    assert found is not None
    assert found.rpartition(":")[2] == str(first + offset)


@pytest.mark.parametrize("caller", [of_another_tensor, assigned_again])
def test_nothing_is_named_where_the_source_shows_no_cut(
    caller: Callable[[torch.Tensor], str | None],
) -> None:
    assert caller(torch.zeros(2, requires_grad=True)) is None


def test_code_without_a_source_has_no_line() -> None:
    assert cut_at(None) is None
