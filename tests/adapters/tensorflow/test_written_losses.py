"""Losses that a script writes itself, with `tf.nn.log_softmax`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

tf = pytest.importorskip("tensorflow", exc_type=ImportError)
keras = pytest.importorskip("keras")

from tests.adapters.tensorflow.test_raw_losses import train  # noqa: E402

from mothtrap.core.facts.losses import LossCall  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def written(axis: int = -1, sign: float = -1.0, entropy: float = 0.0) -> Callable[..., Any]:
    def loss(logits: Any, y: Any) -> Any:
        log_RK = tf.nn.log_softmax(logits, axis=axis)
        value = tf.reduce_mean(tf.reduce_sum(tf.one_hot(y, 3) * log_RK, axis=-1))
        value = -value if sign < 0 else value
        if entropy:
            value += entropy * tf.reduce_mean(tf.reduce_sum(tf.exp(log_RK) * log_RK, axis=-1))
        return value

    return loss


def gained(logits: Any, y: Any) -> Any:
    """Return the loss of a policy: log probabilities times advantages."""
    log_R = tf.reduce_sum(tf.one_hot(y, 3) * tf.nn.log_softmax(logits), axis=-1)
    return tf.reduce_mean(log_R * (tf.cast(y, tf.float32) - 1.0))


def calls(process: Process) -> list[LossCall]:
    return [one for one in process.facts() if isinstance(one, LossCall)]


@pytest.mark.parametrize("traced", [True, False])
def test_a_softmax_over_the_rows_is_named(traced: bool) -> None:
    process = train(written(axis=0), traced=traced, by_hand=False)
    assert {one.softmax_sizes for one in calls(process)} == {(24,)}
    [named] = [one for one in process.findings() if one.code == "STR709"]
    assert "axis of size 24" in named.message
    assert named.location is not None
    assert "test_written_losses.py" in named.location
    healthy = train(written(), traced=traced, by_hand=False)
    assert all(one.softmax_sizes == (3,) for one in calls(healthy))
    assert "STR709" not in {one.code for one in healthy.findings()}


@pytest.mark.parametrize("traced", [True, False])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_a_loss_is_traced_to_its_operation(sign: float, traced: bool) -> None:
    found = calls(train(written(sign=sign), traced=traced, by_hand=False))
    assert {(one.operation, one.function, one.alone) for one in found} == {
        ("cross_entropy", "tf.nn.log_softmax", True)
    }
    assert all(one.series for one in found)


@pytest.mark.parametrize("traced", [True, False])
@pytest.mark.parametrize("loss", [written(entropy=0.1), gained])
def test_a_loss_with_other_terms_is_not_a_cross_entropy(
    loss: Callable[..., Any], traced: bool
) -> None:
    assert not calls(train(loss, traced=traced, by_hand=False))


def test_losses_over_both_axes_compare_pairs() -> None:
    def loss(logits: Any, y: Any) -> Any:
        hot = tf.one_hot(y, 3)
        both = tf.nn.log_softmax(logits, axis=0) + tf.nn.log_softmax(logits, axis=1)
        return -tf.reduce_mean(hot * both)

    for traced in (True, False):
        process = train(loss, traced=traced, by_hand=False)
        assert "STR709" not in {one.code for one in process.findings()}
