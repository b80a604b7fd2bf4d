"""Terms of losses in the graphs of programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from mothtrap.adapters.tensorflow.loss_terms import GraphOperations  # noqa: E402
from mothtrap.tracing.describe.loss_terms import LossTerms  # noqa: E402

X = np.random.default_rng(0).normal(size=(8, 6)).astype("float32")
WEIGHTS = tf.Variable(tf.random.normal((6, 4)))
OTHERS = tf.Variable(tf.random.normal((6, 1)))


def read(loss_of: Callable[[Any], Any], ask: Callable[[LossTerms], Any]) -> Any:
    """Return what the terms of a loss are, while its program is traced."""
    found = []

    @tf.function(reduce_retracing=True)
    def program(x: Any) -> Any:
        loss = loss_of(x)
        found.append(ask(LossTerms(GraphOperations(), loss)))
        return loss

    program(tf.constant(X))
    return found[0]


def coded(noise: Callable[[Any], Any], weight: float = 1.0) -> Callable[[Any], Any]:
    def loss_of(x: Any) -> Any:
        mean, log_var = tf.split(x @ WEIGHTS, 2, axis=1)
        z = mean + noise(log_var) * tf.random.normal(tf.shape(mean))
        error = tf.reduce_mean(tf.square(x - tf.reduce_sum(z, axis=1, keepdims=True)))
        kl = -0.5 * tf.reduce_sum(1 + log_var - tf.square(mean) - tf.exp(log_var), axis=1)
        return error + weight * tf.reduce_mean(kl)

    return loss_of


def has_code(terms: LossTerms) -> bool:
    return terms.code() is not None


def factor(terms: LossTerms) -> str | None:
    code = terms.code()
    assert code is not None
    return terms.noise_of(code)


@pytest.mark.parametrize("weight", [1.0, 100.0])
def test_a_divergence_has_a_code(weight: float) -> None:
    assert read(coded(lambda v: tf.exp(0.5 * v), weight), has_code)


def test_the_density_of_a_sample_has_a_code() -> None:
    def loss_of(x: Any) -> Any:
        mean, log_var = tf.split(x @ WEIGHTS, 2, axis=1)
        z = tf.random.normal(tf.shape(mean)) * tf.exp(log_var * 0.5) + mean
        density = -0.5 * ((z - mean) ** 2.0 * tf.exp(-log_var) + log_var + 1.8)
        return tf.reduce_mean(tf.reduce_sum(density, axis=1) - tf.reduce_sum(z**2.0, axis=1))

    assert read(loss_of, has_code)


def test_the_likelihood_of_a_normal_target_has_none() -> None:
    def loss_of(x: Any) -> Any:
        mean, log_var = tf.split(x @ WEIGHTS, 2, axis=1)
        return tf.reduce_mean((x[:, :2] - mean) ** 2.0 * tf.exp(-log_var) + log_var)

    assert not read(loss_of, has_code)


def test_the_factor_of_the_noise_is_found() -> None:
    assert read(coded(lambda v: tf.exp(0.5 * v)), factor) is None
    assert read(coded(tf.exp), factor) == "variance"
    assert read(coded(lambda v: v), factor) == "log variance"


def policy(sign: float) -> Callable[[Any], Any]:
    def loss_of(x: Any) -> Any:
        probability = tf.nn.softmax(x @ WEIGHTS)
        chosen = tf.gather(probability, tf.zeros(8, tf.int32), axis=1, batch_dims=1)
        entropy = -tf.reduce_sum(probability * tf.math.log(probability), axis=1)
        gain = tf.math.log(chosen) * (x[:, 0] - tf.reduce_sum(x @ OTHERS, axis=1))
        return sign * tf.reduce_sum(gain) - 0.01 * tf.reduce_mean(entropy)

    return loss_of


def compared(sign: float) -> Callable[[Any], Any]:
    def loss_of(x: Any) -> Any:
        error = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=tf.zeros(8, tf.int32), logits=x @ WEIGHTS
        )
        return sign * tf.reduce_mean(error * x[:, 0])

    return loss_of


def clipped(sign: float) -> Callable[[Any], Any]:
    def loss_of(x: Any) -> Any:
        chosen = tf.reduce_sum(
            tf.nn.log_softmax(x @ WEIGHTS) * tf.one_hot(tf.zeros(8, tf.int32), 4), 1
        )
        ratio = tf.exp(chosen - x[:, 1])
        gain = tf.minimum(ratio * x[:, 0], tf.clip_by_value(ratio, 0.8, 1.2) * x[:, 0])
        return sign * tf.reduce_mean(gain)

    return loss_of


@pytest.mark.parametrize(("made", "sign"), [(policy, 1), (compared, -1), (clipped, 1)])
def test_the_sign_of_a_policy_is_read(made: Callable[[float], Any], sign: int) -> None:
    assert read(made(sign), LossTerms.policy_signs) == {False}
    assert read(made(-sign), LossTerms.policy_signs) == {True}


def test_other_losses_have_no_policy() -> None:
    def entropy_of(x: Any) -> Any:
        error = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=tf.zeros(8, tf.int32), logits=x @ WEIGHTS
        )
        return 3.0 * tf.reduce_mean(error)

    assert read(entropy_of, LossTerms.policy_signs) == set()
    assert read(coded(tf.exp), LossTerms.policy_signs) == set()


def test_the_sign_of_a_value_is_read() -> None:
    def value_of(sign: float) -> Callable[[Any], Any]:
        return lambda x: sign * tf.reduce_mean(tf.tanh(x @ WEIGHTS) @ OTHERS[:4] + 1.0)

    def ask(terms: LossTerms) -> Any:
        return terms.value_signs(lambda _: True), terms.value_signs(lambda _: False)

    assert read(value_of(1.0), ask) == ({False}, set())
    assert read(value_of(-1.0), ask) == ({True}, set())
