"""Values and runs described by their counts by power of two."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from tests.reader.runs import raw
from tests.reader.series.test_merged import gradient, make, step, whole

from mothtrap.core.errors import StepUnavailableError, UnknownNameError
from mothtrap.core.records import StepRecord
from mothtrap.core.tensors import TensorInfo
from mothtrap.reader.run import Run
from mothtrap.reader.tensors.exponent_counts import Exponents, total
from mothtrap.statistics.dtypes import dtype_of
from mothtrap.statistics.exponents import count_exponents

SHARES = (0.0, 0.01, 0.25, 0.5, 0.75, 0.99, 1.0)
within = st.floats(2.0**-40, 2.0**23, exclude_max=True)
VALUES = arrays.arrays(
    np.float64,
    st.integers(1, 60),
    elements=within | within.map(lambda v: -v) | st.just(0.0),
)


def exponents(values: np.ndarray, zero: int | None = None) -> Exponents:
    known = int((values == 0).sum()) if zero is None else zero
    return Exponents(
        of="weight:a", step=3, counts_2B=count_exponents(values), zero=known, nan=0, inf=0
    )


@given(VALUES)
def test_quantiles_have_the_sign_and_power_of_the_true_ones(values: np.ndarray) -> None:
    estimated = exponents(values).quantiles(SHARES)
    true = np.quantile(values, SHARES, method="lower")
    assert np.array_equal(np.sign(estimated), np.sign(true))
    near = estimated[true != 0] / true[true != 0]
    assert ((near > 0.5) & (near < 2)).all()
    assert (np.diff(estimated) >= 0).all()


def test_of_nothing_there_are_no_quantiles() -> None:
    assert np.isnan(exponents(np.array([np.nan])).quantiles((0.5,))).all()
    assert exponents(np.zeros(3)).quantiles((0.0, 1.0)).tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match=r"shares must be from 0 to 1, not \[50\]"):
        exponents(np.ones(3)).quantiles((50,))


@pytest.mark.parametrize("dtype", ["float16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz"])
def test_what_a_type_cannot_hold_is_what_is_lost_in_it(dtype: str) -> None:
    values = 1.5 * 2.0 ** np.arange(-39, 23)
    fit = exponents(values).fit(dtype)
    with np.errstate(over="ignore"):
        cast = values.astype(dtype_of(dtype)).astype(np.float64)
    assert fit.vanishing == np.mean(cast == 0)
    # fn types have no infinity; what is too large for them is NaN or the largest number.
    assert fit.overflowing == np.mean(~np.isfinite(cast) | (cast < values / 2) & (values > 1))
    smallest = {"float16": -14, "float8_e4m3fn": -6, "float8_e5m2": -14, "float8_e4m3fnuz": -7}
    subnormal = (cast != 0) & (values < 2.0 ** smallest[dtype])
    assert fit.subnormal == np.mean(subnormal)


def test_a_type_as_wide_as_the_bins_holds_everything() -> None:
    fit = exponents(np.array([1e-30, 1e30])).fit("bfloat16")
    assert (fit.vanishing, fit.subnormal, fit.overflowing) == (0.0, 0.0, 0.0)
    with pytest.raises(
        UnknownNameError, match=r"'flaot16' is not a floating-point type.*'float16'"
    ):
        exponents(np.ones(1)).fit("flaot16")


def test_parts_add_up_exactly_and_signs_can_be_left_out() -> None:
    values = whole()
    parts = [exponents(values[:2]), exponents(values[2:])]
    assert np.array_equal(total(parts).counts_2B, count_exponents(values))
    assert total(parts).zero == 1
    unknown = Exponents(of="a", step=0, counts_2B=parts[0].counts_2B, zero=None, nan=0, inf=0)
    assert total([parts[0], unknown]).zero is None
    assert total(parts).magnitudes.counts_2B[0].sum() == 0
    assert np.array_equal(total(parts).magnitudes.counts, total(parts).counts)


def test_it_is_drawn_from_the_largest_power_on() -> None:
    found = exponents(np.array([-0.5, 0.5, 0.75, 4.0, 0.0]))
    lines = str(found).splitlines()
    assert lines[0] == "weight:a at step 3, 1 zeros, 0 NaN, 0 infinities"
    assert [line.split()[:3] for line in lines[1:]] == [
        ["2^2", "0", "1"],
        ["2^1", "0", "0"],
        ["2^0", "0", "0"],
        ["2^-1", "1", "2"],
    ]
    assert repr(found).startswith("<Exponents of weight:a at step 3: 2^-1 to 2^3, 1 zeros")
    assert "<td>2^-1</td><td>1</td><td>2</td>" in found._repr_html_()
    assert str(exponents(np.zeros(2))) == "weight:a at step 3, 2 zeros, 0 NaN, 0 infinities"


def captured(number: int, scope: str, values: np.ndarray) -> StepRecord:
    """Return a step in which exponents of a gradient were captured, and none of its values."""
    made = step(number, {gradient(scope): values})
    derived = TensorInfo(kind="metric", name="exponents(gradient:fc.weight)", scope=scope)
    changes: dict[str, Any] = {"raw": (raw((1, count_exponents(values))),)}
    if number == 0:
        changes["defined"] = (*made.defined, (1, derived))
    return replace(made, **changes)


def test_those_of_shards_are_those_of_the_whole(tmp_path: Path) -> None:
    values = whole()
    run = make(
        tmp_path,
        {
            rank: [
                captured(0, f"shard {rank + 1}/2 of dim 0", values[2 * rank : 2 * rank + 2]),
                *([captured(1, "", values[:2])] if rank == 0 else []),
            ]
            for rank in (0, 1)
        },
    )
    tensor = run.tensor("gradient:fc.weight")
    found = tensor.exponents(0, worker="merged")
    assert np.array_equal(found.counts_2B, count_exponents(values))
    assert (found.zero, found.nan, found.inf) == (1, 1, 1)
    assert tensor.exponents(0, worker=1).counts.sum() == count_exponents(values[2:]).sum()
    assert tensor.exponents(0).nan == 1
    with pytest.raises(StepUnavailableError, match="cannot be merged: of workers"):
        tensor.exponents(1, worker="merged")


def test_a_replica_counts_once(tmp_path: Path) -> None:
    run = make(tmp_path, {rank: [captured(0, "replica", whole())] for rank in (0, 1)})
    found = run.tensor("gradient:fc.weight").exponents(0, worker="merged")
    assert np.array_equal(found.counts_2B, count_exponents(whole()))


def kept(tmp_path: Path) -> Run:
    made = step(0, {gradient(""): whole()})
    return make(tmp_path, {0: [replace(made, raw=(raw((0, whole()), (0, whole())),))]})


def test_of_values_that_were_kept_they_are_counted(tmp_path: Path) -> None:
    found = kept(tmp_path).tensor("gradient:fc.weight").exponents(0)
    assert np.array_equal(found.counts_2B, 2 * count_exponents(whole()))
    assert (found.zero, found.nan, found.inf) == (2, 2, 2)


def test_what_was_not_captured_is_said(tmp_path: Path) -> None:
    made = make(tmp_path, {0: [step(0, {gradient(""): whole()})]}).tensor("gradient:fc.weight")
    with pytest.raises(StepUnavailableError, match=r'statistics = \["exponents"\]'):
        made.exponents(0)
    (tmp_path / "other").mkdir()
    rare = make(tmp_path / "other", {0: [captured(0, "", whole()), step(1, {})]})
    with pytest.raises(StepUnavailableError, match="at step 1; they were at step 0, the"):
        rare.tensor("gradient:fc.weight").exponents(1)
