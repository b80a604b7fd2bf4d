"""A process without its own snapshot compares nothing and writes its own result."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mothtrap.adapters.torch.replaying import beginning
from mothtrap.core.replays import ReplayPlan


@pytest.mark.parametrize(
    ("workers", "rank", "size", "own", "compares"),
    [
        ((0, 1), 1, 2, 1, True),
        ((0, 1), 3, 4, 3, False),
        ((1,), 0, 2, 0, False),
        ((1,), 0, 1, 1, True),  # alone, it may do the step of any process
        ((1,), None, 1, 1, True),
    ],
)
def test_who_does_whose_step(
    monkeypatch: pytest.MonkeyPatch,
    workers: tuple[int, ...],
    rank: int | None,
    size: int,
    own: int,
    compares: bool,
) -> None:
    played: list[Any] = []

    def play(plan: ReplayPlan, _: object, number: int | None) -> Any:
        mine = number if number in plan.workers else min(plan.workers)
        comparison = SimpleNamespace(asked=True)
        comparison.expects_nothing = lambda: setattr(comparison, "asked", False)
        outcome = SimpleNamespace(rank=mine)
        played.append(SimpleNamespace(plan=plan, outcome=outcome, comparison=comparison))
        return played[-1]

    monkeypatch.setattr(beginning, "_play", play)
    monkeypatch.setattr(beginning, "_tracer", lambda: None)
    monkeypatch.setattr(beginning, "ProcessHooks", lambda _: None)
    monkeypatch.setattr(beginning, "_wait_for_rank", lambda _: None)
    plan = ReplayPlan(step=3, workers=dict.fromkeys(workers, ""), scratch="")
    beginning.begin(plan, rank, size)
    [replaying] = played
    assert (replaying.outcome.rank, replaying.comparison.asked) == (own, compares)
