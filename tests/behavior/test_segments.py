"""The search finds planted segments with their bounds, and calls noise noise."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from tests.behavior.asking import people

from mothtrap.behavior.segments import Literal, Segment, search
from mothtrap.behavior.table import Table

X = people(4000)


def overlap(found: np.ndarray, planted: np.ndarray) -> float:
    return float((found & planted).sum() / (found | planted).sum())


def errors(planted: np.ndarray, high: float = 0.4, low: float = 0.1) -> np.ndarray:
    rates = np.where(planted, high, low)
    return (np.random.default_rng(5).random(len(X)) < rates).astype(float)


@pytest.mark.parametrize(
    "planted",
    [
        (X.kind == "b"),
        (X.age >= 61),
        ((X.age >= 55) & (X.kind == "c")),
        ((X.x1 > 0.7) & (X.x2 < 0)),
        ((X.age >= 30) & (X.age < 50)),
        ((X.x1 > -0.5) & (X.x1 < 0.6) & (X.kind == "c")),
    ],
    ids=["level", "threshold", "number and level", "two numbers", "range", "range and level"],
)
def test_finds_a_planted_segment_first(planted: pd.Series) -> None:
    planted_R = planted.to_numpy()
    first = next(iter(search(Table(X), errors(planted_R), most=1)))
    assert overlap(first.mask_R, planted_R) > 0.8
    assert first.z > 8


def test_one_of_many_levels_is_found() -> None:
    """Each of 60 shops has 1.7 % of the rows; the weak one is not among the most frequent."""
    rng = np.random.default_rng(2)
    shops = pd.DataFrame({"shop": [f"s{i}" for i in rng.integers(0, 60, 12_000)], "x": 0.0})
    rarest = shops["shop"].value_counts().index[-5]
    planted_R = (shops["shop"] == rarest).to_numpy()
    error_R = (rng.random(len(shops)) < np.where(planted_R, 0.6, 0.1)).astype(float)
    first = next(search(Table(shops), error_R, most=1))
    assert str(first.segment) == f"shop = {rarest}"


def test_names_a_fault_once() -> None:
    """After the planted segment is removed, only noise is left."""
    first, second = search(Table(X), errors((X.kind == "b").to_numpy()), most=2)
    assert str(first.segment) == "kind = b"
    assert second.z < first.z / 2


def test_a_column_of_noise_is_not_added_to_a_segment() -> None:
    first = next(
        iter(search(Table(X), errors(((X.age >= 55) & (X.kind == "c")).to_numpy()), most=1))
    )
    assert set(first.segment.columns) == {"age", "kind"}


def test_missing_values_are_a_segment() -> None:
    holes = X.copy()
    gone = np.random.default_rng(1).random(len(X)) < 0.1
    holes.loc[gone, "x1"] = np.nan
    first = next(iter(search(Table(holes), errors(gone), most=1)))
    assert str(first.segment) == "x1 is missing"
    assert (first.mask_R == gone).all()


def test_metadata_that_the_model_does_not_get_is_searched() -> None:
    writer = np.random.default_rng(1).choice(list("pqr"), len(X))
    pictures = Table(np.zeros((len(X), 4, 4)), about={"writer": writer})
    first = next(iter(search(pictures, errors(writer == "q"), most=1)))
    assert str(first.segment) == "writer = q"


def test_conditions_read_as_one_would_write_them() -> None:
    literals = (Literal("age", low=60.0), Literal("x", -0.5, 1.25), Literal("kind", level="b"))
    assert str(Segment(literals)) == "age >= 60 and -0.5 <= x < 1.25 and kind = b"


def test_a_constant_value_gives_no_segment() -> None:
    assert list(search(Table(X), np.zeros(len(X)), most=3)) == []


def test_small_groups_are_no_segments() -> None:
    planted = np.zeros(len(X), bool)
    planted[:20] = True
    odd = X.assign(few=np.where(planted, "few", "many"))
    found = search(Table(odd), planted.astype(float), most=3)
    assert all("few = few" not in str(each.segment) for each in found)


def test_a_segment_as_code_selects_the_same_rows() -> None:
    rows = X.rename(columns={"x1": "first value"}).copy()
    rows.loc[:99, "age"] = np.nan
    segments = [
        Segment((Literal("kind", level="b"), Literal("age", low=30, high=50))),
        Segment((Literal("first value", low=0.5), Literal("x2", high=-0.25))),
        Segment((Literal("age"),)),
        Segment((Literal("age", low=41, high=41),)),
    ]
    for segment in segments:
        mask_R = segment.mask(Table(rows))
        assert mask_R.any()
        assert rows.eval(segment.as_code()).to_numpy().tolist() == mask_R.tolist()
