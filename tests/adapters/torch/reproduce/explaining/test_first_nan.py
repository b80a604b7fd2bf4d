"""The line that made NaN is read from the variables of the function that failed."""

from __future__ import annotations

import sys

import torch

from mothtrap.adapters.torch.reproduce.explaining.first_nan import FirstNan, first_nan


def found_here(depth: int = 1) -> FirstNan | None:
    frame = sys._getframe(depth)
    return first_nan(frame, frame.f_lineno)


def test_the_first_variable_with_nan_made_of_finite_ones_is_named() -> None:
    scores = torch.tensor([-1.0, 4.0])
    root = scores.sqrt()
    doubled = root * 2
    found = found_here()
    assert found is not None
    assert found.code == "root = scores.sqrt()"
    assert found.operands == (("scores", -1.0, 4.0),)
    assert doubled.isnan().any()


def test_a_variable_that_was_assigned_again_tells_nothing() -> None:
    p = torch.tensor([-1.0, 4.0])
    p = p.sqrt()
    p = p.sigmoid()
    assert found_here() is None


def test_numbers_that_are_all_finite_have_no_origin() -> None:
    scores = torch.tensor([1.0, 4.0])
    root = scores.sqrt()
    assert found_here() is None
    assert root.isfinite().all()


def test_nan_that_was_passed_in_is_not_blamed_on_its_user() -> None:
    given = torch.tensor([float("nan")])
    doubled = given * 2
    assert found_here() is None
    assert doubled.isnan().all()
