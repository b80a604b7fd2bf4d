"""A step that raises and is caught must not swallow the steps after it.

An out-of-memory handler that retries caused this: no hook runs when `step` raises.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.adapters.torch.watched import watched
from torch import nn

from mothtrap.adapters.torch import attach, attach_process
from mothtrap.adapters.torch.hooks.process_hooks import ProcessHooks


class _Refusing(torch.optim.SGD):
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        raise MemoryError("planted")


def test_steps_after_one_that_raised_are_counted() -> None:
    with watched() as seen:
        model = nn.Linear(4, 2)
        refusing = _Refusing(model.parameters(), lr=0.1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(6):
            loss = nn.functional.cross_entropy(model(torch.randn(8, 4)), torch.arange(8) % 2)
            optimizer.zero_grad()
            loss.backward()
            if step == 2:
                with pytest.raises(MemoryError):
                    refusing.step()
            optimizer.step()
    assert [record.key.step for record in seen.steps()] == [0, 1, 2, 3, 4, 5]


def test_an_attachment_that_fails_half_way_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(self: ProcessHooks) -> None:
        raise RuntimeError("planted")

    before = _replaceable()
    with watched() as seen:
        job = seen.tracer.job
    monkeypatch.setattr(ProcessHooks, "_hook_clipping", fail)
    with pytest.raises(RuntimeError, match="planted"):
        attach_process(job)
    assert _replaceable() == before


def test_what_is_no_optimizer_is_refused_before_anything_is_hooked() -> None:
    model = nn.Linear(2, 2)
    with watched() as seen:
        job = seen.tracer.job
    with pytest.raises(TypeError, match="StepLR as an optimizer"):
        attach(job, [model, _schedule(model)])
    assert not model._forward_hooks


def _schedule(model: nn.Module) -> torch.optim.lr_scheduler.StepLR:
    return torch.optim.lr_scheduler.StepLR(torch.optim.SGD(model.parameters(), lr=0.1), 1)


def _replaceable() -> list[object]:
    optimizer = torch.optim.Optimizer
    return [
        torch.autograd.backward,
        torch.autograd.grad,
        optimizer.__init__,
        optimizer.zero_grad,
        nn.Module.__init__,
        nn.Module._call_impl,
        torch.nn.utils.clip_grad_norm_,
    ]
