"""Patterns that are found among the operations of a loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

from mothtrap.adapters.jax import internals  # noqa: E402
from mothtrap.adapters.jax.graph import Evaluation  # noqa: E402
from mothtrap.adapters.jax.patterns import Found, Made, Patterns  # noqa: E402
from mothtrap.adapters.jax.shadow import Collector  # noqa: E402


class Looker:
    """Passes operations on, as the collector of a shadow does."""

    def __init__(self) -> None:
        self.made = Made()
        self.patterns = Patterns(self.made)

    def operation(self, eqn: Any, caller: Any, values: Any, results: Any) -> None:
        if results:
            self.made.add(eqn, values, results[0])
            self.patterns.operation(eqn, caller, values, results[0])


def found(loss: Callable[..., Any], *arguments: Any) -> Found:
    """Return the patterns of a loss that is differentiated with respect to its first argument."""
    closed, looker = jax.make_jaxpr(loss)(*arguments), Looker()
    evaluation = Evaluation(looker, loops=False, keeps_derivatives=True)

    def traced(*values: Any) -> None:
        looker.patterns.differentiated(values[:1])
        [out] = evaluation.run(closed.jaxpr, closed.consts, values)
        looker.patterns.look_at_prediction(out)

    jax.make_jaxpr(traced)(*arguments)
    return looker.patterns.found


W, X = np.ones((3, 4), np.float32), np.ones((5, 3), np.float32)
R = np.ones(5, np.float32)


def q_loss(keep: Callable[[Any], Any]) -> Callable[..., Any]:
    def loss(w: Any, x: Any, reward: Any) -> Any:
        target = keep(reward + 0.9 * (x @ w).max(axis=1))
        return (((x @ w)[:, 0] - target) ** 2).mean()

    return loss


def test_a_target_with_a_gradient_is_found() -> None:
    seen = found(q_loss(lambda target: target), W, X, R)
    assert len(seen.trained_targets) == len(seen.bootstrapped) == 1


def test_a_target_without_a_gradient_is_only_bootstrapped() -> None:
    seen = found(q_loss(jax.lax.stop_gradient), W, X, R)
    assert not seen.trained_targets
    assert len(seen.bootstrapped) == 1


def test_a_plain_regression_has_no_bootstrapped_target() -> None:
    seen = found(lambda w, x, y: (((x @ w)[:, 0] - y) ** 2).mean(), W, X, R)
    assert not seen.trained_targets
    assert not seen.bootstrapped


@pytest.mark.parametrize("added", [True, False])
def test_a_mask_that_is_added_to_the_scores_is_found(added: bool) -> None:
    def loss(w: Any, x: Any) -> Any:
        states = (x @ w)[None]
        scores = states @ states.swapaxes(1, 2)
        mask = jnp.tril(jnp.ones((5, 5)))
        scores = scores + mask if added else jnp.where(mask == 1, scores, -1e9)
        return jax.nn.softmax(scores).sum()

    assert len(found(loss, W, X).masks) == added


@pytest.mark.parametrize("order", [0, 1, 2])
def test_the_divergence_of_a_code_from_its_prior_is_found(order: int) -> None:
    def loss(w: Any, x: Any) -> Any:
        mean, log_var = x @ w, x @ (2.0 * w)
        if order == 2:
            std = jnp.exp(log_var)
            return jnp.mean(-jnp.log(std**2) - 1.0 + std**2 + mean**2)
        if order:
            return 0.5 * (jnp.exp(log_var) + mean * mean - 1.0 - log_var).sum(axis=1).mean()
        return -0.5 * jnp.mean(jnp.sum(1.0 + log_var - mean**2 - jnp.exp(log_var), axis=1))

    assert len(found(loss, W, X).codes) == 1


def test_a_penalty_of_weights_is_no_code() -> None:
    assert not found(lambda w, x: (jnp.exp(x @ w) + w.sum() ** 2).sum(), W, X).codes


@pytest.mark.parametrize(("reshapes", "count"), [(True, 1), (False, 0)])
def test_a_reshape_that_exchanges_axes_is_found(reshapes: bool, count: int) -> None:
    def output(w: Any, x: Any) -> Any:
        y = jnp.tanh(x @ w)
        return y.reshape(4, 5) if reshapes else y.swapaxes(0, 1)

    assert len(found(output, W, X).mixed) == count


def test_tokens_labels_and_the_sight_of_an_attention_are_taken() -> None:
    words, labels = np.arange(10).reshape(2, 5) % 4, np.arange(10).reshape(2, 5) % 3
    seen: list[Patterns] = []

    def loss(w: Any, words: Any, labels: Any) -> Any:
        states = jnp.take(w.T, words, axis=0)
        states = jax.nn.softmax(states @ states.swapaxes(1, 2)) @ states
        assert states.shape == (2, 5, 3)
        logits = jax.nn.log_softmax(states)
        return -jnp.take_along_axis(logits, labels[..., None], axis=-1).mean()

    def traced(*values: Any) -> None:
        looker = Looker()
        looker.patterns.differentiated(values[:1])
        closed = jax.make_jaxpr(loss)(*values)
        evaluation = Evaluation(looker, loops=False, keeps_derivatives=True)
        evaluation.run(closed.jaxpr, closed.consts, values)
        seen.append(looker.patterns)

    jax.make_jaxpr(traced)(W, words, labels)
    [patterns] = seen
    assert [one.shape for one in patterns.sights] == [(5, 5)]
    assert [one.shape for one in patterns.tokens] == [(2, 5)]
    assert [one.shape for one in patterns.chosen] == [(2, 5)]
    assert patterns.found.chosen_from == [(2, 5, 3)]


@pytest.mark.parametrize("indexes", [True, False])
def test_labels_that_index_the_rows_are_taken(indexes: bool) -> None:
    """As in `logits[arange(rows), labels]`; weights may be indexed in two axes, too."""
    labels = np.arange(5) % 4
    seen: list[Patterns] = []

    def loss(w: Any, x: Any, labels: Any) -> Any:
        logits = jax.nn.log_softmax(x @ w) if indexes else x @ w[w.shape[0] - 1 - labels % 3]
        return -(logits[jnp.arange(5), labels] if indexes else w[labels % 3, labels]).mean()

    def traced(*values: Any) -> None:
        looker = Looker()
        looker.patterns.differentiated(values[:1])
        closed = jax.make_jaxpr(loss)(*values)
        Evaluation(looker, loops=False, keeps_derivatives=True).run(
            closed.jaxpr, closed.consts, values
        )
        seen.append(looker.patterns)

    jax.make_jaxpr(traced)(W, X if indexes else np.ones((5, 5), np.float32), labels)
    assert [one.shape for one in seen[0].chosen] == [(5,)] * indexes
    assert seen[0].found.chosen_from == [(5, 4)] * indexes


def test_the_name_of_a_function_with_its_own_derivative_is_known() -> None:
    closed = jax.make_jaxpr(lambda x: jnp.logaddexp(x, 0.0))(1.0)
    names = [
        internals.custom_name(eqn)
        for eqn in closed.jaxpr.eqns
        if eqn.primitive.name == "custom_jvp_call"
    ]
    assert names == ["logaddexp"]


def test_one_hot_labels_and_weights_of_positions_are_found() -> None:
    tokens = np.array([[1, 2, 0], [3, 0, 0]])
    x, hot = np.ones((2, 3, 3), np.float32), np.eye(4, dtype=np.float32)[tokens]

    def loss(w: Any, x: Any, hot: Any, counted: Any) -> Any:
        log_probability = jax.nn.log_softmax(x @ w)
        by_token = -jnp.sum(hot * log_probability, axis=-1)
        return jnp.sum(by_token * counted) / jnp.sum(counted)

    def where(w: Any, x: Any, hot: Any, counted: Any) -> Any:
        log_probability = jax.nn.log_softmax(x @ w)
        return jnp.sum(jnp.where(counted > 0, jnp.sum(-hot * log_probability, -1), 0.0))

    counted = (tokens > 0).astype(np.float32)
    for function in (loss, where):
        looker = collected(function, W, x, hot, counted)
        [labels], [mask] = looker.looks.chosen, looker.looks.counted
        assert np.array_equal(labels, tokens)
        assert np.array_equal(mask, tokens > 0)


def collected(loss: Callable[..., Any], *arguments: Any) -> Any:
    """Run a loss as a shadow does; return its collector, with the values."""
    closed, looker = jax.make_jaxpr(loss)(*arguments), Collector()
    values = [jnp.asarray(one) for one in arguments]
    looker.given(values[1:], values[:1])
    Evaluation(looker, loops=False, keeps_derivatives=True).run(closed.jaxpr, closed.consts, values)
    return looker


def test_labels_are_found_after_a_loop_over_positions() -> None:
    tokens = np.array([[1, 2, 0], [3, 0, 0]])
    x, hot = np.ones((2, 3, 3), np.float32), np.eye(4, dtype=np.float32)[tokens]

    def loss(w: Any, x: Any, hot: Any) -> Any:
        step = lambda state, row: (state + row, (state + row) @ w)  # noqa: E731
        _, logits = jax.lax.scan(step, jnp.zeros((2, 3)), x.swapaxes(0, 1))
        return -jnp.mean(jnp.sum(hot * jax.nn.log_softmax(logits.swapaxes(0, 1)), axis=-1))

    def of_last(w: Any, x: Any, hot: Any) -> Any:
        states = jax.lax.scan(lambda state, row: (state, row @ w), 0.0, x)[1]
        return loss(w, x, hot) + jnp.sum(states[jnp.arange(2), jnp.array([2, 0])])

    for function in (loss, of_last):
        [labels] = collected(function, W, x, hot).looks.chosen
        assert np.array_equal(labels, tokens)
