"""The policy `on_nonfinite` for compiled steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")
optax = pytest.importorskip("optax")

import jax.numpy as jnp  # noqa: E402

from mothtrap.adapters.jax import ADAPTER  # noqa: E402
from mothtrap.core.errors import NonFiniteStepError  # noqa: E402
from mothtrap.core.facts.captures import SettingIgnored, ToolError  # noqa: E402
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
    """Train a line with Adam; `leave_out` is the index of a batch to skip."""
    copies = bool(options.pop("copies", False))
    process = Process("jax", on_nonfinite=policy, guard_copies=copies)
    optimizer, out = optax.adam(1e-2), {}

    with process.watched(ADAPTER):

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
    with pytest.raises(SystemExit) as ended, process.watched(ADAPTER):
        losses_until_the_end()
    assert ended.value.code == 3
    fact = guarded(process)
    assert (fact.step, fact.action, fact.fault) == (BAD, "stopped", "loss")
    assert [step for step, _ in process.steps()] == list(range(BAD + 1))


def test_raise_tells_the_step_and_the_line() -> None:
    process = Process("jax", on_nonfinite="raise")
    with process.watched(ADAPTER), pytest.raises(NonFiniteStepError) as raised:
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
    [ignored] = [fact for fact in process.facts() if isinstance(fact, SettingIgnored)]
    assert (ignored.step, ignored.setting) == (0, "on_nonfinite = skip")
    assert "guard_copies" in ignored.reason
    assert sum("guard_copies" in line for line in process.said) == 1


def loop(process: Process, spoil: Any, *, layers: int = 9) -> Any:
    """Train `layers` vectors for nine steps; `spoil` scales the gradients of each step."""
    with process.watched(ADAPTER):

        @jax.jit
        def update(weights: Any, x: Any, factor: Any) -> Any:
            def loss_of(weights: Any) -> Any:
                sound = sum(((x @ w - 1) ** 2).mean() for w in weights.values())
                # Adds nothing to the loss, and `factor` times the weight to each gradient.
                extra = sum(
                    (factor * (w - jax.lax.stop_gradient(w))).sum() for w in weights.values()
                )
                return sound + extra

            loss, gradients = jax.value_and_grad(loss_of)(weights)
            return jax.tree.map(lambda w, g: w - 0.001 * g, weights, gradients), loss

        weights = {f"w{place}": jnp.full(4, 0.5) for place in range(layers)}
        x = 1 + np.random.default_rng(0).random((8, 4)).astype(np.float32)
        for step in range(STEPS):
            weights, _ = update(weights, x, np.float32(spoil(step)))
    return weights


def facts_of(process: Process) -> list[StepGuarded]:
    assert not [fact for fact in process.facts() if isinstance(fact, ToolError)], process.said
    return [fact for fact in process.facts() if isinstance(fact, StepGuarded)]


def test_all_bad_gradients_are_counted_and_four_are_named() -> None:
    process = Process("jax", on_nonfinite="skip")
    weights = loop(process, lambda step: np.nan if step == 2 else 0.0, layers=11)
    [fact] = facts_of(process)
    assert (fact.fault, fact.concerned) == ("loss", 11)
    assert fact.parameters == ("w9", "w8", "w7", "w6"), "the last of the tree first"
    assert all(np.isfinite(w).all() for w in weights.values())


def test_a_gradient_norm_above_the_bound_is_left_out_at_any_step() -> None:
    large = {4, 5, 8}
    process = Process("jax", on_nonfinite="skip", max_gradient_norm=100.0)
    weights = loop(process, lambda step: 1e3 if step in large else 0.0)
    assert [(fact.step, fact.fault, fact.action) for fact in facts_of(process)] == [
        (step, "norm", "skipped") for step in sorted(large)
    ]
    assert all(float(abs(w).max()) < 2 for w in weights.values())
    assert "max_gradient_norm = 100" in facts_of(process)[0].reason


def test_a_bound_is_held_in_steps_that_are_not_looked_at_in_full() -> None:
    process = Process("jax", overhead=0.02, on_nonfinite="skip", max_gradient_norm=100.0)
    loop(process, lambda step: 1e3 if step in range(2, 9, 2) else 0.0)
    assert [fact.step for fact in facts_of(process)] == [2, 4, 6, 8]


def test_a_large_norm_is_reported_where_steps_are_applied() -> None:
    process = Process("jax", max_gradient_norm=100.0)
    loop(process, lambda step: 1e3 if step == 3 else 0.0)
    [fact] = facts_of(process)
    assert (fact.step, fact.action, fact.fault) == (3, "reported", "norm")


def test_one_line_is_printed_for_each_of_the_first_three_onsets() -> None:
    process = Process("jax", on_nonfinite="skip")
    loop(process, lambda step: np.nan if step in (0, 1, 3, 5, 6, 8) else 0.0)
    lines = [line for line in process.said if "was not applied" in line]
    assert [line.split()[2] for line in lines] == ["0", "3", "5"]
    assert "the verdict counts further steps" in lines[-1]
    assert len(facts_of(process)) == 6


def test_a_first_step_whose_state_holds_a_plain_number_is_left_out_too() -> None:
    process = Process("jax", on_nonfinite="skip")
    with process.watched(ADAPTER):

        @jax.jit
        def update(state: Any, x: Any) -> Any:
            loss, grad = jax.value_and_grad(lambda w: ((x @ w - 1) ** 2).mean())(state["w"])
            return {"w": state["w"] - 0.01 * grad, "step": state["step"] + 1}, loss

        state: Any = {"w": jnp.full(4, 0.5), "step": 0}
        for x in (np.full((8, 4), np.inf, np.float32), np.ones((8, 4), np.float32)):
            state, _ = update(state, x)
    assert [(fact.step, fact.action) for fact in facts_of(process)] == [(0, "skipped")]
    assert int(state["step"]) == 1
    assert np.isfinite(state["w"]).all()
    assert not [fact for fact in process.facts() if isinstance(fact, SettingIgnored)]


def test_gradients_that_the_script_applies_are_judged_and_skip_is_refused() -> None:
    process = Process("jax", on_nonfinite="skip")
    with process.watched(ADAPTER):
        gradient = jax.jit(jax.grad(lambda w, x: ((x @ w - 1) ** 2).mean()))
        w = jnp.full(4, 0.5)
        for x in batches():
            w = w - 0.01 * gradient(w, x)
    ignored = [fact for fact in process.facts() if isinstance(fact, SettingIgnored)]
    assert [fact.step for fact in ignored] == [0]
    assert "applies the gradients itself" in ignored[0].reason
    assert facts_of(process)[0].action == "reported"


def test_gradients_outside_of_compiled_functions_are_said_not_to_be_guarded() -> None:
    process = Process("jax", on_nonfinite="stop", max_gradient_norm=1.0, replay_at_end=True)
    with process.watched(ADAPTER):
        w = jnp.full(4, 0.5)
        for x in batches():
            w = w - 0.01 * jax.grad(lambda w, x=x: ((x @ w - 1) ** 2).mean())(w)
    ignored = [fact for fact in process.facts() if isinstance(fact, SettingIgnored)]
    settings = ["max_gradient_norm = 1", "on_nonfinite = stop", "--replay"]
    assert [fact.setting for fact in ignored] == settings
    assert {fact.step for fact in ignored} == {0}
