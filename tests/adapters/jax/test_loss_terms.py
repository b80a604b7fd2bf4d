"""Terms of losses in JAX: policies, codes, and scores that are no log probabilities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
import optax  # noqa: E402

from mothtrap.adapters.jax import ADAPTER  # noqa: E402
from mothtrap.core.fact import Fact  # noqa: E402
from mothtrap.core.facts.loss_terms import CodeNoise  # noqa: E402
from mothtrap.core.facts.losses import LossCall  # noqa: E402
from mothtrap.core.facts.policies import PolicyLoss  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402
from mothtrap.tracing.source import mentions  # noqa: E402

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read no other test that was imported, which may subtract rewards."""
    monkeypatch.setattr(mentions, "loaded_files", tuple)


LOSS = Callable[[Any, Any, Any], Any]


def returns(rewards: list[float], gamma: float = 0.9) -> list[float]:
    total, found = 0.0, []
    for reward in reversed(rewards):
        total = reward + gamma * total
        found.append(total)
    return found[::-1]


def facts(loss_of: LOSS, kind: type[Fact], steps: int = 8) -> list[Any]:
    """Return the facts of one kind about a training run with a loss of weights, x, and key."""

    def update(params: Any, x: Any, key: Any) -> Any:
        loss, grads = jax.value_and_grad(loss_of)(params, x, key)
        updates = optax.tree.scale(-0.01, grads)
        return optax.apply_updates(params, updates), loss

    process, gains = Process("jax"), returns([1.0] * 8)
    assert gains
    with process.watched(ADAPTER):
        compiled = jax.jit(update)
        params: Any = {
            "in": jnp.asarray(RNG.normal(size=(6, 4)), jnp.float32),
            "out": jnp.asarray(RNG.normal(size=(4, 4)), jnp.float32),
        }
        for step in range(steps):
            x = RNG.normal(size=(16, 6)).astype(np.float32)
            params, _ = compiled(params, x, jax.random.PRNGKey(step))
    return [one for one in process.facts() if isinstance(one, kind)]


ACTIONS = jnp.arange(16) % 4


def outputs(params: Any, x: Any) -> Any:
    return jnp.tanh(x @ params["in"]) @ params["out"]


def gained(sign: float) -> LOSS:
    def loss_of(params: Any, x: Any, _: Any) -> Any:
        chosen = jax.nn.log_softmax(outputs(params, x))[jnp.arange(16), ACTIONS]
        return sign * jnp.mean(chosen * x[:, 0])

    return loss_of


def compared(sign: float) -> LOSS:
    def loss_of(params: Any, x: Any, _: Any) -> Any:
        error = optax.softmax_cross_entropy_with_integer_labels(outputs(params, x), ACTIONS)
        return -sign * jnp.mean(error * x[:, 0])

    return loss_of


def clipped(sign: float) -> LOSS:
    def loss_of(params: Any, x: Any, _: Any) -> Any:
        log_prob = jax.nn.log_softmax(outputs(params, x))
        chosen = jnp.take_along_axis(log_prob, ACTIONS[:, None], axis=1).squeeze(1)
        ratio = jnp.exp(chosen - x[:, 1])
        gain = jnp.minimum(ratio * x[:, 0], jnp.clip(ratio, 0.8, 1.2) * x[:, 0])
        entropy = -jnp.sum(jnp.exp(log_prob) * log_prob, axis=1)
        return sign * jnp.mean(gain) - 0.01 * jnp.mean(entropy)

    return loss_of


CRITIC = jnp.asarray(RNG.normal(size=(4, 1)), jnp.float32)


def valued(sign: float) -> LOSS:
    def loss_of(params: Any, x: Any, _: Any) -> Any:
        return sign * (jnp.tanh(outputs(params, x)) @ CRITIC + 0.5).mean()

    return loss_of


@pytest.mark.parametrize("made", [gained, compared, clipped, valued])
def test_the_sign_of_a_policy_is_told(made: Callable[[float], LOSS]) -> None:
    added = facts(made(1.0), PolicyLoss)
    assert [(one.looks, one.added, one.by_value) for one in added] == [(4, 4, made is valued)]
    assert "test_loss_terms.py" in (added[0].location or "")
    assert [one.added for one in facts(made(-1.0), PolicyLoss)] == [0]


def test_a_class_loss_is_no_policy() -> None:
    def loss_of(params: Any, x: Any, _: Any) -> Any:
        error = optax.softmax_cross_entropy_with_integer_labels(outputs(params, x), ACTIONS)
        return 2.0 * error.mean()

    assert facts(loss_of, PolicyLoss) == []


def coded(deviation: Callable[[Any], Any]) -> LOSS:
    def loss_of(params: Any, x: Any, key: Any) -> Any:
        mean, log_var = jnp.split(x @ params["in"], 2, axis=1)
        z = mean + jax.random.normal(key, mean.shape) * deviation(log_var)
        kl = -0.5 * jnp.sum(1 + log_var - jnp.square(mean) - jnp.exp(log_var), axis=1)
        return jnp.mean((z @ params["out"][:2] - x[:, :4]) ** 2) + 0.1 * kl.mean()

    return loss_of


def test_the_factor_of_the_noise_is_told() -> None:
    found = facts(coded(jnp.exp), CodeNoise)
    assert [(one.looks, one.factor) for one in found] == [(4, "variance")]
    assert facts(coded(lambda v: jnp.exp(0.5 * v)), CodeNoise) == []


def labelled(activation: Callable[[Any], Any], *, one_hot: bool) -> LOSS:
    def loss_of(params: Any, x: Any, _: Any) -> Any:
        found = activation(outputs(params, x))
        if one_hot:
            return -jnp.mean(jnp.sum(found * jax.nn.one_hot(ACTIONS, 4), axis=1))
        return -jnp.mean(jnp.take_along_axis(found, ACTIONS[:, None], axis=1))

    return loss_of


@pytest.mark.parametrize("one_hot", [True, False])
def test_scores_without_a_log_softmax_are_told(one_hot: bool) -> None:
    found = facts(labelled(lambda z: z, one_hot=one_hot), LossCall)
    assert {(one.operation, one.chain, one.classes) for one in found} == {("nll", ("linear",), 4)}
    healthy = facts(labelled(jax.nn.log_softmax, one_hot=one_hot), LossCall)
    assert {one.operation for one in healthy} <= {"cross_entropy"}


def test_probabilities_without_a_logarithm_are_told() -> None:
    found = facts(labelled(jax.nn.softmax, one_hot=False), LossCall)
    assert {(one.operation, one.chain) for one in found} == {("nll", ("softmax",))}


def test_a_mean_of_outputs_has_no_labels() -> None:
    def loss_of(params: Any, x: Any, _: Any) -> Any:
        return -jnp.mean(outputs(params, x)[:, 0] * x[:, 0])

    assert facts(loss_of, LossCall) == []
