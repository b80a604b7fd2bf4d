"""Labels that are out of the range of their one-hot rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")
optax = pytest.importorskip("optax")

import jax.numpy as jnp  # noqa: E402

from mothtrap.adapters.jax import ADAPTER  # noqa: E402
from mothtrap.core.facts.losses import LossCall  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

X = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)
Y = np.arange(12) % 4


@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("by_hand", [False, True])
def test_labels_that_start_at_1(offset: int, by_hand: bool) -> None:
    process = Process("jax")
    with process.watched(ADAPTER):

        @jax.jit
        def step(w: Any, x: Any, y: Any) -> Any:
            def loss_fn(w: Any) -> Any:
                logits, hot = x @ w, jax.nn.one_hot(y + offset, 4)
                if by_hand:
                    return -jnp.mean(jnp.sum(jax.nn.log_softmax(logits) * hot, axis=1))
                return optax.softmax_cross_entropy(logits, hot).mean()

            loss, grads = jax.value_and_grad(loss_fn)(w)
            return w - 0.1 * grads, loss

        w = jnp.ones((3, 4))
        for _ in range(4):
            w, _ = step(w, X, Y)
    calls = [one for one in process.facts() if isinstance(one, LossCall)]
    assert calls
    sums = {one.targets.row_sums if one.targets else None for one in calls}
    assert sums == ({(0.0, 1.0)} if offset else {None})
