from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.reader.runs import closing, info, write_worker
from tests.store.records import record

from mothtrap.core.digests import MODULUS
from mothtrap.core.records import Scalar, StepRecord
from mothtrap.reader.compare.difference import Comparison, compare
from mothtrap.reader.compare.first_divergence import FirstDivergence
from mothtrap.reader.compare.likely_cause import Cause, likely_cause
from mothtrap.reader.run import Run, open_run
from mothtrap.reader.series.windows import WindowBuilder
from mothtrap.store import layout

STEPS = 12
Change = Callable[[int, dict[str, float]], None]


def scalars(step: int, rank: int = 0) -> dict[str, float]:
    """Return the numbers of a step of a healthy training, in the order of execution."""
    state = {"digest:weight:a": 11, "digest:bias:a": 12} if step == 0 else {}
    return state | {
        "digest:batch:loader 1.0": 1000 + step + 100 * rank,
        "digest:batch:loader 1.1": 2000 + step + 100 * rank,
        "digest:rows:loader 1": 3000 + step * step + 100 * rank,
        "digest:rng.python": 5,
        "digest:rng.torch": 4000 + step,
        "loss:train.py:9 SGD": 1.0 / (step + 1),
        "lr:SGD": 0.1,
    }


def of(step: int, numbers: dict[str, float]) -> StepRecord:
    parts = [(name.partition(":"), value) for name, value in numbers.items()]
    told = tuple(Scalar(name, owner, float(value)) for (name, _, owner), value in parts)
    return record(step, tensors=0, scalars=told, optimizers=("SGD",))


def stored(folder: Path, name: str, change: Change | None = None, *, steps: int = STEPS) -> Run:
    """Store a run of one worker; `change` may change the numbers of a step."""
    attempt = layout.create_run(folder / name, info(id=name))
    records = []
    for step in range(steps):
        numbers = scalars(step)
        if change is not None:
            change(step, numbers)
        records.append(of(step, numbers))
    write_worker(attempt, *records, closing(steps))
    return open_run(folder / name)


def compared(folder: Path, change: Change, **options: object) -> tuple[Comparison, Cause | None]:
    first, second = stored(folder, "first"), stored(folder, "second", change)
    found = compare(first, second, **options)  # type: ignore[arg-type]
    cause = likely_cause(first, second, found.first, ()) if found.first else None
    return found, cause


def at(step: int, name: str, value: float) -> Change:
    def change(now: int, numbers: dict[str, float]) -> None:
        if now >= step:
            numbers[name] = value + now

    return change


def test_equal_runs_have_no_divergence(tmp_path: Path) -> None:
    found, _ = compared(tmp_path, lambda *_: None)
    assert (found.first, found.steps, found.exact) == (None, STEPS, True)
    assert {c.phase for c in found.compared} == {
        "weights",
        "batch",
        "random numbers",
        "loss",
        "settings",
    }


def other_rows(step: int, numbers: dict[str, float]) -> None:
    if step == 5:
        numbers |= {"digest:batch:loader 1.0": 7, "digest:rows:loader 1": 8}


CASES = [
    (at(0, "digest:weight:a", 99), 0, "weight:a", "initialisation"),
    (other_rows, 5, "batch:loader 1.0", "data"),
    (at(5, "digest:rng.torch", 99), 5, "rng.torch", "random numbers"),
    (at(0, "digest:rng.torch", 99), 0, "rng.torch", "random numbers"),
    (at(5, "loss:train.py:9 SGD", 99), 5, "loss:train.py:9 SGD", "code"),
    (at(5, "lr:SGD", 0.2), 5, "lr:SGD", "configuration"),
]


@pytest.mark.parametrize(("change", "step", "what", "kind"), CASES)
def test_the_first_thing_in_the_order_of_execution_is_told(
    tmp_path: Path, change: Change, step: int, what: str, kind: str
) -> None:
    found, cause = compared(tmp_path, change)
    assert found.first is not None
    assert cause is not None
    assert (found.first.step, found.first.what, cause.kind) == (step, what, kind)


@pytest.mark.parametrize("step", [0, 5])
def test_a_draw_between_two_micro_batches_is_told_so(tmp_path: Path, step: int) -> None:
    run = stored(tmp_path, "first")
    diverged = FirstDivergence(
        step=step,
        phase="random numbers",
        what="rng.torch",
        first="a",
        second="b",
        method="digest",
        micro_batch=2,
    )
    sentence = likely_cause(run, run, diverged, ()).sentence
    assert sentence.endswith(f"between the forward passes of micro-batches 1 and 2 of step {step}")


def test_what_follows_from_the_first_is_not_told_instead(tmp_path: Path) -> None:
    def change(step: int, numbers: dict[str, float]) -> None:
        if step >= 4:
            for name in numbers:
                numbers[name] += 1

    found, _ = compared(tmp_path, change)
    assert found.first is not None
    assert (found.first.step, found.first.what) == (4, "batch:loader 1.0")
    assert found.first.also == ("batch:loader 1.1",)


def test_a_loss_that_differs_in_its_last_bit_is_numerics(tmp_path: Path) -> None:
    def change(step: int, numbers: dict[str, float]) -> None:
        if step == 7:
            numbers["loss:train.py:9 SGD"] *= 1 + 2e-7

    found, cause = compared(tmp_path, change)
    assert found.first is not None
    assert cause is not None
    assert (found.first.step, cause.kind) == (7, "numerics")
    assert any("digests = true" in text for text in cause.evidence)


def test_within_a_tolerance_it_is_the_same(tmp_path: Path) -> None:
    def change(step: int, numbers: dict[str, float]) -> None:
        numbers["loss:train.py:9 SGD"] *= 1 + 1e-6

    found, _ = compared(tmp_path, change, rtol=1e-5)
    assert (found.first, found.exact) == (None, False)


def test_swapped_batches_are_another_order(tmp_path: Path) -> None:
    def change(step: int, numbers: dict[str, float]) -> None:
        if step in (3, 8):
            numbers |= {k: v for k, v in scalars(11 - step).items() if ":loader 1" in k}

    found, cause = compared(tmp_path, change)
    assert found.first is not None
    assert cause is not None
    assert (found.first.step, cause.kind) == (3, "data order")
    assert "steps 3 to 8" in cause.evidence[0]


def test_rows_that_change_places_inside_a_batch_are_another_order(tmp_path: Path) -> None:
    def change(step: int, numbers: dict[str, float]) -> None:
        if step == 3:
            numbers["digest:batch:loader 1.0"] += 1

    _, cause = compared(tmp_path, change)
    assert cause is not None
    assert cause.kind == "data order"
    assert "in a different order" in cause.evidence[0]


def test_a_generator_that_no_one_draws_from_is_no_divergence(tmp_path: Path) -> None:
    def change(_: int, numbers: dict[str, float]) -> None:
        numbers["digest:rng.python"] = 6

    found, _ = compared(tmp_path, change)
    assert found.first is None
    assert "no step draws from it" in found.notes[0]


def test_a_generator_that_is_drawn_from_later_is_one(tmp_path: Path) -> None:
    def change(step: int, numbers: dict[str, float]) -> None:
        numbers["digest:rng.python"] = 6 + step // 5

    found, _ = compared(tmp_path, change)
    assert found.first is not None
    assert (found.first.step, found.first.what) == (0, "rng.python")


def test_an_additional_buffer_is_told_as_code(tmp_path: Path) -> None:
    def change(step: int, numbers: dict[str, float]) -> None:
        if step == 0:
            numbers["digest:buffer:a.scale"] = 3

    found, cause = compared(tmp_path, change)
    assert found.first is not None
    assert cause is not None
    assert (found.first.what, found.first.missing, cause.kind) == ("buffer:a.scale", True, "code")


def test_what_is_ignored_is_not_compared(tmp_path: Path) -> None:
    change = at(5, "digest:rng.torch", 99)
    assert compared(tmp_path, change, ignore=("rng.*",))[0].first is None


def test_a_loss_whose_line_has_moved_is_the_same_loss(tmp_path: Path) -> None:
    def change(_: int, numbers: dict[str, float]) -> None:
        numbers["loss:train.py:12 SGD"] = numbers.pop("loss:train.py:9 SGD")

    found, _ = compared(tmp_path, change)
    assert found.first is None
    assert "loss" in {c.phase for c in found.compared}


def test_the_steps_of_the_shorter_run_are_compared(tmp_path: Path) -> None:
    first, second = stored(tmp_path, "first"), stored(tmp_path, "second", steps=5)
    assert compare(first, second).steps == 5
    assert compare(first, second).first is None


def test_two_workers_and_one_are_compared_as_one_each(tmp_path: Path) -> None:
    attempt = layout.create_run(tmp_path / "two", info(id="two"))
    for rank in (0, 1):
        records = [of(step, scalars(step, rank)) for step in range(STEPS)]
        write_worker(attempt, *records, closing(STEPS))

    def whole(step: int, numbers: dict[str, float]) -> None:
        rows = sum(scalars(step, rank)["digest:rows:loader 1"] for rank in (0, 1))
        numbers["digest:rows:loader 1"] = rows % MODULUS
        numbers["loss:train.py:9 SGD"] *= 1 + 1e-6

    def other(step: int, numbers: dict[str, float]) -> None:
        whole(step, numbers)
        numbers["digest:rows:loader 1"] += step == 6

    two, one = open_run(tmp_path / "two"), stored(tmp_path, "one", whole)
    found = compare(two, one)
    assert (found.first, found.exact, found.steps) == (None, False, STEPS)
    assert "2 and 1 ranks" in found.notes[0]
    diverged = compare(two, stored(tmp_path, "other", other)).first
    assert diverged is not None
    assert (diverged.step, diverged.what) == (6, "rows of the batch")


def test_runs_without_anything_in_common_compare_nothing(tmp_path: Path) -> None:
    empty = layout.create_run(tmp_path / "empty", info(id="empty"))
    write_worker(empty, closing(0))
    found = compare(stored(tmp_path, "first"), open_run(tmp_path / "empty"))
    assert (found.first, found.compared, found.steps) == (None, (), 0)


def test_digests_are_shown_where_asked_for_by_name_alone(tmp_path: Path) -> None:
    run = stored(tmp_path, "first")
    assert {s.name for s in run.scalars()} == {"loss", "lr"}
    assert {s.of for s in run.scalars("digest:rng.*")} == {"rng.python", "rng.torch"}


def test_no_window_of_a_rule_holds_them() -> None:
    builder = WindowBuilder(())
    builder.feed(of(0, scalars(0)))
    assert {s.name for s in builder.window(0.0).series} == {"loss", "lr"}
