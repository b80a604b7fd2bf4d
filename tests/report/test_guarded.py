"""Report of the guard of a run."""

from __future__ import annotations

from unittest.mock import Mock

from mothtrap.core.facts.guards import StepGuarded
from mothtrap.report.guarded import guarded, guarded_lines
from mothtrap.report.style import Style


def told(step: int, fault: str = "loss", action: str = "skipped") -> StepGuarded:
    return StepGuarded(
        step=step,
        action=action,  # type: ignore[arg-type]
        fault=fault,  # type: ignore[arg-type]
        reason=f"a {fault} at {step}",
    )


def lines(*seen: StepGuarded) -> list[str]:
    return guarded_lines(guarded(Mock(observations=lambda _: seen)), Style())


def test_nothing_is_said_where_nothing_was_done() -> None:
    assert lines() == []


def test_steps_are_counted_by_what_was_done_with_them() -> None:
    assert lines(told(4), told(7, "gradient"), told(5), told(9, "norm", "stopped")) == [
        "  skipped by the guard: 3 steps (4-5, 7); at step 4, a loss at 4",
        "  not applied by the guard, which stopped the job: 1 step (9): a norm at 9",
    ]


def test_a_step_of_several_workers_counts_once_and_names_who_is_to_blame() -> None:
    (found,) = guarded(
        Mock(observations=lambda _: (told(4, "worker"), told(4, "gradient"), told(4, "worker")))
    )
    assert (found.count, found.faults, found.reason) == (1, {"gradient": 1}, "a gradient at 4")


def test_of_very_many_steps_the_first_ranges_are_named() -> None:
    (line,) = lines(*[told(2 * step) for step in range(1000)])
    assert line.startswith("  skipped by the guard: 1,000 steps (0, 2, 4,")
    assert "14 ...); at step 0, " in line


def test_steps_in_a_row_are_one_range_however_many_they_are() -> None:
    (line,) = lines(*[told(step) for step in range(22, 180)])
    assert line.startswith("  skipped by the guard: 158 steps (22-179); at step 22, ")
