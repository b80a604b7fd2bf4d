from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from tests.rules.windows import window

from mothtrap.core.diagnosis import diagnose, sentence_of
from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.failures import ScriptFailed
from mothtrap.core.facts.replicas import ReplicaDigests, UnwrappedDigests
from mothtrap.core.facts.workers import WorkerStarted
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.installed_rules import explains
from mothtrap.core.rule import Rule
from mothtrap.core.window import Window
from mothtrap.rules.loss_diverging import LossDiverging
from mothtrap.rules.loss_spike import LossSpike
from mothtrap.rules.ranks_diverge import ranks_diverge


def started(size: int) -> WorkerStarted:
    return WorkerStarted(
        step=0, rank=0, world_size=size, pid=1, host="h", framework="torch", versions={}
    )


def worker(rank: int, digests: dict[int, dict[str, str]], size: int = 3) -> Window:
    seen = [ReplicaDigests(step=step, digests=by) for step, by in digests.items()]
    return window(started(size), *seen, worker=rank, steps=20)


def joined(*workers: Window) -> Window:
    first, *others = workers
    return replace(first, peers=tuple(others))


def check(*workers: dict[int, dict[str, str]]) -> list[Finding]:
    return ranks_diverge().check(joined(*(worker(r, d) for r, d in enumerate(workers))))


SAME = {"fc1": "a", "fc2": "b"}


def test_quiet_while_all_are_equal() -> None:
    assert check({0: SAME, 1: SAME}, {0: SAME, 1: SAME}, {0: SAME}) == []


def test_names_the_odd_worker_the_module_and_the_first_step() -> None:
    other = SAME | {"fc2": "x"}
    (found,) = check({0: SAME, 3: SAME, 7: SAME}, {0: SAME, 3: other, 7: other}, {0: SAME, 3: SAME})
    assert (found.severity, found.step, found.last_step, found.count) == (Severity.ERROR, 1, 7, 2)
    assert (found.workers, found.layers) == ((1,), ("fc2",))
    assert found.evidence == {
        "modules": 1,
        "modules_compared": 2,
        "last_equal_step": 0,
        "onset_at_latest": 3,
    }
    assert found.message == (
        "the parameters of fc2 on rank 1 differ from those on the other ranks; they must be "
        "equal on all 3 ranks"
    )
    assert sentence_of(found).startswith("Diverging ranks in fc2 since a step between 1 and 3: ")
    assert "Without a wrapper" not in " ".join(found.fixes)


def test_of_two_workers_the_higher_is_named_and_of_three_different_ones_all() -> None:
    (two,) = check({0: {"fc": "a"}}, {0: {"fc": "b"}})
    (three,) = check({0: {"fc": "a"}}, {0: {"fc": "b"}}, {0: {"fc": "c"}})
    assert (two.workers, three.workers) == ((1,), (0, 1, 2))
    assert "are different on each of the ranks 0, 1, 2" in three.message


def test_pieces_of_different_workers_are_not_compared() -> None:
    with pytest.raises(NotEnoughData, match="no step has digests from two ranks"):
        check({0: {"fc (shard 1/2 of dim 0)": "a"}}, {0: {"fc (shard 2/2 of dim 0)": "b"}})


def test_says_why_it_cannot_judge() -> None:
    with pytest.raises(NotApplicable, match="one rank"):
        ranks_diverge().check(worker(0, {0: SAME}, size=1))
    with pytest.raises(NotEnoughData, match="at least two ranks"):
        ranks_diverge().check(worker(0, {0: SAME}, size=2))
    with pytest.raises(NotEnoughData, match="no step has digests from two"):
        check({0: SAME}, {1: SAME})
    with pytest.raises(NotApplicable, match="no recorded parameter"):
        check({}, {})


def by_hand(*digests: dict[int, str], initial: str = "0") -> list[Finding]:
    """Workers that keep `fc` equal, and have these digests of `head`."""
    workers = []
    for rank, own in enumerate(digests):
        facts = [
            UnwrappedDigests(
                step=step,
                digests={"fc": f"fc{step}", "head": digest},
                initial={} if step else {"fc": "0", "head": initial},
            )
            for step, digest in own.items()
        ]
        workers.append(window(started(2), *facts, worker=rank, steps=20))
    return ranks_diverge().check(joined(*workers))


def test_without_a_wrapper_a_module_that_is_not_averaged_is_a_warning() -> None:
    (found,) = by_hand({0: "a", 1: "b", 3: "c"}, {0: "x", 1: "y", 3: "z"})
    assert (found.severity, found.step, found.workers) == (Severity.WARNING, 0, (1,))
    assert found.layers == ("head",)
    assert "they started equal on both ranks" in found.message
    assert found.fixes[0].startswith("Without a wrapper")
    (found,) = by_hand({0: "a", 1: "b", 3: "c", 7: "d"}, {0: "a", 1: "b", 3: "z", 7: "y"})
    assert (found.step, found.evidence["last_equal_step"]) == (2, 1)


def test_without_a_wrapper_weights_that_become_equal_again_are_averaged_now_and_then() -> None:
    assert by_hand({0: "a", 1: "b", 3: "c"}, {0: "x", 1: "b", 3: "z"}) == []


def test_models_that_are_not_averaged_are_not_compared() -> None:
    facts = [
        [
            UnwrappedDigests(step=step, digests={"fc": f"{rank}{step}"}, initial={"fc": "0"})
            for step in (0, 1, 3)
        ]
        for rank in (0, 1)
    ]
    workers = [window(started(2), *own, worker=r, steps=20) for r, own in enumerate(facts)]
    with pytest.raises(NotApplicable, match="no recorded parameter"):
        ranks_diverge().check(joined(*workers))


def test_the_finding_can_be_stored() -> None:
    (found,) = check({0: {"fc": "a"}}, {0: {"fc": "b"}})
    assert msgspec.json.decode(msgspec.json.encode(found), type=Finding) == found


@pytest.mark.parametrize("rule", [LossDiverging, LossSpike])
@pytest.mark.parametrize("workers", [(1,), (0, 1)])
def test_a_loss_that_jumps_on_the_odd_rank_is_its_effect(
    rule: type[Rule], workers: tuple[int, ...]
) -> None:
    """A rank with different weights has a different loss: one story, with the ranks as its root."""
    other = SAME | {"fc2": "x"}
    (cause,) = check({0: SAME, 3: SAME, 7: SAME}, {0: SAME, 3: other, 7: other}, {0: SAME, 3: SAME})
    jump = rule().finding(window(steps=20), message="", step=4, workers=workers)
    (story,) = diagnose([jump, cause], explains()).stories
    assert story.root == cause.fingerprint
    assert story.effects == (jump.fingerprint,)


def test_a_loss_that_jumped_before_the_ranks_differed_is_no_effect() -> None:
    other = SAME | {"fc2": "x"}
    (cause,) = check({9: SAME, 300: other}, {9: SAME, 300: SAME})
    jump = LossSpike().finding(window(steps=12), message="", step=1, workers=(0, 1))
    assert cause.step > jump.step
    assert len(diagnose([jump, cause], explains()).stories) == 2


def started_apart(rank: int, *, gradients: str = "") -> Window:
    seen = [
        UnwrappedDigests(
            step=step,
            digests={"fc1": f"{step} of {rank}", "fc2": f"{step}"},
            initial={"fc1": f"of {rank}", "fc2": "same"} if step == 0 else {},
            gradients=f"{step}{gradients}",
        )
        for step in (0, 1, 3)
    ]
    return window(started(2), *seen, worker=rank, steps=20)


def test_equal_gradients_of_different_weights_are_reported() -> None:
    [found] = ranks_diverge().check(joined(started_apart(0), started_apart(1)))
    assert (found.severity, found.layers, found.workers) == (Severity.WARNING, ("fc1",), (1,))
    assert "started from different weights" in found.message
    assert "same initial weights" in found.fixes[0]


def test_quiet_on_different_weights_with_different_gradients() -> None:
    both = joined(started_apart(0, gradients="a"), started_apart(1, gradients="b"))
    assert ranks_diverge().check(both) == []


def test_an_exception_of_the_wrapper_names_the_cause() -> None:
    first, second = worker(0, {0: SAME}, 2), worker(1, {0: SAME | {"fc2": "x"}}, 2)
    assert ranks_diverge().check(joined(first, second))
    failed = ScriptFailed(step=1, kind="replicas", error="RuntimeError: ...", sentence="...")
    ended = window(started(2), failed, *first.seen(ReplicaDigests), worker=0, steps=20)
    with pytest.raises(NotApplicable, match="could not average"):
        ranks_diverge().check(joined(ended, second))
