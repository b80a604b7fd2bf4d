"""Training continues whatever happens to its observer; runs end, and can be found."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.harness import running
from tests.peer.trainings import UNJUDGED, classifier, job, steps_of_worker, trained
from tests.reader.runs import DEAD_PID, info, write_worker
from torch import nn

import mothtrap
from mothtrap import Collection, Watch
from mothtrap.capture.captures import Captures
from mothtrap.core.errors import ConfigError, RunExistsError, RunNotFoundError
from mothtrap.store import layout
from mothtrap.store.worker_log import WorkerLog

CUSTOM: dict[str, Any] = {"collections": {"gradients": Collection(raw=True, every=2)}}
SETTINGS = pytest.mark.parametrize("settings", [{}, CUSTOM], ids=["default", "custom"])


def weights(folder: Path | None, **settings: Any) -> tuple[list[bytes], Path | None]:
    """Return the weights after ten steps, watched if there is a folder for the run."""
    model = classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    dbg = mothtrap.watch(model, optimizer, runs_dir=str(folder), **settings) if folder else None
    for _ in range(10):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(torch.randn(8, 4)), torch.randint(3, (8,)))
        loss.backward()
        optimizer.step()
        if dbg is not None:
            dbg.step(loss=loss)
    if dbg is not None:
        dbg.close()
    return [p.detach().numpy().tobytes() for p in model.parameters()], dbg.path if dbg else None


def broken(*_: object, **__: object) -> None:
    raise RuntimeError("planted")


@SETTINGS
@pytest.mark.parametrize(
    ("place", "name"),
    [(Captures, "reduce"), (WorkerLog, "append"), (layout, "claim_worker")],
    ids=["statistics", "writing", "folder"],
)
def test_an_error_inside_is_said_once_and_training_goes_on(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    settings: dict[str, Any],
    place: object,
    name: str,
) -> None:
    expected, _ = weights(None)
    monkeypatch.setattr(place, name, broken)
    found, _ = weights(tmp_path, **settings)
    assert found == expected
    said = [line for line in capsys.readouterr().err.splitlines() if "training continues" in line]
    assert said
    assert len(said) == len(set(said))
    assert "RuntimeError: planted" in said[0]


@SETTINGS
def test_a_disk_that_refuses_costs_no_training(
    tmp_path: Path,
    settings: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "file").write_text("in the way")
    expected, _ = weights(None)
    found, path = weights(tmp_path / "file" / "runs", **settings)
    assert found == expected
    assert path is not None
    said = capsys.readouterr().err
    assert f"{path.parent}" in said  # where the run is instead
    assert mothtrap.open_run(path).steps == 10


def test_a_setting_that_makes_no_sense_is_refused_before_the_training(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown setting 'save_interval'"):
        weights(tmp_path, save_interval=500)


def test_parameters_without_a_gradient_do_no_harm(tmp_path: Path) -> None:
    model = classifier()
    model[0].requires_grad_(False)
    model.register_parameter("unused", nn.Parameter(torch.ones(2)))
    chosen = {name: Collection(raw=True) for name in ("weights", "biases", "gradients", "updates")}
    run = trained(tmp_path, 3, model=model, collections=chosen)
    captured = {tensor.identity for tensor in run.tensors(kind="gradient")}
    assert captured == {"gradient:2.weight", "gradient:2.bias"}


def test_a_model_that_is_watched_twice_trains_as_ever(tmp_path: Path) -> None:
    again: list[Watch] = []

    def each(step: int, model: nn.Module, dbg: Watch) -> None:
        if step == 0:
            again.append(mothtrap.watch(model, runs_dir=str(tmp_path / "again")))

    kept = {"weights": Collection(raw=True)}
    once = trained(tmp_path / "once", 3, collections=kept)
    twice = trained(tmp_path / "twice", 3, each, collections=kept)
    again[0].close()
    for tensor in once.tensors("weights"):
        assert twice.tensor(tensor.identity).at(2).tobytes() == tensor.at(2).tobytes()


def test_switched_off_there_is_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOTHTRAP_DISABLE", "1")
    expected, _ = weights(None)
    assert weights(tmp_path) == (expected, None)
    assert list(tmp_path.iterdir()) == []


def test_a_run_says_that_it_ended(tmp_path: Path) -> None:
    assert trained(tmp_path, 2).state == "finished"
    assert job(tmp_path / "runs", steps_of_worker(0, [0])).state == "running"
    attempt = layout.create_run(tmp_path / "dead", info(pid=DEAD_PID))
    write_worker(attempt, *steps_of_worker(0, [0, 1], dead=True))
    assert mothtrap.open_run(tmp_path / "dead").state == "crashed"


def test_runs_are_found_by_path_by_name_and_as_the_latest(tmp_path: Path) -> None:
    first, second = (trained(tmp_path, 1, name=name, **UNJUDGED) for name in ("one", "two"))
    assert mothtrap.open_run(first.path).path == first.path == tmp_path / "one"
    assert mothtrap.open_run("one", tmp_path).path == first.path
    assert mothtrap.open_run(runs_dir=tmp_path).path == second.path
    with pytest.raises(RunNotFoundError, match="two"):
        mothtrap.open_run("tow", tmp_path)


def test_a_name_that_is_taken_harms_neither_the_run_nor_the_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = trained(tmp_path, 3, name="mine", **UNJUDGED)
    expected, _ = weights(None)
    found, path = weights(tmp_path, name="mine")
    assert (found, path) == (expected, None)
    assert "mine" in capsys.readouterr().err
    assert mothtrap.open_run(first.path).steps == 3


SPOT = """
import os, signal, sys
import torch

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
begin = 0
if os.path.exists("saved.pt"):
    begin, state = torch.load("saved.pt")
    model.load_state_dict(state)
for step in range(begin, 6):
    loss = model(torch.ones(2, 4) * step).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step == 2:
        torch.save((step + 1, model.state_dict()), "saved.pt")
    if step == 4 and begin == 0:
        os.kill(os.getpid(), signal.SIGTERM)
"""


def test_an_interrupted_training_goes_on_with_the_step_of_its_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SPOT)
    command = [*running.MOTHTRAP, "run", "--resume", "--name", "job", "train.py"]
    # loses no step of a job that is terminated
    env = running.environment(MOTHTRAP_WRITER="process")
    codes = [running.run(command, cwd=tmp_path, env=env).returncode for _ in range(2)]
    seen = mothtrap.open_run("job", tmp_path / "runs")
    assert (codes[0] != 0, codes[1], seen.attempts, seen.state) == (True, 0, 2, "finished")
    assert seen.scalars("loss")[0].steps_S.tolist() == list(range(6))
    assert [seen.status(step).attempt for step in range(6)] == [1, 1, 1, 2, 2, 2]


def test_a_refused_name_is_said_before_the_job_of_the_command_line(tmp_path: Path) -> None:
    layout.create_run(tmp_path / "runs" / "job", info(pid=DEAD_PID))
    (tmp_path / "train.py").write_text("open('ran', 'w')")
    command = [*running.MOTHTRAP, "run", "--name", "job", "train.py"]
    done = running.run(command, cwd=tmp_path)
    assert done.returncode != 0
    assert "job" in done.stderr
    assert not (tmp_path / "ran").exists()
    assert issubclass(RunExistsError, FileExistsError)
