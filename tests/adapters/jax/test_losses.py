"""Targets of losses, read from the shadow of a step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

from mothtrap.adapters.jax import ADAPTER  # noqa: E402
from mothtrap.core.facts.layers import OutputSpread  # noqa: E402
from mothtrap.core.facts.losses import LossCall  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

RNG = np.random.default_rng(0)
END, WORDS, LENGTH = 1, 9, 12


def trained(loss_of: Any, params: Any, batches: Any) -> Process:
    """Train with gradient descent."""

    def update(params: Any, batch: Any) -> Any:
        loss, grads = jax.value_and_grad(loss_of)(params, batch)
        return jax.tree.map(lambda w, g: w - 0.01 * g, params, grads), loss

    process = Process("jax")
    with process.watched(ADAPTER):
        step = jax.jit(update)
        for batch in batches:
            params, _ = step(params, batch)
    return process


def calls(process: Process) -> list[LossCall]:
    return [one for one in process.facts() if isinstance(one, LossCall)]


def sentences() -> np.ndarray:
    """Return sequences of 3 to 10 words with an end, padded with 0."""
    tokens_RL = np.zeros((16, LENGTH), np.int32)
    for row in tokens_RL:
        length = RNG.integers(3, 11)
        row[:length], row[length] = RNG.integers(2, WORDS, length), END
    return tokens_RL


@pytest.mark.parametrize("hot", [True, False])
@pytest.mark.parametrize("ends", [True, False])
def test_ends_that_a_mask_hides_are_described(ends: bool, hot: bool) -> None:
    def loss_of(params: Any, tokens: Any) -> Any:
        given, labels = tokens[:, :-1], tokens[:, 1:]
        log_RLV = jax.nn.log_softmax(params["in"][given] @ params["out"])
        if hot:
            by_token = -jnp.sum(jax.nn.one_hot(labels, WORDS) * log_RLV, axis=-1)
        else:
            by_token = -jnp.take_along_axis(log_RLV, labels[..., None], axis=-1)[..., 0]
        counted = labels > (0 if ends else END)
        return jnp.sum(by_token * counted) / jnp.sum(counted)

    params = {
        "in": jnp.asarray(RNG.normal(size=(WORDS, 6)), jnp.float32),
        "out": jnp.asarray(RNG.normal(size=(6, WORDS)), jnp.float32),
    }
    found = calls(trained(loss_of, params, [sentences() for _ in range(4)]))
    seen = [one.targets.endings for one in found if one.targets is not None]
    assert len(seen) == len(found) == 4
    for rows, last, last_rows, after, after_rows in filter(None, seen):
        assert after_rows == rows > 8
        if ends:
            assert (last, last_rows, after) == (END, rows, 0)
        else:
            assert last_rows < rows / 2
            assert after == END
    assert any(seen)


@pytest.mark.parametrize("later", [0, 12])
def test_a_window_that_contains_the_target_is_described(later: int) -> None:
    series = np.cumsum(RNG.normal(size=(400, 3)), axis=0).astype(np.float32)

    def batch() -> Any:
        begin_R = RNG.integers(0, 380, 64)
        x = np.stack([series[i : i + 12] for i in begin_R])
        return x, series[begin_R + later, :1] * 3 + 2

    def loss_of(params: Any, batch: Any) -> Any:
        x, y = batch
        return jnp.mean((x.reshape(len(x), -1) @ params["w"] - y) ** 2)

    found = calls(trained(loss_of, {"w": jnp.zeros((36, 1))}, [batch() for _ in range(3)]))
    seen = {one.targets.telling_columns for one in found if one.targets is not None}
    assert seen == {() if later else (0,)}


def test_the_spread_of_a_reconstruction_is_compared_with_its_input() -> None:
    """The logits of a binary loss are compared as probabilities."""

    def loss_of(params: Any, x: Any) -> Any:
        mean, log_var = x @ params["mean"], x @ params["var"]
        logits = (mean + jnp.exp(0.5 * log_var)) @ params["out"]
        errors = jax.nn.softplus(logits) - logits * x
        kl = -0.5 * jnp.mean(1 + log_var - mean**2 - jnp.exp(log_var))
        return jnp.mean(errors) + kl

    params = {
        name: jnp.asarray(0.1 * RNG.normal(size=size), jnp.float32)
        for name, size in (("mean", (20, 4)), ("var", (20, 4)), ("out", (4, 20)))
    }
    batches = [(RNG.random((32, 20)) < 0.5).astype(np.float32) for _ in range(3)]
    process = trained(loss_of, params, batches)
    spreads = [one for one in process.facts() if isinstance(one, OutputSpread)]
    by_place = {one.place: one for one in spreads}
    assert set(by_place) >= {"mean", "log variance", "prediction"}
    assert by_place["prediction"].input_spread == pytest.approx(0.5, abs=0.05)
    assert by_place["prediction"].rms < 1
    assert by_place["mean"].input_spread is None
