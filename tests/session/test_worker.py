"""A process becomes a worker at its first step, and has stored everything at its end."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from tests.harness.running import observed, run
from tests.session.toy import Toy, attached

import mothtrap
from mothtrap.capture.grouper import ClosedStep
from mothtrap.core.config import Config
from mothtrap.core.facts.captures import ToolError
from mothtrap.core.facts.workers import WorkerEnded, WorkerStarted
from mothtrap.core.findings import RuleState
from mothtrap.session import launch
from mothtrap.session.worker import Worker
from mothtrap.store import layout
from mothtrap.store.finding_log import FindingLog


@pytest.fixture
def attempt(tmp_path: Path) -> Path:
    return layout.create_run(tmp_path / "seen", launch.run_info("seen", ["train.py"], Config()))


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def make(attempt: Path, said: list[str]) -> Iterator[Callable[..., Worker]]:
    workers = []

    def make(
        config: Config = Config(),  # noqa: B008
        rank: int | None = None,
        adapter: Toy | None = None,
    ) -> Worker:
        worker = Worker(lambda: attempt, config, "numpy", said.append)
        attached(worker, adapter or Toy(rank=rank, size=1 if rank is None else 2))
        workers.append(worker)
        return worker

    yield make
    for worker in workers:
        worker.close()


def step(worker: Worker, number: int, loss: float = 1.0) -> None:
    worker.recorder.notes.scalar("loss", "main", loss)
    worker.recorder.close_step(
        ClosedStep(
            step=number,
            owners="Adam",
            optimizers=("Adam",),
            skipped=False,
            series=(),
            micro_batches=1,
        )
    )


def test_nothing_exists_before_the_first_step(
    make: Callable[..., Worker], attempt: Path, said: list[str]
) -> None:
    worker = make()
    assert worker.path is None
    worker.close()
    assert layout.workers(attempt) == layout.monitors(attempt) == []
    assert "nothing was recorded, because no step was observed" in said.pop()


def test_everything_is_stored_at_the_end(make: Callable[..., Worker], attempt: Path) -> None:
    worker = make(adapter=(adapter := Toy()))
    for number in range(30):
        step(worker, number, loss=1 / (number + 1))
    worker.logged.number("late", 0.5)
    worker.close()
    worker.close()
    assert adapter.calls.count("detach") == 1
    assert worker.path == attempt.parent
    stored = mothtrap.open_run(attempt.parent)
    assert (stored.steps, stored.workers) == (30, (0,))
    (series,) = stored.scalars("loss")
    assert series.values_S.tolist() == [1 / (number + 1) for number in range(30)]
    (started,) = stored.observations(WorkerStarted)
    assert (started.pid, started.framework, started.versions) == (
        os.getpid(),
        "toy",
        {"toy": "1.0"},
    )
    (ended,) = stored.observations(WorkerEnded)
    assert (ended.steps, ended.exception) == (30, None)
    assert all(path.read_bytes().endswith(b"ARROW1") for path in attempt.rglob("*.arrow"))


def test_a_worker_takes_the_folder_of_its_rank(make: Callable[..., Worker], attempt: Path) -> None:
    for rank in (1, 0):
        step(make(rank=rank), 0)
    assert layout.workers(attempt) == layout.monitors(attempt) == [0, 1]


def test_processes_without_a_rank_take_the_next_folder(
    make: Callable[..., Worker], attempt: Path
) -> None:
    for _ in range(3):
        step(make(), 0)
    assert layout.workers(attempt) == [0, 1, 2]


def test_findings_are_said_by_rank_0_alone_and_stored_by_all(
    make: Callable[..., Worker], attempt: Path, said: list[str]
) -> None:
    for rank in (0, 1):
        worker = make(Config(select=("NUM",)), rank=rank)
        for number in range(8):
            step(worker, number, loss=float("nan") if number > 3 else 1.0)
        worker.close()
    (line,) = said
    assert "non-finite loss" in line
    (finding,) = mothtrap.open_run(attempt.parent).findings
    assert (finding.step, finding.workers) == (4, (0, 1))


def test_capture_off_stores_and_judges_nothing(
    make: Callable[..., Worker], attempt: Path, said: list[str]
) -> None:
    worker = make(Config(capture="off"))
    step(worker, 0, loss=float("nan"))
    worker.close()
    assert worker.path is None
    assert layout.workers(attempt) == []
    assert said == []


def test_hooks_that_cannot_be_taken_out_do_not_cost_the_end(
    make: Callable[..., Worker], attempt: Path, said: list[str]
) -> None:
    worker = make(adapter=Toy(error=RuntimeError("gone")))
    step(worker, 0)
    worker.close()
    stored = mothtrap.open_run(attempt.parent)
    assert len(stored.observations(WorkerEnded)) == 1
    assert [error.part for error in stored.tool_errors] == ["closing"]
    assert len(said) == 1


def test_rules_that_fail_in_the_last_batch_are_told_in_the_run(
    make: Callable[..., Worker],
    attempt: Path,
    said: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("planted failure")

    monkeypatch.setattr("mothtrap.monitor.monitor.Monitor.finish", fail)
    worker = make()
    step(worker, 0)
    worker.close()
    (failure,) = mothtrap.open_run(attempt.parent).observations(ToolError)
    assert (failure.part, failure.error) == ("rules", "RuntimeError: planted failure")
    assert len(said) == 1


def test_a_rule_that_raises_is_said_once_and_the_others_judge(
    make: Callable[..., Worker],
    attempt: Path,
    said: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("planted failure")

    monkeypatch.setattr("mothtrap.rules.loss_diverging.LossDiverging.check", fail)
    worker = make()
    for number in range(10):
        step(worker, number)
    worker.close()
    assert [line for line in said if "planted failure" in line] == said
    assert len(said) == 1
    states = {rule.name: rule.state for rule in mothtrap.open_run(attempt.parent).rules}
    assert states["loss_diverging"] is RuleState.RULE_FAILED
    assert states["nonfinite_loss"] is RuleState.OK


def test_a_run_without_a_folder_is_judged_all_the_same(said: list[str]) -> None:
    worker = Worker(lambda: None, Config(select=("NUM",)), "numpy", said.append)
    step(worker, 0, loss=float("nan"))
    worker.close()
    assert worker.path is None
    (line,) = said
    assert "non-finite loss" in line


def test_a_folder_that_cannot_be_made_is_said_once_and_rules_go_on(said: list[str]) -> None:
    def fail() -> Path:
        raise PermissionError(13, "Permission denied", "runs")

    worker = Worker(fail, Config(select=("NUM",)), "numpy", said.append)
    step(worker, 0, loss=float("nan"))
    worker.close()
    assert sum("run folder failed" in line for line in said) == 1
    assert sum("non-finite loss" in line for line in said) == 1
    assert len(said) == 2


def test_a_worker_goes_on_in_a_child_only_before_its_first_step(
    make: Callable[..., Worker], attempt: Path
) -> None:
    early, late = make(), make()
    step(late, 0)
    assert early.forked()
    sinks = list(late.recorder.sinks)
    assert not late.forked()
    assert sinks
    assert late.recorder.sinks == []
    step(early, 0)
    assert layout.workers(attempt) == [0, 1]


def test_a_logged_value_that_is_no_number_is_left_out_and_said_once(
    make: Callable[..., Worker], attempt: Path, said: list[str]
) -> None:
    worker = make()
    for value in ("high", None, 0.5):
        worker.logged.number("score", value)  # type: ignore[arg-type]
    step(worker, 0)
    worker.close()
    assert said == ["mothtrap: log: 'score' got a str, not a number"]
    stored = mothtrap.open_run(attempt.parent)
    (series,) = stored.scalars("score")
    assert series.values_S.tolist() == [0.5]
    (blind,) = stored.blind
    assert blind.what == "values of score"
    assert stored.tool_errors == ()


def test_findings_that_the_disk_refused_are_written_with_the_next(
    make: Callable[..., Worker],
    attempt: Path,
    said: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    append, refused = FindingLog.append, []

    def refuse_once(log: FindingLog, findings: Any = (), statuses: Any = ()) -> None:
        if findings and not refused:
            refused.append(list(findings))
            raise OSError(28, "No space left on device")
        append(log, findings, statuses)

    monkeypatch.setattr(FindingLog, "append", refuse_once)
    worker = make(Config(select=("NUM",)))
    step(worker, 0, loss=float("nan"))
    worker.close()
    assert refused
    assert not [line for line in said if "findings failed" in line]
    stored = mothtrap.open_run(attempt.parent)
    assert [finding.name for finding in stored.findings] == ["nonfinite_loss"]
    assert stored.tool_errors == ()


def test_findings_that_the_disk_never_took_are_complained_of_once(
    make: Callable[..., Worker], said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FindingLog, "append", Mock(side_effect=OSError(28, "No space left")))
    worker = make(Config(select=("NUM",)))
    step(worker, 0, loss=float("nan"))
    worker.close()
    assert sum("findings failed" in line for line in said) == 1


FORKING = """
import os, sys, torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def train(steps):
    for _ in range(steps):
        loss = model(torch.ones(8, 4)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
train({before})
child = os.fork()
if child == 0:
    train(9)
    print("child", flush=True)
    sys.exit(5)
_, status = os.waitpid(child, 0)
train(3)
print("parent", os.waitstatus_to_exitcode(status))
"""


@pytest.mark.parametrize("before", [0, 4])
def test_a_forked_child_is_watched_where_its_parent_made_no_step(
    before: int, tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    script.write_text(FORKING.format(before=before), encoding="utf-8")
    seen = run(observed([script], runs_dir=tmp_path, name="seen"), cwd=tmp_path)
    assert seen.stdout == "child\nparent 5\n"
    assert "failed" not in seen.stderr
    stored = mothtrap.open_run(tmp_path / "seen")
    watched = [before + 3] if before else [3, 9]
    assert sorted(ended.steps for ended in stored.observations(WorkerEnded)) == watched
    assert (stored.workers, stored.state) == (tuple(range(len(watched))), "finished")
    assert stored.tool_errors == ()
    assert stored.damage == ()


POOL = """
import multiprocessing, torch
def train(steps):
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        model(torch.ones(8, 4)).mean().backward()
        optimizer.step()
if __name__ == "__main__":
    context = multiprocessing.get_context("{method}")
    job = context.Process(target=train, args=(7,))
    job.start()
    job.join()
    print(job.exitcode)
"""


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_a_child_of_multiprocessing_closes_its_record(method: str, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(POOL.format(method=method), encoding="utf-8")
    seen = run(observed([script], runs_dir=tmp_path, name="seen"), cwd=tmp_path)
    assert seen.stdout == "0\n", seen.stderr
    stored = mothtrap.open_run(tmp_path / "seen")
    assert (stored.steps, stored.workers, stored.state) == (7, (0,), "finished")
    (ended,) = stored.observations(WorkerEnded)
    assert ended.steps == 7


TWO = """
import subprocess, sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock
train = Path(__file__).with_name("train.py")
jobs = [subprocess.Popen([sys.executable, train, steps]) for steps in ("3", "5")]
sys.exit(sum(job.wait() for job in jobs))
"""

TRAIN = """
import sys, torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(int(sys.argv[1])):
    model(torch.ones(8, 4)).mean().backward()
    optimizer.step()
"""


def test_two_processes_of_a_job_have_a_folder_each(tmp_path: Path) -> None:
    (tmp_path / "two.py").write_text(TWO, encoding="utf-8")
    (tmp_path / "train.py").write_text(TRAIN, encoding="utf-8")
    command = observed(["two.py"], runs_dir=tmp_path / "runs", name="seen")
    seen = run(command, cwd=tmp_path)
    assert seen.returncode == 0, seen.stderr
    stored = mothtrap.open_run(tmp_path / "runs" / "seen")
    assert stored.workers == (0, 1)
    assert sorted(ended.steps for ended in stored.observations(WorkerEnded)) == [3, 5]
    pids = {started.pid for started in stored.observations(WorkerStarted)}
    assert len(pids) == 2
