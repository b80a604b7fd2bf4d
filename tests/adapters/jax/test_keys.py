"""Random keys in a program: keys that are used twice, and keys that never change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

from mothtrap.adapters.jax import ADAPTER  # noqa: E402
from mothtrap.adapters.jax.keys import draws_of  # noqa: E402
from mothtrap.core.facts.compiling import KeyReused  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

KEY = jax.random.key(0)
X = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)


def draws(function: Any, *arguments: Any) -> Any:
    return draws_of(jax.make_jaxpr(function)(KEY, *arguments))


def test_two_draws_from_one_key() -> None:
    def twice(key: Any) -> Any:
        return jax.random.normal(key, (3,)) + jax.random.uniform(key, (3,))

    [lines] = draws(twice).twice()
    assert len(lines) == 2


def test_a_key_of_the_old_kind() -> None:
    def twice(key: Any) -> Any:
        return jax.random.normal(key, (3,)) + jax.random.normal(key, (3,))

    assert draws_of(jax.make_jaxpr(twice)(jax.random.PRNGKey(0))).twice()


def test_keys_that_were_split_are_others() -> None:
    def split(key: Any) -> Any:
        one, two = jax.random.split(key)
        return jax.random.normal(one, (3,)) + jax.random.normal(two, (3,))

    found = draws(split)
    assert not found.twice()
    assert list(found.arguments) == [{0}]  # the same numbers whenever the key is the same


def test_a_key_folded_with_the_step_depends_on_both() -> None:
    def folded(key: Any, step: Any) -> Any:
        return jax.random.normal(jax.random.fold_in(key, step), (3,))

    found = draws(folded, 1)
    assert not found.twice()
    assert list(found.arguments) == [{0, 1}]


def test_a_key_folded_with_a_computed_number_is_unknown() -> None:
    def folded(key: Any, step: Any) -> Any:
        return jax.random.normal(jax.random.fold_in(key, 2 * step), (3,))

    assert not draws(folded, 1).arguments


def test_keys_folded_with_numbers_are_others() -> None:
    def folded(key: Any) -> Any:
        one, two = jax.random.fold_in(key, 1), jax.random.fold_in(key, 2)
        return jax.random.normal(one, (3,)) + jax.random.normal(two, (3,))

    assert not draws(folded).twice()


def test_a_key_made_inside_is_always_the_same() -> None:
    def inside(_: Any) -> Any:
        return jax.random.normal(jax.random.key(3), (3,))

    assert list(draws(inside).arguments) == [set()]


@pytest.mark.parametrize(
    ("passed", "same"),
    [("the key", True), ("an equal key", True), ("equal keys", True), ("split", False)],
)
@pytest.mark.parametrize("counted", [False, True])
def test_an_equal_key_in_each_step_is_reported(passed: str, same: bool, counted: bool) -> None:
    process, root = Process("jax"), jax.random.PRNGKey(0)
    with process.watched(ADAPTER):

        @jax.jit
        def step(w: Any, x: Any, keys: Any, number: Any) -> Any:
            def loss(w: Any) -> Any:
                def row(x: Any, key: Any) -> Any:
                    key = jax.random.fold_in(key, number) if counted else key
                    return (x * jax.random.bernoulli(key, 0.5, x.shape)) @ w

                return ((jax.vmap(row)(x, keys) - 1.0) ** 2).mean()

            value, grads = jax.value_and_grad(loss)(w)
            return w - 0.1 * grads, value

        w, key, keys = jnp.ones(3), root, jax.random.split(root, 8)
        for number in range(12):
            if passed == "equal keys":
                keys = jnp.array(list(jax.random.split(root, 8)))
            elif passed == "an equal key":
                keys = jnp.stack([jax.random.key(0)] * 8)
            elif passed == "split":
                key, own = jax.random.split(key)
                keys = jax.random.split(own, 8)
            jax.block_until_ready(keys)
            w, _ = step(w, X, keys, 0 if same else number)
    found = [one for one in process.facts() if isinstance(one, KeyReused) and one.each_step]
    assert [one.each_step for one in found] == ([8] if same else [])
