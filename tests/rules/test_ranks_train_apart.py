from __future__ import annotations

import pytest
from tests.rules.test_ranks_diverge import joined, started
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.replicas import ReplicaDigests, UnwrappedDigests
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.window import Window
from mothtrap.rules.ranks_train_apart import ranks_train_apart

STEPS = (0, 1, 3, 7, 15, 31)


def worker(
    rank: int,
    *,
    differ: bool = True,
    calls: int | None = 0,
    steps: tuple[int, ...] = STEPS,
    equal_at: tuple[int, ...] = (0,),
    name: str = "fc",
    gradients: str = "g",
) -> Window:
    own = rank if differ else 0
    seen = [
        UnwrappedDigests(
            step=step,
            digests={name: f"{step} of {own}", "frozen": "f"},
            initial={name: "start", "frozen": "f"} if step == 0 else {},
            gradients=gradients and f"{gradients}{step} of {own}",
            collectives=calls,
            begun={at: f"{at}" if at in equal_at else f"{at} of {own}" for at in range(step + 1)},
        )
        for step in steps
    ]
    return window(started(2), *seen, worker=rank, steps=40)


def check(*workers: Window) -> list[Finding]:
    return ranks_train_apart().check(joined(*workers))


def test_ranks_that_exchange_nothing_are_reported() -> None:
    [found] = check(worker(0), worker(1))
    assert (found.severity, found.step, found.last_step) == (Severity.WARNING, 0, 31)
    assert found.workers == (0, 1)
    assert "separate models" in found.message
    assert "DistributedDataParallel" in found.fixes[0]


def test_quiet_if_a_step_exchanges_anything() -> None:
    assert check(worker(0, calls=4), worker(1, calls=4)) == []
    assert check(worker(0, calls=None), worker(1, calls=None)) == []


def test_quiet_if_weights_are_averaged_now_and_then() -> None:
    times = (0, 10, 20, 30)
    assert check(worker(0, equal_at=times), worker(1, equal_at=times)) == []


def test_quiet_on_equal_parameters_and_on_different_models() -> None:
    assert check(worker(0, differ=False), worker(1, differ=False)) == []
    assert check(worker(0), worker(1, name="other")) == []


def test_says_why_it_cannot_judge() -> None:
    with pytest.raises(NotApplicable, match="one rank"):
        check(window(started(1), steps=5))
    with pytest.raises(NotEnoughData, match="32 steps of all ranks, saw 16"):
        check(worker(0, steps=STEPS[:-1]), worker(1, steps=STEPS[:-1]))
    with pytest.raises(NotEnoughData, match="gradients"):
        check(worker(0, gradients=""), worker(1, gradients=""))
    wrapped = window(started(2), ReplicaDigests(step=0, digests={"fc": "a"}), worker=1, steps=40)
    with pytest.raises(NotApplicable, match="wrapper"):
        check(worker(0), wrapped)
