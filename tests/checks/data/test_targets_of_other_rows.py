"""Batches whose targets belong to other rows."""

from __future__ import annotations

import numpy as np
from tests.checks.given import Given, finding, passes, result, table

from mothtrap.checks.subject import Array, Rows

CODE = "PRE311"


def handed(x: Array, y: Array) -> list[Rows]:
    """Three batches of 16 rows."""
    places = [np.arange(begin, begin + 16) for begin in (0, 40, 80)]
    return [Rows(indices=tuple(p.tolist()), inputs=(x[p],), targets=y[p]) for p in places]


def test_targets_in_another_order_are_named() -> None:
    x, y = table()
    batches = [
        Rows(indices=one.indices, inputs=one.inputs, targets=np.roll(one.targets, 1))
        for one in handed(x, y)
        if one.targets is not None
    ]
    found = finding(CODE, Given(x, y, handed=batches))
    assert found.severity == "error"
    assert "3 of 3 batches" in found.message


def test_rows_with_their_own_targets_are_no_fault() -> None:
    x, y = table()
    assert passes(CODE, Given(x, y, handed=handed(x, y)))


def test_other_names_of_the_classes_are_no_fault() -> None:
    x, y = table()
    assert passes(CODE, Given(x, y, handed=handed(x, 2 - y)))


def test_rows_that_are_not_in_the_data_set_decide_nothing() -> None:
    x, y = table()
    made = result(CODE, Given(x, y, handed=handed(x + 1, y)))
    assert made.state == "not_applicable"
