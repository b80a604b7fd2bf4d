"""Steps that a script reports itself, with trees of gradients and parameters."""

from __future__ import annotations

import functools

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

from mothtrap.adapters.jax import ADAPTER  # noqa: E402
from mothtrap.core.adapters import Given  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402


def params(scale: float) -> dict:
    return {"layer": {"kernel": jnp.full((3, 2), scale), "bias": jnp.zeros(2)}}


def test_steps_told_by_hand() -> None:
    process = Process("jax")
    begin = functools.partial(ADAPTER.attach, targets=[params(1.0)])
    with process.watched(ADAPTER, begin) as handle:
        for step in range(4):
            numbers = {"gradients": params(0.1), "parameters": params(1.0 - step), "rate": 0.5}
            handle.step(Given(loss=jnp.float32(step), numbers=numbers, makes_step=True))
    assert [step for step, _ in process.steps()] == [0, 1, 2, 3]
    scalars = [s for record in process.records for s in record.scalars]
    assert [s.value for s in scalars if s.name == "loss"] == [0, 1, 2, 3]
    assert [s.value for s in scalars if s.name == "rate"] == [0.5] * 4
    infos = {(i.kind, i.name) for record in process.records for _, i in record.defined}
    assert infos == {
        ("gradient", "kernel"),
        ("gradient", "bias"),
        ("weight", "kernel"),
        ("bias", "bias"),
    }


def test_only_trees_of_arrays_are_accepted() -> None:
    assert ADAPTER.accepts(params(1.0))
    assert not ADAPTER.accepts(jnp.ones(3))
    assert not ADAPTER.accepts({"a": 1.0})
    assert not ADAPTER.accepts("a text")
