"""Only calls that donate something are copied."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

jnp = pytest.importorskip("jax.numpy")

from mothtrap.adapters.jax.donations import donates  # noqa: E402

WEIGHTS, BATCH = {"kernel": jnp.ones(3)}, jnp.ones((2, 3))


@pytest.mark.parametrize(
    ("options", "args", "expected"),
    [
        ({}, (WEIGHTS, BATCH), False),
        ({"donate_argnums": ()}, (WEIGHTS, BATCH), False),
        ({"donate_argnums": 0}, (WEIGHTS, BATCH), True),
        ({"donate_argnums": (0, 1)}, ({}, BATCH), True),
        ({"donate_argnums": 0}, ({}, WEIGHTS, BATCH), False),
        ({"donate_argnums": (1,)}, (WEIGHTS,), True),
        ({"donate_argnames": "weights"}, (WEIGHTS, BATCH), True),
    ],
    ids=["nothing", "empty", "number", "one of two", "empty dictionary", "by name", "names"],
)
def test_a_call_donates_if_a_donated_argument_has_arrays(
    options: dict[str, Any], args: tuple[Any, ...], expected: bool
) -> None:
    assert donates(SimpleNamespace(options=options), args) is expected  # type: ignore[arg-type]
