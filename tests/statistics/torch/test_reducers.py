"""Digests in one pass: those of `digest`, and the rows of `summarize`, for all tensors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mothtrap.statistics import built, summary
from mothtrap.statistics import torch as arithmetic
from mothtrap.statistics.torch import compiled
from mothtrap.statistics.torch.reducers import DigestingReducer, ReadAlready

TABLE = ("mean", "std", "l2", "zero", "nan", "inf", "min", "max")


def test_rows_are_those_of_summarize_and_digests_those_of_digest() -> None:
    tensors = [torch.randn(300), torch.randn(7, 5), torch.full((4,), torch.nan)]
    reducer = DigestingReducer()
    rows_TF = reducer.summarize(tensors, TABLE)
    np.testing.assert_array_equal(rows_TF, arithmetic.summarize(tensors, TABLE))
    assert rows_TF.shape == (3, summary.WIDTH)
    known = [reducer.digests.get(id(tensor)) for tensor in tensors]
    truth = [arithmetic.digest(tensor) for tensor in tensors]
    assert known == (truth if built.arrays is not None else [None] * 3)


def test_what_is_read_otherwise_has_a_row_and_no_digest() -> None:
    tensors = [torch.randn(3, 4).T, torch.arange(4), torch.eye(3).to_sparse()]
    reducer = DigestingReducer()
    rows_TF = reducer.summarize(tensors, TABLE)
    np.testing.assert_array_equal(rows_TF, arithmetic.summarize(tensors, TABLE))
    assert reducer.digests == {}


def test_only_what_was_summarized_has_a_digest() -> None:
    reducer = DigestingReducer()
    reducer.norms([torch.ones(3)])
    reducer.summarize([torch.ones(3)], ("count",))
    assert reducer.digests == {}


@pytest.mark.skipif(built.arrays is None, reason="built without a C compiler")
def test_rows_that_were_read_before_are_those_of_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # rows are never read this way without the compiled part
    read = compiled.row_reader()
    assert read is not None
    tensors = [torch.randn(300), torch.randn(7, 5).bfloat16(), torch.tensor([1.0, torch.inf])]
    truth_TF = arithmetic.summarize(tensors, TABLE)
    reducer = ReadAlready({id(tensor): read(tensor) for tensor in tensors})
    tensors[0].mul_(2.0)
    np.testing.assert_array_equal(reducer.summarize(tensors, TABLE), truth_TF)


def test_what_cannot_be_read_where_it_lies_has_no_row() -> None:
    read = compiled.row_reader()
    assert (read is None) == (built.arrays is None)
    if read is not None:
        others = [torch.arange(3), torch.eye(2).to_sparse(), torch.ones(3, 4).T, torch.empty(0)]
        assert [read(tensor) for tensor in others] == [None] * 4
