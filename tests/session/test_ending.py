"""Cause of a process's end, reported with the user's line."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest
import torch
from torch import nn

import mothtrap
from mothtrap.core.facts.workers import WorkerEnded
from mothtrap.session.ending import told


def raised(script: Path) -> BaseException:
    with pytest.raises(json.JSONDecodeError) as caught:
        runpy.run_path(str(script))
    return caught.value


def test_the_line_is_the_users_not_that_of_a_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "train.py"
    script.write_text("import json\n\njson.loads('{')\n")
    monkeypatch.chdir(tmp_path)
    end = told(raised(script))
    assert end["exception"].startswith("JSONDecodeError: ")
    assert end["location"] == "train.py:3"


def test_without_an_exception_there_is_nothing_to_tell() -> None:
    assert told(None) == {}


def test_a_traceback_has_the_lines_of_code_but_no_frame_of_mothtrap_and_no_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def trained() -> None:
        raise ValueError("refused: token=ghp_" + "a1B2" * 9)

    try:
        mothtrap.open_run("no such run")
    except Exception:
        with pytest.raises(ValueError, match="refused") as caught:
            trained()
    text = told(caught.value)["traceback"]
    assert text.startswith("Traceback (most recent call last):\n")
    assert 'raise ValueError("refused' in text
    assert "During handling of the above exception, another exception occurred" in text
    assert str(Path(mothtrap.__file__).parent) not in text
    assert "ghp_" not in text.rpartition("\n    raise")[2].partition("\n")[2]


def made() -> tuple[nn.Module, torch.optim.Optimizer]:
    model = nn.Linear(2, 1)
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


def step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    model(torch.ones(4, 2)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()


@pytest.mark.parametrize("error", [ValueError("no data"), KeyboardInterrupt(), SystemExit(3)])
def test_an_exception_that_leaves_the_block_has_ended_the_training(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], error: BaseException
) -> None:
    setup = made()

    def training() -> None:
        with mothtrap.watch(*setup, name="x", runs_dir=str(tmp_path)):
            step(*setup)
            raise error

    with pytest.raises(type(error)):
        training()
    run = mothtrap.open_run(tmp_path / "x")
    (end,) = run.observations(WorkerEnded)
    if isinstance(error, SystemExit):  # the script's own way to end
        assert (run.state, end.exception) == ("finished", None)
        return
    assert run.state == "crashed"
    assert end.exception == f"{type(error).__name__}: {error}"
    told = {"ValueError": "no data; before that,", "KeyboardInterrupt": "was interrupted"}
    assert told[type(error).__name__] in " ".join(capfd.readouterr().err.split())


def test_a_model_that_made_no_step_is_said_to_have_no_run(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (model, _), other = made(), made()
    for optimizer in (other[1], None):
        watch = mothtrap.watch(model, optimizer, name="x", runs_dir=str(tmp_path))
        watch.close()
        watch.close()
        assert (
            capfd.readouterr().err.count("nothing was recorded, because no step was observed") == 1
        )
    with mothtrap.watch(*other, name="y", runs_dir=str(tmp_path)):
        step(*other)
    assert "nothing was recorded" not in capfd.readouterr().err
    with mothtrap.watch(*other, name="z", runs_dir=str(tmp_path), capture="off"):
        pass
    assert capfd.readouterr().err == ""
