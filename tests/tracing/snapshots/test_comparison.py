"""A step is compared bit for bit with its result in the run."""

from __future__ import annotations

import math

import pytest

from mothtrap.core.replays import Difference
from mothtrap.core.snapshots import ReferenceDigests
from mothtrap.tracing.snapshots.comparison import compared, first_difference, raised_at

EXPECTED = ReferenceDigests(losses={"t.py:1": "a", "t.py:1#2": "b"}, gradients={"w": "c", "v": "d"})


def changed(**parts: object) -> ReferenceDigests:
    plain = {"losses": EXPECTED.losses, "gradients": EXPECTED.gradients, "exception": None}
    return ReferenceDigests(**{**plain, **parts})  # type: ignore[arg-type]


def test_what_is_the_same_matches_and_is_counted() -> None:
    result = compared(changed(), EXPECTED, (1.0, 2.0), ())
    assert (result.match, result.compared, result.difference) == (True, 4, None)
    assert (result.reached, result.nonfinite) == (True, False)


@pytest.mark.parametrize(
    ("found", "difference"),
    [
        (changed(losses={"t.py:1": "a", "t.py:1#2": "x"}), ("loss", "t.py:1#2", "x", "b")),
        (changed(losses={"t.py:1": "a"}), ("loss", "t.py:1#2", None, "b")),
        (changed(gradients={"w": "c", "v": "x"}), ("gradient", "v", "x", "d")),
        (changed(exception="KeyError: 1"), ("exception", "exception", "KeyError: 1", None)),
    ],
)
def test_the_first_difference_is_named(
    found: ReferenceDigests, difference: tuple[str, ...]
) -> None:
    kind, name, was, expected = difference
    wanted = Difference(kind=kind, name=name, found=was, expected=expected)  # type: ignore[arg-type]
    assert first_difference(found, EXPECTED) == wanted
    assert compared(found, EXPECTED, (), ()).match is False


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("RuntimeError: DataLoader worker (pid 1234) is killed", True),
        ("OutOfMemoryError: CUDA out of memory. Tried to allocate 1.25 GiB. 300.50 MiB free", True),
        ("IndexError: index 17 is out of bounds", False),
    ],
)
def test_numbers_of_processes_and_of_free_memory_are_no_difference(text: str, same: bool) -> None:
    other = text.translate(str.maketrans("1235", "7986")).replace("GiB", "MiB")
    result = compared(changed(exception=other), changed(exception=text), (), ())
    assert result.match is same


def test_gradients_of_others_do_not_count() -> None:
    found = changed(gradients={**EXPECTED.gradients, "left over": "x"})
    assert first_difference(found, EXPECTED) is None


@pytest.mark.parametrize("expected", [None, ReferenceDigests()])
def test_without_a_truth_nothing_is_claimed(expected: ReferenceDigests | None) -> None:
    result = compared(changed(), expected, (1.0,), ())
    assert result.match is None
    assert result.notes == ("the run kept no digests to compare with",)


@pytest.mark.parametrize(("losses", "bad"), [((1.0, math.nan), ()), ((1.0,), ("w",))])
def test_a_loss_or_a_gradient_makes_a_step_bad(
    losses: tuple[float, ...], bad: tuple[str, ...]
) -> None:
    assert compared(changed(), EXPECTED, losses, bad).nonfinite


def test_the_innermost_line_of_the_users_code_is_where_it_was_raised() -> None:
    try:
        [].index(1)
    except ValueError as err:
        place = raised_at(err)
    assert place is not None
    assert place.rpartition(":")[0].endswith("test_comparison.py")
