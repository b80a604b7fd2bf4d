"""Random keys in a program: keys that are used twice, and keys that never change."""

from __future__ import annotations

from typing import Any

import pytest

jax = pytest.importorskip("jax")

from mothtrap.adapters.jax.keys import draws_of  # noqa: E402

KEY = jax.random.key(0)


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
    assert list(found.arguments) == [0]  # the same numbers whenever the key is the same


def test_a_key_folded_with_the_step_is_new_in_each() -> None:
    def folded(key: Any, step: Any) -> Any:
        return jax.random.normal(jax.random.fold_in(key, step), (3,))

    found = draws(folded, 1)
    assert not found.twice()
    assert not found.arguments


def test_keys_folded_with_numbers_are_others() -> None:
    def folded(key: Any) -> Any:
        one, two = jax.random.fold_in(key, 1), jax.random.fold_in(key, 2)
        return jax.random.normal(one, (3,)) + jax.random.normal(two, (3,))

    assert not draws(folded).twice()


def test_a_key_made_inside_is_always_the_same() -> None:
    def inside(_: Any) -> Any:
        return jax.random.normal(jax.random.key(3), (3,))

    assert draws(inside).fixed
