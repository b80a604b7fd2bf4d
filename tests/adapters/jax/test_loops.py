"""Loops of steps inside one compiled function."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

from mothtrap.adapters.jax import ADAPTER  # noqa: E402
from mothtrap.core.facts.captures import Blind  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

X = np.ones((6, 4, 3), np.float32)


def run(*, returns_losses: bool, broken: int | None = None) -> Process:
    """Make 6 steps in each of 2 calls; step `broken` of the second one has a NaN in its data."""

    def epoch(w: Any, x: Any) -> Any:
        def body(w: Any, row: Any) -> Any:
            value, grad = jax.value_and_grad(lambda w: ((row @ w) ** 2).mean())(w)
            return w - 0.01 * grad, value

        w, losses = jax.lax.scan(body, w, x)
        return (w, losses) if returns_losses else w

    process = Process("jax")
    with process.watched(ADAPTER):
        compiled, w = jax.jit(epoch), jnp.ones(3)
        for call in range(2):
            x = X.copy()
            if call and broken is not None:
                x[broken] = np.nan
            out = compiled(w, x)
            w = out[0] if returns_losses else out
    return process


def blind(process: Process) -> dict[str, str]:
    return {one.what: one.reason for one in process.facts() if isinstance(one, Blind)}


def test_each_loss_of_a_loop_is_a_step() -> None:
    process = run(returns_losses=True, broken=3)
    scalars = [one for record in process.records for one in record.scalars]
    losses = [one.value for one in scalars if one.name == "loss"]
    assert len(losses) == 12
    assert [step for step, loss in enumerate(losses) if not np.isfinite(loss)] == [9, 10, 11]
    assert "the steps inside epoch" not in blind(process)
    what = "gradients and activations after the first iteration"
    assert blind(process)[what] == "epoch computes gradients in a loop"


def test_a_loop_without_losses_is_one_step() -> None:
    process = run(returns_losses=False)
    assert [step for step, _ in process.steps()] == [0, 1]
    assert "each call counts as one step" in blind(process)["the steps inside epoch"]
