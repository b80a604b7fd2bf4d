"""All ranks step, or none does; ranks that do not come are waited for once."""

from __future__ import annotations

import re
import time
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from tests.harness.programs import FOLDER
from tests.harness.running import TORCHRUN, Outcome, environment, observed, run

from mothtrap.adapters.torch.reproduce.guarding.agreement import Agreement
from mothtrap.core.observations import Blind, StepGuarded
from mothtrap.reader.run import Run, open_run


def job(folder: Path, kind: str, policy: str) -> tuple[Outcome, Run]:
    script = [TORCHRUN, "--standalone", "--nproc-per-node", "2"]
    script += [str(FOLDER / "guarded_ranks.py"), kind]
    command = observed(["--on-nonfinite", policy, "--", *script], runs_dir=folder, name="job")
    outcome = run(command, cwd=folder, env=environment(OMP_NUM_THREADS="1"))
    return outcome, open_run(folder / "job")


def ends(outcome: Outcome) -> dict[int, tuple[int, str]]:
    """By rank, how many steps it applied and what its weights are."""
    found = re.findall(r"rank (\d) applied (\d+) (\w+)", outcome.stdout)
    return {int(rank): (int(steps), digest) for rank, steps, digest in found}


@pytest.mark.parametrize("kind", ["loss", "gradient"])
def test_what_is_unsound_on_one_rank_is_left_out_on_all(tmp_path: Path, kind: str) -> None:
    outcome, seen = job(tmp_path, kind, "skip")
    assert outcome.returncode == 0, outcome.stderr
    found = ends(outcome)
    assert found[0] == found[1]
    assert found[0][0] == 7
    told = seen.observations(StepGuarded)
    assert sorted(o.fault for o in told) == sorted([kind, "worker"])
    assert {o.step for o in told} == {3}
    assert "left out by the guard: 1 step (3): " in outcome.stderr
    assert "another worker" not in outcome.stderr.rpartition("left out by the guard")[2]


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
    (step, what, reason), _ = recorder.blind.call_args
    assert (step, what) == (7, "what other workers say of a step")
    assert "timed out" in reason
    assert recorder.blind.call_count == 1


def test_a_job_of_one_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.distributed, "new_group", None)
    agreement = Agreement(Mock())
    assert [agreement.worst(False), agreement.worst(True)] == [False, True]
