"""The inspection of gradients, from the rows that capture has computed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mothtrap.capture.gradient_look import GradientLooks
from mothtrap.statistics.summary import FIELDS, WIDTH


def rows(*values: dict[str, float]) -> np.ndarray:
    table = np.full((len(values), WIDTH), np.nan)
    for row, fields in zip(table, values, strict=True):
        for name, value in fields.items():
            row[FIELDS.index(name)] = value
    return table


SOUND = {"nan": 0.0, "inf": 0.0, "l2": 3.0}


def test_rows_of_several_calls_are_one_look_taken_once() -> None:
    looks = GradientLooks()
    looks.rows.append(rows(SOUND))
    looks.rows.append(rows({**SOUND, "l2": 4.0}, SOUND))
    look = looks.take()
    assert (look.tensors, look.nonfinite) == (3, False)
    assert look.norm == pytest.approx(math.sqrt(34))
    assert looks.take().tensors == 0


@pytest.mark.parametrize("broken", [{"nan": 2.0}, {"inf": 1.0}])
def test_one_value_that_is_not_finite_is_enough(broken: dict[str, float]) -> None:
    looks = GradientLooks()
    looks.rows.append(rows(SOUND, {**SOUND, **broken}, SOUND))
    assert looks.take().nonfinite


def test_what_was_not_looked_at_does_not_count_as_sound() -> None:
    looks = GradientLooks()
    looks.rows.append(rows(SOUND, {"max": 1.0}, {"nan": 0.0}))
    look = looks.take()
    assert (look.tensors, look.nonfinite) == (1, False)
    assert math.isnan(look.norm)


def test_the_norm_of_gradients_whose_squares_overflow_is_found_without_a_warning() -> None:
    looks = GradientLooks()
    looks.rows.append(rows({**SOUND, "l2": 3e200}, {**SOUND, "l2": 4e200}))
    assert looks.take().norm == pytest.approx(5e200)


class Late:
    """Rows that are still on their way from a device."""

    nbytes = 0

    def __init__(self, *values: dict[str, float]) -> None:
        self.asked = 0
        self._rows = rows(*values)

    def has_arrived(self) -> bool:
        return False

    def rows(self) -> np.ndarray:
        self.asked += 1
        return self._rows


def test_rows_of_a_device_are_waited_for_when_someone_asks() -> None:
    looks, late = GradientLooks(), Late(SOUND, {**SOUND, "nan": 1.0})
    looks.rows.append(rows(SOUND))
    looks.rows.append(late)
    look = looks.take()
    assert look.is_late
    assert late.asked == 0
    assert look.nonfinite
    assert look.tensors == 3
    assert late.asked == 1


def test_rows_of_the_host_are_there() -> None:
    looks = GradientLooks()
    looks.rows.append(rows(SOUND))
    assert not looks.take().is_late
