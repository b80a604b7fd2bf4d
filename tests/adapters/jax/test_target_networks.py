"""Digests of the networks from which a step computes its targets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

from mothtrap.adapters.jax import ADAPTER  # noqa: E402
from mothtrap.core.facts.evaluations import EvaluatedCopy  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

RNG = np.random.default_rng(0)


def values(params: Any, x: Any) -> Any:
    return jnp.tanh(x @ params["in"]) @ params["out"]


def seen(*, copies: bool, bootstraps: bool = True, steps: int = 12) -> list[EvaluatedCopy]:
    def update(params: Any, momentum: Any, target: Any, x: Any, reward: Any, after: Any) -> Any:
        def loss_of(params: Any) -> Any:
            later = jax.lax.stop_gradient(values(target, after)).max(axis=1)
            goal = reward + 0.9 * later if bootstraps else reward
            return jnp.mean((values(params, x)[:, 0] - goal) ** 2)

        loss, grads = jax.value_and_grad(loss_of)(params)
        momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum["trace"], grads)
        params = jax.tree.map(lambda w, m: w - 0.1 * m, params, momentum)
        return params, {"trace": momentum}, loss

    process = Process("jax")
    with process.watched(ADAPTER):
        params: Any = {
            "in": jnp.asarray(RNG.normal(size=(4, 8)), jnp.float32),
            "out": jnp.asarray(RNG.normal(size=(8, 2)), jnp.float32),
        }
        momentum: Any = {"trace": jax.tree.map(jnp.zeros_like, params)}
        target, step = params, jax.jit(update)
        for _ in range(steps):
            x, after = (RNG.normal(size=(16, 4)).astype(np.float32) for _ in range(2))
            reward = RNG.normal(size=16).astype(np.float32)
            params, momentum, _ = step(params, momentum, {**target}, x, reward, after)
            if copies:
                target = params
    return [one for one in process.facts() if isinstance(one, EvaluatedCopy)]


def test_a_target_network_that_is_never_updated_has_one_digest() -> None:
    found = seen(copies=False)
    assert len(found) > 4
    assert len({one.digest for one in found}) == 1
    assert found[-1].apart == len(found) - 1
    assert found[0].location is not None


def test_a_target_network_that_is_updated_has_many_digests() -> None:
    found = seen(copies=True)
    assert len({one.digest for one in found}) == len(found) > 4


def test_weights_that_make_no_targets_are_not_reported() -> None:
    assert seen(copies=False, bootstraps=False) == []
