"""A job stops at a step boundary on which all its workers agree, and only on request."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from tests.harness.running import MOTHTRAP, PYTHON, TORCHRUN, Outcome, environment, run

from mothtrap.core.control_requests import CallRequest, CaptureRequest, StopRequest
from mothtrap.core.facts.guards import TrainingStopped
from mothtrap.core.stopping import StopTraining, TrialEnded
from mothtrap.reader.run import Run, open_run
from mothtrap.session import job_stop
from mothtrap.session.job_stop import LEAD_STEPS, JobStop, exit_code, on_stop
from mothtrap.store.layout import list_runs
from mothtrap.testing.actions import finding_event

REQUEST = StopRequest(id="q1", attempt=1, reason="NaN")
CALLED: list[object] = []


def called(event: object) -> None:
    """Record a call from the job."""
    CALLED.append(event)


class Shelf:
    """The store of a job within one process."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def count(self, what: str) -> int:
        """Return 0."""
        return 0

    def leave(self, key: str, text: str) -> None:
        """Store a text."""
        self.texts[key] = text

    def find(self, key: str) -> str | None:
        """Return a stored text."""
        return self.texts.get(key)


@pytest.fixture(autouse=True)
def savers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_stop, "_savers", [])


def _stop(rank: int = 0, workers: int = 1, shelf: Shelf | None = None) -> JobStop:
    return JobStop(rank, workers, 3, frozenset((f"{__name__}:called",)), lambda: shelf)


def _steps(stop: JobStop, first: int, last: int) -> int:
    """Pass step boundaries; return the step at which it stopped, or one after the last."""
    for step in range(first, last):
        try:
            stop.boundary(step)
        except StopTraining as err:
            return err.step
    return last


def test_it_stops_a_few_steps_after_the_request_with_its_exit_code() -> None:
    stop = _stop()
    assert _steps(stop, 1, 10) == 10
    stop.ask(REQUEST, print)
    stop.boundary(8 + LEAD_STEPS)
    with pytest.raises(SystemExit) as caught:
        stop.boundary(9 + LEAD_STEPS)
    assert isinstance(caught.value, StopTraining)
    assert (caught.value.code, caught.value.step) == (3, 9 + LEAD_STEPS)
    assert caught.value.reason == "NaN"


def test_whoever_swallows_it_gets_it_again() -> None:
    stop = _stop()
    stop.ask(REQUEST, print)
    assert [_steps(stop, step, step + 1) for step in (2, 3, 4)] == [2, 3, 4]


def test_workers_that_are_steps_apart_stop_at_the_same_one() -> None:
    shelf, stopped = Shelf(), dict[int, int]()
    ahead = {0: 5, 1: 9, 2: 7}
    stops = {rank: _stop(rank, 3, shelf) for rank in ahead}

    def train(rank: int) -> None:
        stop = stops[rank]
        _steps(stop, 0, ahead[rank])
        asking = threading.Thread(target=stop.ask, args=(REQUEST, print))
        asking.start()
        stopped[rank] = _steps(stop, ahead[rank], 10**6)
        asking.join()

    threads = [threading.Thread(target=train, args=(rank,)) for rank in ahead]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(set(stopped.values())) == 1, stopped
    promises = [int(text) for key, text in shelf.texts.items() if key.startswith("stop/q1")]
    assert set(stopped.values()) == {max(promises)}


def test_a_worker_that_never_answers_holds_the_others_up_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(job_stop, "AGREE_S", 0.01)
    stop = _stop(0, 2, Shelf())
    stop.ask(REQUEST, print)
    assert _steps(stop, 1, 9) == LEAD_STEPS


def test_a_worker_that_has_saved_waits_for_those_that_still_save() -> None:
    shelf, at_it, is_written = Shelf(), threading.Event(), threading.Event()
    stops = [_stop(rank, 2, shelf) for rank in range(2)]
    ended: list[str] = []

    @on_stop
    def save() -> None:
        if threading.current_thread().name == "0":
            at_it.set()
            assert is_written.wait(60)
            ended.append("saved")

    def train(rank: int) -> None:
        _steps(stops[rank], 1, 9)
        ended.append(f"ended {rank}")

    asking = [threading.Thread(target=stop.ask, args=(REQUEST, print)) for stop in stops]
    workers = [threading.Thread(target=train, args=(r,), name=str(r)) for r in range(2)]
    for thread in (*asking, *workers):
        thread.start()
    assert at_it.wait(60)
    workers[1].join(0.2)
    is_written.set()
    for thread in workers:
        thread.join(60)
    assert ended[0] == "saved"
    assert sorted(ended[1:]) == ["ended 0", "ended 1"]


def test_a_worker_without_anything_to_save_waits_for_those_that_the_guard_stops_too() -> None:
    shelf = Shelf()
    worker = threading.Thread(target=_stop(1, 2, shelf).save, args=(True,))
    worker.start()
    shelf.leave("stop/guard/0", "0")
    for _ in range(600):
        if "saved/guard/1" in shelf.texts:
            break
        worker.join(0.1)
    assert worker.is_alive()
    shelf.leave("saved/guard/0", "yes")
    worker.join(60)
    assert not worker.is_alive()


def test_a_worker_whose_guard_decides_alone_waits_for_no_other() -> None:
    shelf, calls = Shelf(), list[str]()
    on_stop(lambda: calls.append("saved"))
    stop = _stop(1, 2, shelf)
    worker = threading.Thread(target=stop.save, args=(False,), daemon=True)
    worker.start()
    worker.join(10)
    assert not worker.is_alive()
    assert calls == ["saved"]
    assert shelf.texts == {}


def test_what_was_given_to_on_stop_is_called_once_whatever_it_raises() -> None:
    calls: list[str] = []

    @on_stop
    def broken() -> None:
        calls.append("broken")
        raise OSError("disk full")

    on_stop(lambda: calls.append("saved"))
    stop = _stop()
    stop.ask(REQUEST, print)
    assert _steps(stop, 2, 9) == 2
    assert _steps(stop, 3, 9) == 3
    assert calls == ["broken", "saved"]


def test_a_loop_of_a_framework_that_can_end_is_asked_before_it_is_left() -> None:
    stop = JobStop(0, 1, 3, frozenset(), lambda: None, lambda _: True)
    stop.ask(REQUEST, print)
    assert _steps(stop, 2, 99) == 2 + job_stop.OWN_LOOP_STEPS


def test_nothing_is_stopped_after_the_end() -> None:
    told: list[object] = []
    stop = _stop()
    stop._report = told.append
    stop.ask(REQUEST, print)
    stop.close()
    assert _steps(stop, 1, 99) == 99
    (answer,) = told
    assert isinstance(answer, TrainingStopped)
    assert answer.error == "training had already ended"


def test_only_functions_of_the_configuration_are_called() -> None:
    CALLED.clear()
    stop, event = _stop(), finding_event()
    for name in (f"{__name__}:called", "os:abort"):
        stop.ask(CallRequest(id="q", attempt=1, function=name, event=event), print)
    stop.boundary(1)
    assert [event] == CALLED


def test_other_requests_are_handed_on() -> None:
    other: list[object] = []
    request = CaptureRequest(id="q", attempt=1)
    _stop().ask(request, other.append)
    assert other == [request]


def test_a_trial_of_optuna_is_pruned_and_the_next_goes_on() -> None:
    optuna = pytest.importorskip("optuna")
    stop = _stop()
    stop.ask(StopRequest(id="q", attempt=1, reason="diverged", prunes="optuna"), print)
    with pytest.raises(TrialEnded, match="diverged") as caught:
        stop.boundary(LEAD_STEPS)
    assert isinstance(caught.value.error, optuna.TrialPruned)
    assert _steps(stop, LEAD_STEPS + 1, 99) == 99


@pytest.mark.parametrize(("restarts", "code"), [("", 5), ("0", 5), ("3", 0)])
def test_under_torchrun_with_restarts_a_stopped_worker_ends_well(restarts: str, code: int) -> None:
    assert exit_code(5, {"TORCHELASTIC_MAX_RESTARTS": restarts} if restarts else {}) == code


SCRIPT = """
import hashlib, os, sys
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import mothtrap

workers, fault_at = int(os.environ.get("WORLD_SIZE", "1")), int(sys.argv[1])
if workers > 1:
    dist.init_process_group("gloo")
rank = dist.get_rank() if workers > 1 else 0
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
plain = model
if workers > 1:
    model = DistributedDataParallel(model)
optimizer = torch.optim.Adam(model.parameters(), 0.01)
drawn = torch.Generator().manual_seed(rank)


def digest():
    data = b"".join(p.detach().numpy().tobytes() for p in plain.parameters())
    return hashlib.sha256(data).hexdigest()[:16]


def save():
    print(f"rank {rank} saved {digests[-1]} after {len(digests)}", flush=True)


mothtrap.on_stop(save)
digests = []
last = int(sys.argv[2])
for step in range(last):
    try:
        x = torch.randn(8, 4, generator=drawn)
        y = x.sum(1, keepdim=True)
        if step >= fault_at:
            y = y * float("nan")
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        digests.append(digest())
    except Exception:
        print("swallowed", flush=True)
print(f"rank {rank} ended {digests[-1]} after {len(digests)}", flush=True)
if workers > 1:
    dist.destroy_process_group()
"""

CONFIG = """
stop_exit_code = 7
[[actions]]
when = { rules = ["NUM"], severity = "error", for_steps = 3 }
do = ["stop"]
"""


def _trained(folder: Path, *command: str | Path) -> Outcome:
    (folder / "train.py").write_text(SCRIPT)
    return run(command, cwd=folder, env=environment(OMP_NUM_THREADS="1"))


def _only_run(folder: Path) -> Run:
    (path,) = list_runs(folder / "runs")
    return open_run(path)


def test_a_fault_stops_one_process_and_the_command_to_go_on_is_printed(tmp_path: Path) -> None:
    (tmp_path / "mothtrap.toml").write_text(CONFIG)
    outcome = _trained(tmp_path, *MOTHTRAP, "run", "train.py", "40", "1000000")
    assert outcome.returncode == 7, outcome.stderr
    assert "swallowed" not in outcome.stdout
    stopped = _only_run(tmp_path)
    assert stopped.stopped_at is not None
    assert stopped.stopped_at == stopped.steps > 42
    assert f"saved {''.join(outcome.stdout.split('saved ')[1:]).split()[0]}" in outcome.stdout
    assert f"after {stopped.steps}" in outcome.stdout
    assert "to continue from there: mothtrap run --name" in outcome.stderr
    assert "was stopped before step" in outcome.stderr


@pytest.mark.full
def test_two_ranks_stop_at_one_step_bit_identical_and_are_not_started_again(
    tmp_path: Path,
) -> None:
    torchrun = (TORCHRUN, "--standalone", "--nproc-per-node", "2", "--max-restarts", "2")
    (tmp_path / "mothtrap.toml").write_text(CONFIG)
    watched = _trained(tmp_path, *MOTHTRAP, "run", "--", *torchrun, "train.py", "40", "1000000")
    assert watched.returncode == 7, watched.stderr
    stopped = _only_run(tmp_path)
    assert (stopped.attempts, stopped.workers) == (1, (0, 1))
    steps = {fact.step for fact in stopped.observations(TrainingStopped)}
    assert len(steps) == 1
    (step,) = steps
    saved = [line for line in watched.stdout.splitlines() if "saved" in line]
    assert sorted(line.split()[1] for line in saved) == ["0", "1"]
    assert {line.split(" after ")[1] for line in saved} == {str(step)}
    assert "ended" not in watched.stdout
    plain = tmp_path / "plain"
    plain.mkdir()
    alone = _trained(plain, *torchrun, "train.py", "40", str(step))
    ends = [line for line in alone.stdout.splitlines() if "ended" in line]
    assert {line.split()[3] for line in ends} == {line.split()[3] for line in saved}


TRIALS = """
import optuna
import torch

import mothtrap

optuna.logging.set_verbosity(optuna.logging.ERROR)


def objective(trial):
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with mothtrap.watch(model, optimizer, name=f"trial{trial.number}"):
        for step in range(10**6 if trial.number == 0 else 30):
            x = torch.randn(8, 4)
            if trial.number == 0 and step > 20:
                x = x * float("nan")
            loss = (model(x) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return loss.item()


study = optuna.create_study()
study.optimize(objective, n_trials=2)
print([trial.state.name for trial in study.trials])
"""


def test_a_trial_that_goes_wrong_is_pruned_and_the_study_goes_on(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    config = '[[actions]]\nwhen = { rules = ["NUM"] }\ndo = ["prune"]\nprune = "optuna"\n'
    (tmp_path / "mothtrap.toml").write_text(config)
    (tmp_path / "search.py").write_text(TRIALS)
    outcome = run([*PYTHON, "search.py"], cwd=tmp_path, env=environment())
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stdout == "['PRUNED', 'COMPLETE']\n"
    assert "the trial is pruned before step" in outcome.stderr
    assert "switched off" not in outcome.stderr
