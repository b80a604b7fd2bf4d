"""Losses that get the weights only through an operation without a slope."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

from mothtrap.adapters.jax import ADAPTER  # noqa: E402
from mothtrap.core.facts.modules import ZeroSlope  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

X = np.random.default_rng(0).normal(size=(32, 4)).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.float32)


def flat(loss: Callable[[Any, Any, Any], Any]) -> list[ZeroSlope]:
    """Return what is told about a training with this loss."""
    process = Process("jax")
    with process.watched(ADAPTER):

        @jax.jit
        def step(w: Any, x: Any, y: Any) -> Any:
            found, grad = jax.value_and_grad(loss)(w, x, y)
            return w - 0.1 * grad, found

        w = jnp.linspace(-1.0, 1.0, 8).reshape(4, 2)
        for _ in range(6):
            w, _ = step(w, X, Y)
    return [one for one in process.facts() if isinstance(one, ZeroSlope)]


def chosen(w: Any, x: Any, y: Any) -> Any:
    return ((jnp.argmax(x @ w, axis=1).astype(float) - y) ** 2).mean()  # the culprit


def compared(w: Any, x: Any, y: Any) -> Any:
    right = (x @ w)[:, 0] > 0  # the culprit
    return 1 - (right == (y > 0)).mean()


def rounded(w: Any, x: Any, y: Any) -> Any:
    score = jnp.round(jax.nn.sigmoid(x @ w))[:, 0]  # the culprit
    return ((score - y) ** 2).mean()


@pytest.mark.parametrize(
    ("loss", "words"), [(chosen, "`argmax`"), (compared, "a comparison"), (rounded, "`round`")]
)
def test_names_the_operation_and_its_line(loss: Callable[..., Any], words: str) -> None:
    one = flat(loss)[-1]
    assert (one.operation, one.looks, one.found) == (words, 4, 4)
    assert one.parameters == one.of == 8
    path, _, line = str(one.location).rpartition(":")
    assert linecache.getline(path, int(line)).strip().endswith("# the culprit")


def rounded_with_a_slope(w: Any, x: Any, y: Any) -> Any:
    score = jax.nn.sigmoid(x @ w)[:, 0]
    score = score + jax.lax.stop_gradient(jnp.round(score) - score)
    return ((score - y) ** 2).mean()


def masked(w: Any, x: Any, y: Any) -> Any:
    score = (x @ w)[:, 0]
    return jnp.where(score > 0, score, -score).mean() + y.mean()


def counted_too(w: Any, x: Any, y: Any) -> Any:
    return ((x @ w)[:, 0] - y).mean() ** 2 + 0.1 * chosen(w, x, y)


@pytest.mark.parametrize("loss", [rounded_with_a_slope, masked, counted_too])
def test_quiet_if_another_way_has_a_slope(loss: Callable[..., Any]) -> None:
    assert not flat(loss)
