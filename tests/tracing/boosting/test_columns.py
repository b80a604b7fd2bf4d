from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

from mothtrap.core.facts.trees import ColumnsSeen, TablesDiffer
from mothtrap.tracing.boosting import columns
from mothtrap.tracing.boosting.samples import sample_of

RNG = np.random.default_rng(0)
ROWS = 1000
PLAIN = RNG.normal(size=(ROWS, 4))
NAMES = [f"f{column}" for column in range(8)]


def seen(extra: np.ndarray | None, label: np.ndarray | None = None, **more) -> ColumnsSeen:
    """Inspect four plain columns and one more."""
    table = PLAIN if extra is None else np.column_stack([PLAIN, extra])
    sample = sample_of(table)
    assert sample is not None
    options = {"step": 0, "fit": "", "categorical": (), "classes": False} | more
    return columns.seen(sample, NAMES, label, **options)  # type: ignore[arg-type]


def differences(train: np.ndarray, other: np.ndarray) -> TablesDiffer | None:
    ours, theirs = sample_of(train), sample_of(other)
    assert ours is not None
    assert theirs is not None
    return columns.differences(ours, theirs, NAMES, step=0, fit="", site="valid")


def test_nothing_is_said_of_plain_columns() -> None:
    found = seen(None, PLAIN[:, 0] + RNG.normal(size=ROWS))
    assert (found.identifiers, found.codes, found.copies, found.empty) == ((), (), (), ())
    assert not found.sentinels
    assert max(found.telling.values()) < 0.7


def test_numbers_of_rows_are_identifiers() -> None:
    numbers = RNG.permutation(ROWS) + 100_000_000  # more than float32 can distinguish
    assert seen(numbers.astype(float)).identifiers == ("f4",)
    assert seen(RNG.integers(0, 10**6, ROWS).astype(float)).identifiers == ()
    assert seen(RNG.integers(0, ROWS, ROWS).astype(float)).identifiers == ()
    assert seen(numbers + 0.5).identifiers == ()
    assert seen(numbers.astype(float), categorical=(4,)).identifiers == ()


def test_codes_have_levels_that_matter_in_no_order() -> None:
    code = RNG.integers(0, 30, ROWS)
    level = RNG.normal(size=30)
    label = level[code] + RNG.normal(scale=0.3, size=ROWS)
    assert seen(code.astype(float), label).codes == ("f4",)
    assert seen(code.astype(float), label, categorical=(4,)).codes == ()
    assert seen(code.astype(float), np.sort(level)[code]).codes == ()  # an order
    hours = np.sin(code / 30 * 6.28) + RNG.normal(scale=0.3, size=ROWS)
    assert seen(code.astype(float), hours).codes == ()  # smooth
    assert seen(code.astype(float), RNG.normal(size=ROWS)).codes == ()  # no matter


def test_pixels_are_no_codes() -> None:
    digits = load_digits()
    for one, other in ((0, 1), (3, 9), (8, 1)):
        chosen_R = np.isin(digits.target, (one, other))
        sample = sample_of(digits.data[chosen_R])
        assert sample is not None
        label = (digits.target[chosen_R] == one).astype(float)
        options = {"step": 0, "fit": "", "categorical": (), "classes": True}
        found = columns.seen(sample, [f"x{n}" for n in range(64)], label, **options)  # type: ignore[arg-type]
        assert found.codes == ()


def test_steps_between_levels_of_few_rows_are_noise() -> None:
    found = [
        seen(rng.integers(0, 120, ROWS).astype(float), (rng.random(ROWS) < 0.5).astype(float)).codes
        for rng in map(np.random.default_rng, range(20))
    ]
    assert found == [()] * 20


def test_the_label_itself_is_told_from_a_column_that_predicts_it() -> None:
    classes = RNG.integers(0, 3, ROWS).astype(float)
    assert seen(10 - classes, classes, classes=True).same_as_label == ("f4",)
    assert (
        seen(classes + RNG.normal(scale=1e-3, size=ROWS), classes, classes=True).same_as_label == ()
    )
    finer = classes * 10 + RNG.integers(0, 3, ROWS)
    assert seen(finer, classes, classes=True).same_as_label == ()
    price = RNG.gamma(2, size=ROWS)
    assert seen(price * 1.1 + 3, price).same_as_label == ("f4",)
    assert seen(price + RNG.normal(scale=0.05, size=ROWS), price).same_as_label == ()


def test_a_column_of_the_label_tells_it() -> None:
    label = RNG.gamma(2, size=ROWS)
    found = seen(label + RNG.normal(scale=0.02, size=ROWS), label)
    assert found.telling["f4"] > 0.98
    classes = RNG.integers(0, 3, ROWS).astype(float)
    found = seen(10 - classes + RNG.normal(scale=0.05, size=ROWS), classes, classes=True)
    assert found.telling["f4"] > 0.95
    assert sorted(found.telling.values())[-2] < 0.2


@pytest.mark.parametrize("value", [-999.0, 9999.0])
def test_a_value_far_outside_is_a_sentinel(value: float) -> None:
    coded = np.where(RNG.random(ROWS) < 0.1, value, RNG.normal(size=ROWS))
    found = seen(coded)
    assert found.sentinel_values == {"f4": value}
    assert found.sentinels["f4"] == pytest.approx(0.1, abs=0.03)
    wide = np.where(RNG.random(ROWS) < 0.1, value, RNG.normal(scale=5000, size=ROWS))
    assert not seen(wide).sentinels


def test_copies_and_empty_columns_are_named() -> None:
    assert seen(PLAIN[:, 1]).copies == (("f1", "f4"),)
    assert seen(np.full(ROWS, np.nan)).empty == ("f4",)
    assert seen(np.where(PLAIN[:, 1] > 2, np.inf, 0.0)).infinite["f4"] > 0


def test_moved_columns_and_another_order_are_told() -> None:
    assert differences(PLAIN, RNG.normal(size=(300, 4))) is None
    moved = RNG.normal([0, 0, 9, 0], size=(300, 4))
    found = differences(PLAIN, moved)
    assert found is not None
    assert list(found.distance) == ["f2"]
    scale = [1, 10, 100, 1000]
    scaled = RNG.normal([0, 50, 900, 20000], scale, size=(ROWS, 4))
    swapped = RNG.normal([0, 50, 900, 20000], scale, size=(300, 4))[:, [0, 2, 1, 3]]
    found = differences(scaled, swapped)
    assert found is not None
    assert set(found.order) == {("f1", "f2"), ("f2", "f1")}


def test_a_column_that_lost_its_variation_is_told() -> None:
    train = np.column_stack([PLAIN, RNG.integers(0, 2, ROWS)])
    other = np.column_stack([RNG.normal(size=(300, 4)), np.zeros(300)])
    found = differences(train, other)
    assert found is not None
    assert found.constant == ("f4",)


def test_a_spread_that_depends_on_a_few_rows_is_no_difference() -> None:
    def rare(rows: int, value: float) -> np.ndarray:
        last = np.zeros(rows)
        last[rows // 2] = value
        return np.column_stack([RNG.normal(size=(rows, 4)), last])

    assert differences(rare(1200, 1.0), rare(500, 10.0)) is None
    wide = np.column_stack([RNG.normal(size=(300, 4)), RNG.normal(scale=30, size=300)])
    found = differences(np.column_stack([PLAIN, RNG.normal(size=ROWS)]), wide)
    assert found is not None
    assert found.spread["f4"] == pytest.approx(30, rel=0.2)


def test_frames_with_the_same_names_in_another_order_are_told() -> None:
    pandas = pytest.importorskip("pandas")
    names = ["a", "b", "c", "d"]
    frame = pandas.DataFrame(PLAIN, columns=names)
    ours, theirs = sample_of(frame), sample_of(frame[["a", "c", "b", "d"]])
    assert ours is not None
    assert theirs is not None
    found = columns.differences(ours, theirs, names, step=0, fit="", site="valid")
    assert found is not None
    assert (found.by_name, found.order) == (True, (("c", "b"), ("b", "c")))
    same = sample_of(frame[names])
    assert same is not None
    assert columns.differences(ours, same, names, step=0, fit="", site="valid") is None


def test_numbers_that_are_declared_as_categories_are_ordered() -> None:
    age = RNG.integers(18, 90, ROWS).astype(float)
    label = age / 20 + RNG.normal(size=ROWS)
    assert seen(age, label, categorical=(4,)).ordered == ("f4",)
    assert seen(age, (label > label.mean()).astype(float), categorical=(4,)).ordered == ("f4",)
    assert seen(age, label).ordered == ()  # not declared
    assert seen(age, RNG.normal(size=ROWS), categorical=(4,)).ordered == ()  # no matter
    code = RNG.permutation(72)[age.astype(int) - 18].astype(float)
    assert seen(code, label, categorical=(4,)).ordered == ()  # no order
    assert seen(np.round(age / 10), label, categorical=(4,)).ordered == ()  # few levels


def test_the_trend_is_the_largest_correlation_with_the_label() -> None:
    label = PLAIN[:, 1] + RNG.normal(size=ROWS)
    assert seen(None, label).trend == pytest.approx(0.7, abs=0.05)
    assert seen(None).trend is None
