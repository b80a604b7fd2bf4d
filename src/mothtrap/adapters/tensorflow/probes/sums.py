"""Sums of a program, computed again if that does not change the program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import tensorflow as tf

SUMS: Final = ("Add", "AddV2", "AddN", "Sub")
MOST: Final = 256
"""Maximum number of terms of a sum, and of nested sums, that are inspected."""


def summed_apart(value: Any) -> Any:
    """Return a readable scalar: a program's sum is computed again in a function.

    TensorFlow merges nested sums whose parts are not read elsewhere, and then rounds once instead
    of twice. If such a part were read, a metric could differ in its last bit.
    """
    if tf.executing_eagerly() or value.op.type not in SUMS:
        return value
    terms: list[Any] = []
    if not _collect(value, terms):
        return value

    def again(*given: Any) -> Any:
        return _sum_of(value, iter(given))

    apart = tf.function(again, autograph=False, experimental_attributes={"_noinline": True})
    return apart(*terms)


def _collect(value: Any, terms: list[Any], depth: int = 0) -> bool:
    """Collect the terms of nested sums; return whether there are few enough."""
    if value.op.type not in SUMS:
        terms.append(value)
        return len(terms) <= MOST
    return depth < MOST and all(_collect(one, terms, depth + 1) for one in value.op.inputs)


def _sum_of(value: Any, terms: Iterator[Any]) -> Any:
    """Return the sum of other terms, computed as the program does."""
    if value.op.type not in SUMS:
        return next(terms)
    given = [_sum_of(one, terms) for one in value.op.inputs]
    if value.op.type == "AddN":
        return tf.add_n(given)
    return given[0] - given[1] if value.op.type == "Sub" else given[0] + given[1]
