from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from tests.rules.windows import gradients, loss, series, window

from mothtrap.core.breaches import judge
from mothtrap.core.errors import NotEnoughData
from mothtrap.core.invariants import Changes, Constant, Direction, Dtype, Invariant, Present, Range
from mothtrap.core.window import Matrix, Window

FLAT = np.ones(20)
STEPS = np.arange(20)


def lr(values: object, **options: object) -> Window:
    return window(series("lr", values, **options), steps=20)


def norms(**by_name: object) -> Window:
    return window(gradients("l2", by_name or {"a": FLAT, "b": FLAT}))


def at(values: np.ndarray, step: int, value: float) -> np.ndarray:
    return np.where(step == STEPS, value, values)


@pytest.mark.parametrize(
    ("invariant", "seen", "step", "value"),
    [
        (Range(of="lr", at_most=1.0), lr(at(FLAT, 7, 1.1)), 7, 1.1),
        (Range(of="lr", at_least=1.0), lr(at(FLAT, 7, 0.9)), 7, 0.9),
        (Range(of="lr", above=0.0), lr(at(FLAT, 7, 0.0)), 7, 0.0),
        (Range(of="lr:Adam", at_most=1.0), lr(at(FLAT, 7, np.inf)), 7, np.inf),
        (Constant(of="lr"), lr(np.where(STEPS < 9, 1.0, 0.5)), 9, 0.5),
        (Direction(of="lr", never="rises"), lr(at(FLAT, 4, 2.0)), 4, 2.0),
        (Direction(of="lr", never="falls"), lr(at(FLAT, 4, 2.0)), 5, 1.0),
        (Changes(of="lr", within=8), lr(np.minimum(STEPS, 5)), 5, 5.0),
        (Range(of="l2 of gradient", above=0.0), norms(a=FLAT, b=at(FLAT, 3, 0.0)), 3, 0.0),
    ],
)
def test_dates_the_first_breach(
    invariant: Invariant, seen: Window, step: int, value: float
) -> None:
    breach = judge(invariant, seen)
    assert breach is not None
    assert (breach.step, breach.value) == (step, value)
    if invariant.statistic:
        assert (breach.names, breach.location) == (("b",), "model.py:2")


@pytest.mark.parametrize(
    ("invariant", "seen"),
    [
        (Range(of="lr", at_least=1.0, at_most=1.0), lr(FLAT * (1 + 1e-8))),
        (
            Range(of="lr:SGD", at_most=0.5),
            window(series("lr", FLAT), series("lr", FLAT / 4, of="SGD")),
        ),
        (Constant(of="lr"), lr(FLAT * (1 + 1e-8))),
        (Direction(of="lr", never="rises"), lr(20.0 - STEPS)),
        (Changes(of="lr", within=8), lr(STEPS // 7)),
        (Changes(of="lr", within=8), lr(FLAT[:8])),
        (Present(of="lr"), lr(FLAT)),
        (Range(of="l2 of gradient", tensors=("a",), above=0.0), norms(a=FLAT, b=at(FLAT, 3, 0.0))),
        (Range(of="l2 of gradient", above=0.0), norms()),
    ],
)
def test_stays_quiet_where_it_holds(invariant: Invariant, seen: Window) -> None:
    assert judge(invariant, seen) is None


def test_a_step_that_no_optimizer_applied_is_left_out() -> None:
    matrix = gradients("l2", {"a": at(FLAT, 5, np.nan)}, skipped=[5])
    seen = window(matrix, loss(at(FLAT, 5, np.nan)), skipped=[5])
    assert judge(Range(of="l2 of gradient"), seen) is None
    assert judge(Range(of="loss"), seen) is None
    kept = window(gradients("l2", {"a": at(FLAT, 5, np.nan)}))
    assert getattr(judge(Range(of="l2 of gradient"), kept), "step", None) == 5


def test_an_absent_gradient_is_found() -> None:
    seen = window(gradients("l2", {"a": FLAT, "b": FLAT}, absent=[(6, "b"), (8, "b")]))
    breach = judge(Present(of="l2 of gradient", tensors=("a", "b")), seen)
    assert breach is not None
    assert (breach.step, breach.last_step, breach.count, breach.names) == (6, 8, 2, ("b",))
    assert breach.value is None


def test_a_tensor_that_is_named_and_never_there_is_absent_from_the_start() -> None:
    breach = judge(Present(of="l2 of gradient", tensors=("a", "c")), norms())
    assert breach is not None
    assert (breach.step, breach.names) == (0, ("c",))


def test_a_tensor_is_due_at_the_steps_of_its_optimizer_alone() -> None:
    odd = [(int(step), "a") for step in STEPS if step % 2]
    parts = gradients("l2", {"a": FLAT, "b": FLAT}, absent=odd)
    seen = window(parts, series("lr", FLAT[::2], of="Adam", steps=STEPS[::2]))
    assert judge(Present(of="l2 of gradient", tensors=("a",), at="lr:Adam"), seen) is None
    assert judge(Present(of="l2 of gradient", tensors=("a",)), seen) is not None


def test_a_scalar_that_stops_is_absent_from_then_on() -> None:
    breach = judge(Present(of="loss"), window(loss(FLAT[:12]), series("lr", FLAT)))
    assert breach is not None
    assert (breach.step, breach.last_step) == (12, 19)


@pytest.mark.parametrize(("last", "step"), [(7, None), (8, 4), (19, 4)])
def test_an_exception_that_does_not_last_is_none(last: int, step: int | None) -> None:
    absent = [(n, "a") for n in range(4, last + 1)]
    gone = window(gradients("l2", {"a": FLAT, "b": FLAT}, absent=absent))
    zero = norms(a=FLAT, b=np.where((STEPS >= 4) & (last >= STEPS), 0.0, 1.0))
    for invariant, seen in (
        (Present(of="l2 of gradient", tensors=("a",), patience=5), gone),
        (Range(of="l2 of gradient", above=0.0, patience=5), zero),
    ):
        assert getattr(judge(invariant, seen), "step", None) == step


def test_an_exception_lasts_over_steps_at_which_nothing_is_judged() -> None:
    kept = {int(step) for step in STEPS[::4]}
    absent = [(int(step), "a") for step in STEPS if step not in kept]
    values = np.where((STEPS >= 4) & (STEPS <= 12), 0.0, 1.0)
    seen = window(gradients("l2", {"a": values, "b": FLAT}, absent=absent))
    for patience, step in ((9, 4), (10, None)):
        invariant = Range(of="l2 of gradient", above=0.0, patience=patience)
        assert getattr(judge(invariant, seen), "step", None) == step


def test_a_type_is_that_of_the_tensor() -> None:
    matrix = gradients("l2", {"a": FLAT, "b": FLAT})
    tensors = tuple(
        type(t)(kind=t.kind, name=t.name, dtype="float64" if t.name == "b" else "float32")
        for t in matrix.tensors
    )
    typed: Matrix = dataclasses.replace(matrix, tensors=tensors)
    breach = judge(Dtype(of="l2 of gradient", dtypes=("float32",)), window(typed))
    assert breach is not None
    assert (breach.step, breach.names, breach.value) == (0, ("b",), "float64")
    assert judge(Dtype(of="l2 of gradient", dtypes=("float32", "float64")), window(typed)) is None


def test_a_weight_that_was_zero_before_its_first_change_breaks_no_bound() -> None:
    matrix = dataclasses.replace(
        gradients("update_ratio", {"a": at(FLAT, 0, np.inf)}), kind="weight"
    )
    assert judge(Range(of="update_ratio of weight", at_most=2.0), window(matrix)) is None


@pytest.mark.parametrize(
    "invariant",
    [
        Range(of="lr:SGD"),
        Range(of="l2 of weight"),
        Range(of="l2 of gradient", tensors=("c",)),
        Present(of="loss"),
        Present(of="l2 of gradient", tensors=("c",)),
    ],
)
def test_says_that_nothing_is_there_to_judge(invariant: Invariant) -> None:
    with pytest.raises(NotEnoughData, match="was not captured"):
        judge(invariant, window(series("lr", FLAT), gradients("l2", {"a": FLAT})))
