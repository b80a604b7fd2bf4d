"""All ranks step, or none does; ranks that do not arrive are waited for only once."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from tests.adapters.torch.watched import watched
from tests.harness.programs import FOLDER
from tests.harness.running import TORCHRUN, Outcome, environment, observed, run
from torch import nn

from mothtrap.adapters.torch.guard.agreement import Agreement
from mothtrap.core.config import Config
from mothtrap.core.facts.captures import Blind
from mothtrap.core.facts.guards import StepGuarded
from mothtrap.reader.run import Run, open_run


def job(folder: Path, kind: str, policy: str) -> tuple[Outcome, Run]:
    script = [TORCHRUN, "--standalone", "--nproc-per-node", "2"]
    script += [str(FOLDER / "guarded_ranks.py"), kind]
    command = observed(["--on-nonfinite", policy, "--", *script], runs_dir=folder, name="job")
    outcome = run(command, cwd=folder, env=environment(OMP_NUM_THREADS="1"))
    return outcome, open_run(folder / "job")


def ends(outcome: Outcome) -> dict[int, tuple[int, str]]:
    """Return, by rank, how many steps it applied and its weights."""
    found = re.findall(r"rank (\d) applied (\d+) (\w+)", outcome.stdout)
    return {int(rank): (int(steps), digest) for rank, steps, digest in found}


@pytest.mark.parametrize("kind", ["loss", pytest.param("gradient", marks=pytest.mark.full)])
def test_what_is_unsound_on_one_rank_is_left_out_on_all(tmp_path: Path, kind: str) -> None:
    outcome, seen = job(tmp_path, kind, "skip")
    assert outcome.returncode == 0, outcome.stderr
    found = ends(outcome)
    assert found[0] == found[1]
    assert found[0][0] == 7
    told = seen.observations(StepGuarded)
    assert sorted(o.fault for o in told) == sorted([kind, "worker"])
    assert {o.step for o in told} == {3}
    assert "skipped by the guard: 1 step (3): " in outcome.stderr
    assert "another worker" not in outcome.stderr.rpartition("skipped by the guard")[2]


def test_a_stop_on_one_rank_stops_all_with_exit_code_3(tmp_path: Path) -> None:
    outcome, seen = job(tmp_path, "gradient", "stop")
    assert outcome.returncode == 3, outcome.stderr
    assert ends(outcome) == {}
    assert {o.action for o in seen.observations(StepGuarded)} == {"stopped"}
    assert len(seen.observations(StepGuarded)) == 2
    assert seen.stopped_at == 3


def test_ranks_that_join_with_uneven_batches_are_not_held_up(tmp_path: Path) -> None:
    began_s = time.monotonic()
    outcome, seen = job(tmp_path, "join", "skip")
    assert outcome.returncode == 0, outcome.stderr
    assert {rank: steps for rank, (steps, _) in ends(outcome).items()} == {0: 8, 1: 5}
    assert not any("other workers" in blind.what for blind in seen.observations(Blind))
    assert time.monotonic() - began_s < 60


class Ranks:
    """Two ranks, one of which does not run: its message for each step is set in advance."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *other: tuple[int, int]) -> None:
        self.other = list(other)
        distributed = torch.distributed
        monkeypatch.setattr(distributed, "is_initialized", lambda: True)
        monkeypatch.setattr(distributed, "get_world_size", lambda: 2)
        monkeypatch.setattr(distributed, "new_group", lambda **_: object())
        monkeypatch.setattr(distributed, "all_reduce", self.reduce)
        self.grouper = Mock(step=100)
        self.recorder = Mock()
        self.agreement = Agreement(
            Mock(recorder=self.recorder, book=Mock(roots=()), grouper=self.grouper)
        )

    def reduce(self, values: torch.Tensor, op: object, group: object) -> None:
        assert op == torch.distributed.ReduceOp.MAX
        unsound, step = self.other.pop(0)
        torch.maximum(values, torch.tensor((unsound, -step, step)), out=values)


def test_uneven_batches_leave_each_rank_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = Ranks(monkeypatch)
    model = Mock(spec=nn.parallel.DistributedDataParallel)
    model._join_config = Mock(enable=True)
    root = Mock(module=lambda: model)
    agreement = Agreement(Mock(book=Mock(roots=[root]), grouper=ranks.grouper))
    assert not agreement.holds
    assert agreement.worst(True)


def test_all_hear_the_worst_of_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = Ranks(monkeypatch, (0, 0), (1, 1), (0, 2))
    found = []
    for unsound in (False, False, True):
        found.append(ranks.agreement.worst(unsound))
        ranks.grouper.step += 1
    assert found == [False, True, True]
    assert ranks.agreement.holds
    assert not ranks.recorder.notes.blind.called


def test_what_is_said_of_another_step_is_not_taken_for_this_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # the other rank agrees twice on its first step
    ranks = Ranks(monkeypatch, (0, 0), (1, 0))
    assert not ranks.agreement.worst(False)
    ranks.grouper.step += 1
    assert not ranks.agreement.worst(False)
    assert not ranks.agreement.holds
    assert ranks.agreement.worst(True)  # alone from here on
    (step, what, reason), _ = ranks.recorder.notes.blind.call_args
    assert (step, what) == (101, "what other ranks report about a step")
    assert "different steps (0 to 1 since the start)" in reason
    assert ranks.recorder.notes.blind.call_count == 1


@pytest.mark.parametrize("fused", [False, True])
def test_each_rank_asks_once_per_optimizer_whether_its_scaler_overflows_or_not(
    monkeypatch: pytest.MonkeyPatch, fused: bool
) -> None:
    def asked(overflows: int | None) -> list[tuple[int, bool]]:
        found: list[tuple[int, bool]] = []

        def worst(self: Any, unsound: bool) -> bool:
            found.append((self._job.grouper.step, unsound))
            return False

        monkeypatch.setattr(Agreement, "worst", worst)
        models = nn.Linear(2, 2), nn.Linear(2, 1)
        with watched(config=Config(on_nonfinite="stop")):
            both = [torch.optim.SGD(m.parameters(), lr=0.1, fused=fused) for m in models]
            scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
            for step in range(3):
                scaler.scale(models[1](models[0](torch.ones(3, 2))).mean()).backward()
                if step == 1 and overflows is not None:
                    models[overflows].weight.grad[0, 0] = torch.inf  # type: ignore[index]
                for optimizer in both:
                    scaler.step(optimizer)
                    optimizer.zero_grad()
                scaler.update()
        return found

    every = [(step, False) for step in range(3) for _ in range(2)]
    assert asked(None) == asked(0) == asked(1) == every


def test_when_the_others_do_not_answer_a_worker_decides_alone_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def silent(*_: object, **__: object) -> None:
        asked.append(1)
        raise RuntimeError("timed out")

    distributed = torch.distributed
    monkeypatch.setattr(distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(distributed, "get_world_size", lambda: 2)
    monkeypatch.setattr(distributed, "new_group", lambda **_: object())
    monkeypatch.setattr(distributed, "all_reduce", silent)
    recorder = Mock()
    agreement = Agreement(Mock(recorder=recorder, book=Mock(roots=()), grouper=Mock(step=7)))
    assert [agreement.worst(True), agreement.worst(False), agreement.worst(True)] == [
        True,
        False,
        True,
    ]
    assert len(asked) == 1
    (step, what, reason), _ = recorder.notes.blind.call_args
    assert (step, what) == (7, "what other ranks report about a step")
    assert "timed out" in reason
    assert recorder.notes.blind.call_count == 1


def test_a_job_of_one_asks_no_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.distributed, "new_group", None)
    agreement = Agreement(Mock())
    assert [agreement.worst(False), agreement.worst(True)] == [False, True]
