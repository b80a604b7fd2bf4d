"""The passes that only accelerators use give the same results on a CPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.statistics.oracle import assert_close, expected

from mothtrap.statistics.summary import COLUMN, FIELDS
from mothtrap.statistics.torch import exact
from mothtrap.statistics.torch.passes import foreach_norms

TENSORS = {
    "plain": torch.linspace(-1.0, 2.0, 301),
    "non-finite": torch.tensor([1.0, float("nan"), -float("inf"), 0.0, 5.0]),
    "nothing finite": torch.tensor([float("nan"), float("inf")]),
    "zeros": torch.zeros(9),
    "half": torch.linspace(-1.0, 2.0, 99).half(),
    "integers": torch.arange(50),
    "beyond squares": torch.tensor([3e200, 4e200, -1.0], dtype=torch.float64),
    "below squares": torch.tensor([3e-200, 4e-200, 0.0], dtype=torch.float64),
}


@pytest.mark.parametrize("tensor", TENSORS.values(), ids=TENSORS.keys())
@pytest.mark.parametrize("block", [4, 1 << 24])
def test_the_pass_on_the_device_equals_the_oracle(tensor, block, monkeypatch):
    monkeypatch.setattr(exact, "_ACCELERATOR_BLOCK", block)
    reduced = exact.reduce_exactly(tensor, frozenset(FIELDS)).numpy()
    row = exact.block_row(reduced, tensor.numel())
    assert_close(row, expected(tensor.double().numpy()), relative=1e-12)


def test_only_columns_asked_for_are_filled():
    reduced = exact.reduce_exactly(torch.ones(3), frozenset({"count", "nan", "inf", "l2"}))
    row = exact.block_row(reduced.numpy(), 3)
    assert np.flatnonzero(~np.isnan(row)).tolist() == [
        COLUMN[n] for n in ("count", "nan", "inf", "l2")
    ]


def test_norms_of_a_list_keep_their_order():
    tensors = [
        torch.full((3,), v, dtype=d) for v in (1.0, 2.0) for d in (torch.float32, torch.half)
    ]
    norms = torch.cat(foreach_norms(tensors))
    assert norms.dtype == torch.float32
    torch.testing.assert_close(norms, torch.tensor([1.0, 1.0, 2.0, 2.0]) * 3**0.5)
