"""Overviews of tensors match the rows, in memory that does not grow with steps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.web.made_runs import MadeRun

from mothtrap.core.steps import Mode
from mothtrap.reader.files.worker_view import WorkerView
from mothtrap.reader.run import Run, open_run
from mothtrap.web.overviews import ExactRows, Overview

STEPS = 700


def view_of(run: Run) -> WorkerView:
    """The only worker's only attempt."""
    return run.parts()[0].view


@pytest.fixture
def norms() -> list[float]:
    """A norm for each step, some of them not finite."""
    found = np.random.default_rng(0).lognormal(size=STEPS)
    found[[5, 300, 301]] = np.nan
    return [float(norm) for norm in found]


def written(path: Path, norms: list[float], tensors: int = 2) -> MadeRun:
    run = MadeRun(path, tensors=tensors)
    run.train([1.0] * len(norms), norms)
    return run


@pytest.mark.parametrize("columns", [8, 64, 1024])
def test_columns_have_the_extremes_of_their_rows(
    tmp_path: Path, norms: list[float], columns: int
) -> None:
    written(tmp_path / "run", norms).end()
    view = view_of(open_run(tmp_path / "run"))
    overview = Overview(view, "l2", columns=columns)
    overview.follow()
    buckets = overview.buckets(1, STEPS)
    assert len(buckets.step_B) == -(-STEPS // buckets.width) <= columns
    exact = ExactRows(view, frozenset({0, 1}), "l2", Mode.TRAIN)
    exact.follow()
    step_N, value_N, bad_N = exact.rows(1, 0, STEPS)
    np.testing.assert_array_equal(step_N, np.arange(STEPS))
    for place, step in enumerate(buckets.step_B.tolist()):
        inside = step_N // buckets.width == step // buckets.width
        finite = value_N[inside & np.isfinite(value_N)]
        extremes = (finite.min(), finite.max(), finite[-1]) if len(finite) else (np.nan,) * 3
        found = (buckets.min_B[place], buckets.max_B[place], buckets.last_B[place])
        np.testing.assert_array_equal(found, np.float32(extremes))
        assert bool(buckets.bad_B[place]) == bool(bad_N[inside].any())


def test_following_says_the_same_as_reading_at_once(tmp_path: Path, norms: list[float]) -> None:
    run = MadeRun(tmp_path / "run", tensors=40)
    opened = open_run(tmp_path / "run")
    followed = None
    for begin in range(0, STEPS, 97):
        part = norms[begin : begin + 97]
        run.train([1.0] * len(part), part)
        opened.refresh()
        followed = followed or Overview(view_of(opened), "l2", columns=32)
        followed.follow()
    run.end()
    whole = Overview(view_of(open_run(tmp_path / "run")), "l2", columns=32)
    whole.follow()
    assert followed is not None
    for tensor in (0, 39):
        for one, other in zip(
            followed.buckets(tensor, STEPS), whole.buckets(tensor, STEPS), strict=True
        ):
            np.testing.assert_array_equal(one, other)


def test_memory_does_not_grow_with_steps(tmp_path: Path) -> None:
    sizes = []
    for steps in (50, 2000):
        written(tmp_path / str(steps), [1.0] * steps).end()
        overview = Overview(view_of(open_run(tmp_path / str(steps))), "l2", columns=32)
        overview.follow()
        sizes.append(overview.bytes)
    assert sizes[0] == sizes[1]


def test_a_tensor_that_never_came_has_no_columns(tmp_path: Path) -> None:
    written(tmp_path / "run", [1.0, 2.0]).end()
    overview = Overview(view_of(open_run(tmp_path / "run")), "l2")
    overview.follow()
    assert len(overview.buckets(1000, STEPS).step_B) == 0


def test_what_a_later_attempt_does_again_is_left_out(tmp_path: Path) -> None:
    written(tmp_path / "run", [1.0] * 10).end()
    overview = Overview(view_of(open_run(tmp_path / "run")), "l2")
    overview.follow()
    np.testing.assert_array_equal(overview.buckets(0, 4).step_B, np.arange(4))
