from __future__ import annotations

import numpy as np
import pytest

from mothtrap.reader.compare.comparable import MICRO_BATCHES, Phase, Table
from mothtrap.reader.compare.first_divergence import FirstDivergence, Pair, Tolerance, first_of

nan, inf = np.nan, np.inf


def table(
    values: list[list[float]],
    names: tuple[str, ...] = ("a", "b"),
    steps: list[int] | None = None,
    *,
    phase: Phase = Phase.LOSS,
    method: str = "numbers",
    complete: bool = False,
) -> Table:
    """Return a table; None among the values means that there is no value."""
    value_KT = np.array([[nan if v is None else v for v in row] for row in values], np.float64)
    present_KT = np.array([[v is not None for v in row] for row in values])
    key_K = np.array(steps if steps is not None else range(len(values)), np.int64) * MICRO_BATCHES
    return Table(phase, "", method, names, key_K, value_KT, present_KT, complete)


def told(first: Table, second: Table, tolerance: Tolerance | None = None) -> FirstDivergence | None:
    found = first_of(Pair(first, second, tolerance or Tolerance(), 0))
    return found[1] if found is not None else None


def where(divergence: FirstDivergence | None) -> tuple[int, str] | None:
    return (divergence.step, divergence.what) if divergence is not None else None


def test_equal_tables_have_no_divergence_and_nan_is_equal_to_nan() -> None:
    assert told(table([[1, nan], [inf, 4]]), table([[1, nan], [inf, 4]])) is None


def test_the_first_moment_and_in_it_the_first_column_is_told() -> None:
    found = told(table([[1, 2], [3, 4], [5, 6]]), table([[1, 2], [3.5, 9], [9, 9]]))
    assert where(found) == (1, "a")
    assert found is not None
    assert (found.first, found.second, found.also, found.count, found.of) == (
        "3.0",
        "3.5",
        ("b",),
        2,
        2,
    )
    assert found.relative == pytest.approx(0.5 / 3.5)


def test_what_was_not_compared_in_each_step_diverged_since_the_last_time_it_was() -> None:
    steps = [0, 1, 40, 41, 60]
    found = told(table([[1, 2]] * 5, steps=steps), table([[1, 2]] * 4 + [[1, 9]], steps=steps))
    assert found is not None
    assert (found.what, found.since, found.step) == ("b", 41, 60)
    found = told(table([[1, 2]] * 2), table([[1, 2], [1, 9]]))
    assert found is not None
    assert found.since is None
    seldom = table([[1, 5], [2, None], [3, None], [4, 6]])
    found = told(seldom, table([[1, 5], [2, None], [3, None], [4, 7]]))
    assert found is not None
    assert (found.what, found.since) == ("b", 0)


@pytest.mark.parametrize("other", [nan, inf, -inf, 2.0000000000000004])
def test_nothing_is_nearly_the_same(other: float) -> None:
    assert where(told(table([[2.0, 1]]), table([[other, 1]]))) == (0, "a")


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [(1.0, 1.0009, True), (1.0, 1.002, False), (inf, inf, True), (inf, 1.0, False)],
)
def test_a_tolerance_is_relative_to_the_larger_value(
    first: float, second: float, same: bool
) -> None:
    found = told(table([[first, 0]]), table([[second, 0]]), Tolerance(rtol=1e-3))
    assert (found is None) is same


def test_an_absolute_tolerance_holds_near_zero() -> None:
    assert told(table([[0.0, 0]]), table([[1e-9, 0]]), Tolerance(atol=1e-8)) is None
    assert told(table([[0.0, 0]]), table([[1e-7, 0]]), Tolerance(atol=1e-8)) is not None


def test_moments_that_one_run_has_alone_are_left_out() -> None:
    assert told(table([[1, 2], [3, 4]], steps=[0, 2]), table([[1, 2]], steps=[0])) is None
    assert told(table([[1, None]]), table([[1, 5]])) is None


def test_of_complete_tables_what_one_run_lacks_is_a_divergence() -> None:
    first = table([[7, 8]], method="digests", complete=True)
    second = table([[7]], names=("a",), method="digests", complete=True)
    found = told(first, second)
    assert where(found) == (0, "b")
    assert found is not None
    assert (found.missing, found.second) == (True, "nothing")
    assert where(told(second, first)) == (0, "b")


def test_another_number_of_micro_batches_is_a_divergence() -> None:
    first = table([[7], [8]], names=("a",), method="digests", complete=True)
    second = table([[7]], names=("a",), method="digests", complete=True)
    both = np.array([0, 1], np.int64)  # of one step
    object.__setattr__(first, "key_K", both)
    found = told(first, second)
    assert found is not None
    assert (found.step, found.micro_batch, found.missing) == (0, 1, True)


def test_digests_are_shown_as_such() -> None:
    found = told(
        table([[255, 0]], method="digests", complete=True),
        table([[256, 0]], method="digests", complete=True),
    )
    assert found is not None
    assert (found.first, found.second, found.relative) == (
        "000000000000ff",
        "00000000000100",
        None,
    )


def test_weights_come_before_batches_and_digests_before_numbers() -> None:
    def order(phase: Phase, method: str) -> tuple[int, ...]:
        one = table([[1, 1]], phase=phase, method=method)
        other = table([[2, 2]], phase=phase, method=method)
        found = first_of(Pair(one, other, Tolerance(), 0))
        assert found is not None
        return found[0]

    phases = [order(phase, "digests") for phase in Phase]
    assert phases == sorted(phases)
    assert order(Phase.STATE, "digests") < order(Phase.STATE, "l2") < order(Phase.BATCH, "digests")


def test_what_is_zero_but_for_rounding_is_hardly_apart() -> None:
    found = told(table([[1e-9, 4.0]]), table([[3e-9, 4.0]]))
    assert found is not None
    assert found.relative == pytest.approx(2 / 3)
    assert found.apart == pytest.approx(5e-10)


def measured(first: Table, second: Table, perturbed: Table) -> FirstDivergence | None:
    found = first_of(Pair(first, second, Tolerance(), None, perturbed))
    return found[1] if found is not None else None


def test_numbers_may_differ_by_four_times_what_rounding_makes_of_them() -> None:
    first, perturbed = table([[1.0, 1.0]] * 3), table([[1.01, 1.01]] * 3)
    assert measured(first, table([[1.03, 0.97]] * 3), perturbed) is None
    found = measured(first, table([[1.03, 1.0], [1.0, 1.0], [1.0, 1.1]]), perturbed)
    assert where(found) == (2, "b")


def test_rounding_that_grows_allows_more_from_then_on_and_the_first_moments_share_theirs() -> None:
    first = table([[1.0, 1.0]] * 12)
    perturbed = table([[1.0, 1.0]] * 10 + [[1.1, 1.1], [1.0, 1.0]])
    assert measured(first, table([[1.0, 1.0]] * 11 + [[1.3, 1.0]]), perturbed) is None
    assert where(measured(first, table([[1.0, 1.0], [1.3, 1.0]] * 6), perturbed)) == (1, "a")
    perturbed = table([[1.0, 1.0]] * 6 + [[1.1, 1.1]] + [[1.0, 1.0]] * 5)
    assert measured(first, table([[1.3, 1.0]] * 12), perturbed) is None


def test_a_value_that_hardly_changes_by_chance_may_differ_as_most_do() -> None:
    names = ("a", "b", "c")
    first, perturbed = table([[1.0] * 3] * 2, names), table([[1.0, 1.01, 1.01]] * 2, names)
    assert measured(first, table([[1.03, 1.0, 1.0]] * 2, names), perturbed) is None
    unstable = table([[1.0, 1.0, 2.0]] * 2, names)
    assert where(measured(first, table([[1.03, 1.0, 2.5]] * 2, names), unstable)) == (0, "a")


def test_where_the_perturbed_run_has_no_value_the_given_tolerance_counts() -> None:
    first, second = table([[1.0, 1.0]] * 2), table([[1.0, 1.2]] * 2)
    assert where(measured(first, second, table([[1.0, None]] * 2))) == (0, "b")
    assert measured(first, first, table([[None, None]] * 2)) is None


def test_a_moment_that_the_perturbed_run_lacks_has_the_tolerance_of_those_before() -> None:
    first, perturbed = table([[1.0, 1.0]] * 3), table([[1.01, 1.01]] * 2 + [[None, None]])
    assert measured(first, table([[1.0, 1.0]] * 2 + [[1.03, 1.0]]), perturbed) is None
    found = measured(first, table([[1.0, 1.0]] * 2 + [[1.05, 1.0]]), perturbed)
    assert where(found) == (2, "a")
