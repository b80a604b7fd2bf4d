"""The inspection of values in every step: counts are exact whatever the values are."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch

from mothtrap.statistics.summary import COLUMN
from mothtrap.statistics.torch.norms import norms

NAN, INF = float("nan"), float("inf")


def looked_at(tensor: torch.Tensor) -> tuple[float, float, float, float]:
    row_F = norms([tensor])[0]
    count, nan, inf, l2 = (float(row_F[COLUMN[name]]) for name in ("count", "nan", "inf", "l2"))
    return count, nan, inf, l2


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([3.0, 4.0], (2, 0, 0, 5.0)),
        ([NAN, NAN], (2, 2, 0, 0.0)),
        ([INF, -INF, NAN, 0.0], (4, 1, 2, 0.0)),
        ([3.0, NAN, 4.0, INF], (4, 1, 1, 5.0)),
        ([0.0, 0.0], (2, 0, 0, 0.0)),
    ],
)
def test_counts_what_is_not_finite_and_measures_the_rest(values, expected, dtype):
    assert looked_at(torch.tensor(values, dtype=dtype)) == expected


def test_a_negated_view_is_looked_at_as_the_tensor_that_it_is():
    """An example is `.imag` of a conjugate: numpy refuses tensors with a negation bit."""
    view = torch.tensor([complex(0.0, 4.0), complex(0.0, NAN)]).conj().imag
    assert view.is_neg()
    assert looked_at(view) == (2, 1, 0, 4.0)
    assert looked_at(torch._neg_view(torch.tensor([INF, 3.0]))) == (2, 0, 1, 3.0)


def test_squares_that_leave_float32_are_still_measured():
    assert looked_at(torch.tensor([3e30, 4e30]))[3] == pytest.approx(5e30, rel=1e-6)
    assert looked_at(torch.tensor([3e-30, 4e-30]))[3] == pytest.approx(5e-30, rel=1e-6)


def test_large_tensors_are_counted_through_to_their_ends():
    tensor = torch.ones(100_001)
    tensor[::7] = NAN
    tensor[-1] = -INF
    nan = int(tensor.isnan().sum())
    count, seen, inf, l2 = looked_at(tensor)
    assert (count, seen, inf) == (100_001, nan, 1)
    assert l2 == pytest.approx(np.sqrt(100_000 - nan))


def test_tensors_that_are_not_finite_take_no_slow_pass(monkeypatch):
    asked: list[int] = []
    own = sys.modules["mothtrap.statistics.torch.norms"]
    monkeypatch.setattr(own, "summarize", lambda tensors, _: asked.append(len(tensors)))
    norms([torch.full((5,), NAN), torch.tensor([0.0, NAN]), torch.tensor([1.0, INF])])
    assert asked == []
