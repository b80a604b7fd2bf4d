"""Terms of losses in Keras programs: codes of autoencoders, and signs of policies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow", exc_type=ImportError)
keras = pytest.importorskip("keras")

from mothtrap.adapters.keras import ADAPTER  # noqa: E402
from mothtrap.adapters.tensorflow import ADAPTER as BASE  # noqa: E402
from mothtrap.core.fact import Fact  # noqa: E402
from mothtrap.core.facts.layers import OutputSpread  # noqa: E402
from mothtrap.core.facts.loss_terms import CodeNoise  # noqa: E402
from mothtrap.core.facts.losses import LossCall  # noqa: E402
from mothtrap.core.facts.policies import PolicyLoss  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402
from mothtrap.tracing.source import mentions  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

X = np.random.default_rng(0).normal(size=(192, 6)).astype("float32")


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read no other test that was imported, which may subtract rewards."""
    monkeypatch.setattr(mentions, "loaded_files", tuple)


class Autoencoder(keras.Model):  # type: ignore[misc,unused-ignore]
    """A variational autoencoder whose noise is multiplied by `exp(factor * log_var)`."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.encoder = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4)])
        self.decoder = keras.Sequential([keras.Input((2,)), keras.layers.Dense(6)])
        self.factor = factor

    def train_step(self, data: Any) -> dict[str, Any]:
        with tf.GradientTape() as tape:
            mean, log_var = tf.split(self.encoder(data), 2, axis=1)
            noise = tf.random.normal(tf.shape(mean))
            found = self.decoder(mean + tf.exp(self.factor * log_var) * noise)
            error = tf.reduce_mean(tf.reduce_sum(tf.square(data - found), axis=1))
            kl = -0.5 * (1 + log_var - tf.square(mean) - tf.exp(log_var))
            loss = error + 0.1 * tf.reduce_mean(tf.reduce_sum(kl, axis=1))
        weights = self.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return {"loss": loss}


def watched(train: Any) -> list[Fact]:
    keras.utils.set_random_seed(0)
    process = Process("numpy")
    with process.watched(BASE), process.watched(ADAPTER):
        train()
    return process.facts()


def autoencoded(factor: float) -> list[Fact]:
    def train() -> None:
        model = Autoencoder(factor)
        model.compile(keras.optimizers.Adam(1e-3))
        model.fit(X, batch_size=16, verbose=0, epochs=2)

    return watched(train)


def test_the_code_and_the_reconstruction_are_reported() -> None:
    facts = [one for one in autoencoded(0.5) if isinstance(one, OutputSpread)]
    seen = [one for one in facts if one.root == "the model"]
    assert {one.place: one.shape for one in seen} == {
        "mean": (16, 2),
        "log variance": (16, 2),
        "reconstruction": (16, 6),
    }
    assert all(one.inputs_differ for one in seen)
    assert all((one.input_spread or 0) > 0.5 for one in seen if one.place == "reconstruction")
    assert "test_loss_terms.py" in (seen[0].location or "")


@pytest.mark.parametrize(("factor", "told"), [(0.5, []), (1.0, ["variance"])])
def test_the_factor_of_the_noise_is_reported(factor: float, told: list[str]) -> None:
    found = [one for one in autoencoded(factor) if isinstance(one, CodeNoise)]
    assert sorted({one.factor for one in found}) == told


def returns(rewards: np.ndarray, gamma: float = 0.9) -> np.ndarray:
    total, found = 0.0, []
    for reward in rewards[::-1]:
        total = reward + gamma * total
        found.append(total)
    return np.array(found[::-1], "float32")


def network(outputs: int) -> keras.Model:
    layers = [keras.layers.Dense(8, activation="relu"), keras.layers.Dense(outputs)]
    return keras.Sequential([keras.Input((6,)), *layers])


def trained(sign: float, *, traced: bool = True) -> list[Fact]:
    """Train an actor by its log probabilities."""

    def train() -> None:
        actor, optimizer = network(2), keras.optimizers.Adam(1e-3)

        def step(states: Any, actions: Any, gains: Any) -> None:
            with tf.GradientTape() as tape:
                found = tf.nn.softmax(actor(states))
                chosen = tf.gather(found, actions, axis=1, batch_dims=1)
                loss = tf.reduce_mean(tf.math.log(chosen) * gains)
                loss = -loss if sign < 0 else loss
            weights = actor.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))

        act = tf.function(step) if traced else step
        for _ in range(6):
            act(X[:16], np.arange(16) % 2, returns(X[:16, 0]))

    return watched(train)


def steered(sign: float) -> list[Fact]:
    """Train an actor by the values of a critic, which has an optimizer of its own."""

    def train() -> None:
        actor, critic = network(6), network(1)
        ours, theirs = keras.optimizers.Adam(1e-3), keras.optimizers.Adam(1e-3)

        @tf.function
        def step(states: Any, gains: Any) -> None:
            with tf.GradientTape() as tape:
                error = tf.reduce_mean(tf.square(gains[:, None] - critic(states)))
            own = critic.trainable_variables
            theirs.apply_gradients(zip(tape.gradient(error, own), own, strict=True))
            with tf.GradientTape() as tape:
                loss = sign * tf.reduce_mean(critic(actor(states)))
            weights = actor.trainable_variables
            ours.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))

        for _ in range(6):
            step(X[:16], returns(X[:16, 0]))

    return watched(train)


@pytest.mark.parametrize(("train", "by_value"), [(trained, False), (steered, True)])
def test_the_sign_of_a_policy_is_reported(train: Any, by_value: bool) -> None:
    found = [one for one in train(1.0) if isinstance(one, PolicyLoss)]
    assert [(one.looks, one.added, one.by_value) for one in found] == [(4, 4, by_value)]
    found = [one for one in train(-1.0) if isinstance(one, PolicyLoss)]
    assert [(one.looks, one.added) for one in found] == [(4, 0)]


@pytest.mark.parametrize(("sign", "added"), [(1.0, 4), (-1.0, 0)])
def test_the_sign_of_a_policy_is_reported_in_eager_loops(sign: float, added: int) -> None:
    found = [one for one in trained(sign, traced=False) if isinstance(one, PolicyLoss)]
    assert [(one.looks, one.added, one.by_value) for one in found] == [(4, added, False)]


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_factor_of_an_eager_loss_may_be_a_reward(sign: float) -> None:
    """A single number that multiplies a log probability has an unknown sign."""

    def train() -> None:
        actor, optimizer = network(2), keras.optimizers.Adam(1e-3)
        for _ in range(6):
            with tf.GradientTape() as tape:
                loss = sign * tf.nn.log_softmax(actor(X[:1]))[0, 1]
            weights = actor.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))

    assert not [one for one in watched(train) if isinstance(one, LossCall | PolicyLoss)]
