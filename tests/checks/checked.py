"""Checks of given objects, one at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from mothtrap.core.facts.checks import CheckResult
from mothtrap.core.findings import Finding
from mothtrap.session.explicit_check import check

ROWS = 16


def result(
    code: str,
    model: nn.Module,
    batches: Sequence[Any],
    loss: Callable[..., Any] | None = None,
    **more: Any,
) -> CheckResult:
    """Run one check."""
    [made] = check(model, batches, loss, select=(code,), **more).results
    return made


def finding(
    code: str, model: nn.Module, batches: Sequence[Any], *more: Any, **named: Any
) -> Finding:
    """Run one check, and return the only fault that it finds."""
    made = result(code, model, batches, *more, **named)
    assert made.state == "done", made.reason
    [found] = made.found
    return found


def passes(code: str, model: nn.Module, batches: Sequence[Any], *more: Any, **named: Any) -> bool:
    """Run one check, and return whether it passes."""
    made = result(code, model, batches, *more, **named)
    assert made.state == "done", made.reason
    return not made.found and bool(made.passed)


def table(columns: int = 6, classes: int = 3, batches: int = 3) -> list[tuple[torch.Tensor, ...]]:
    """Return batches of random rows with classes that depend on them."""
    torch.manual_seed(0)
    x = torch.randn(ROWS * batches, columns)
    y = (x[:, 0] > 0).long() + (classes > 2) * (x[:, 1] > 0).long()
    return list(zip(x.split(ROWS), y.split(ROWS), strict=True))


def network(columns: int = 6, classes: int = 3) -> nn.Sequential:
    """Return a small classifier."""
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(columns, 16), nn.ReLU(), nn.Linear(16, classes))
