"""The policy `on_nonfinite` for compiled steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")
optax = pytest.importorskip("optax")

import jax.numpy as jnp  # noqa: E402

from mothtrap.adapters import jax as adapter  # noqa: E402
from mothtrap.core.errors import NonFiniteStepError  # noqa: E402
from mothtrap.core.facts.captures import Blind, ToolError  # noqa: E402
from mothtrap.core.facts.guards import StepGuarded  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

BAD, STEPS = 5, 9


def batches(*, healthy: bool = False) -> Any:
    for step in range(STEPS):
        x = 1 + np.random.default_rng(step).random((8, 4)).astype(np.float32)
        if step == BAD and not healthy:
            x[3, 2] = np.inf
        yield x


def train(policy: str, *, leave_out: int | None = None, **options: Any) -> tuple[Process, Any]:
    """Train a line with Adam; `leave_out` is a batch that is not given to it."""
    copies = bool(options.pop("copies", False))
    process = Process("jax", on_nonfinite=policy, guard_copies=copies)
    optimizer, out = optax.adam(1e-2), {}

    with process.watched(adapter):

        def update(w: Any, state: Any, x: Any) -> Any:
            loss, grad = jax.value_and_grad(lambda w: ((x @ w - 1) ** 2).mean())(w)
            change, state = optimizer.update(grad, state)
            return optax.apply_updates(w, change), state, loss

        step = jax.jit(update, **options)
        out["w"] = jnp.full(4, 0.5)
        state = optimizer.init(out["w"])
        for number, x in enumerate(batches()):
            if number != leave_out:
                out["w"], state, _ = step(out["w"], state, x)
    return process, np.asarray(out["w"])


def guarded(process: Process) -> StepGuarded:
    assert not [fact for fact in process.facts() if isinstance(fact, ToolError)], process.said
    return next(fact for fact in process.facts() if isinstance(fact, StepGuarded))


def test_stop_ends_the_training_at_the_step() -> None:
    process = Process("jax", on_nonfinite="stop")
    with pytest.raises(SystemExit) as ended, process.watched(adapter):
        losses_until_the_end()
    assert ended.value.code == 3
    fact = guarded(process)
    assert (fact.step, fact.action, fact.fault) == (BAD, "stopped", "loss")
    assert [step for step, _ in process.steps()] == list(range(BAD + 1))


def test_raise_tells_the_step_and_the_line() -> None:
    process = Process("jax", on_nonfinite="raise")
    with process.watched(adapter), pytest.raises(NonFiniteStepError) as raised:
        losses_until_the_end()
    assert (raised.value.step, guarded(process).action) == (BAD, "raised")
    assert "test_guard.py" in str(raised.value.location)


def losses_until_the_end() -> None:
    @jax.jit
    def update(w: Any, x: Any) -> Any:
        loss, grad = jax.value_and_grad(lambda w: ((x @ w - 1) ** 2).mean())(w)
        return w - 0.01 * grad, loss

    w = jnp.full(4, 0.5)
    for x in batches():
        w, _ = update(w, x)


def test_a_skipped_step_changes_nothing() -> None:
    process, w = train("skip")
    assert guarded(process).action == "skipped"
    _, expected = train("report", leave_out=BAD)
    assert w.tobytes() == expected.tobytes()


def test_what_was_given_away_is_kept_where_asked_for() -> None:
    process, w = train("skip", donate_argnums=(0, 1), copies=True)
    assert guarded(process).action == "skipped"
    _, expected = train("report", leave_out=BAD)
    assert w.tobytes() == expected.tobytes()


def test_a_step_without_its_old_weights_is_applied_and_told() -> None:
    process, w = train("skip", donate_argnums=(0, 1))
    assert guarded(process).action == "reported"
    assert np.isnan(w).any()
    said = [fact.reason for fact in process.facts() if isinstance(fact, Blind)]
    assert any("guard_copies" in reason for reason in said)
