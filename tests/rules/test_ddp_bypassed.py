from __future__ import annotations

import pytest
from tests.rules.test_ranks_diverge import joined, started
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable
from mothtrap.core.fact import Fact
from mothtrap.core.facts.replicas import ReplicaDigests, WrapperBypassed
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.ddp_bypassed import ddp_bypassed


def bypassed(step: int, steps: int, called: str = "Sequential") -> WrapperBypassed:
    return WrapperBypassed(
        step=step,
        wrapper="DistributedDataParallel",
        called=called,
        steps=steps,
        world_size=2,
        location="train.py:9",
    )


def check(*workers: tuple[Fact, ...]) -> list[Finding]:
    windows = [
        window(started(2), *seen, worker=rank, steps=20)  # type: ignore[arg-type]
        for rank, seen in enumerate(workers)
    ]
    return ddp_bypassed().check(joined(*windows))


def digests(value: str) -> ReplicaDigests:
    return ReplicaDigests(step=1, digests={"fc": value})


def test_warns_of_one_worker_alone() -> None:
    (found,) = check((bypassed(2, 1), bypassed(11, 10)))
    assert (found.severity, found.step, found.count) == (Severity.WARNING, 2, 10)
    assert found.location == "train.py:9"
    assert (
        "Sequential was called directly instead of through its DistributedDataParallel"
        in found.message
    )


def test_gradients_averaged_by_hand_stay_a_warning() -> None:
    (found,) = check((bypassed(0, 1), digests("a")), (bypassed(0, 1), digests("a")))
    assert (found.severity, found.evidence["parameters_differ"]) == (Severity.WARNING, False)


def test_an_error_once_the_workers_differ() -> None:
    (found,) = check((bypassed(0, 1), digests("a")), (bypassed(0, 1), digests("b")))
    assert (found.severity, found.workers) == (Severity.ERROR, (0, 1))
    assert "parameters of the ranks differ" in found.message


def test_forwards_that_all_ran_without_averaging_have_their_own_words() -> None:
    (found,) = check((bypassed(0, 1, called=""),))
    assert "no_sync()" in found.message
    assert "no_sync()" in found.fixes[0]


def test_quiet_without_steps_past_the_wrapper() -> None:
    assert check((digests("a"),), (digests("b"),)) == []


def test_one_worker_has_nothing_to_bypass() -> None:
    with pytest.raises(NotApplicable, match="one rank"):
        ddp_bypassed().check(window(started(1), bypassed(0, 1)))
