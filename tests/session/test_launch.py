"""The launcher passes everything through, stores how the script ended, and writes last."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from pathlib import Path

import pytest
from tests.harness.running import ITSELF, MOTHTRAP, PYTHON, environment, finish, run, start

import mothtrap
from mothtrap.core.config import Config, inherited_config
from mothtrap.core.errors import ConfigError, RunExistsError
from mothtrap.session import launch
from mothtrap.store import layout


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(runs_dir=str(tmp_path / "runs"))


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


@pytest.mark.parametrize("code", [0, 7, 255])
def test_the_exit_code_is_the_jobs_and_is_stored(
    code: int, config: Config, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    command = python(f"import sys; print('out'); sys.exit({code})")
    assert launch.launch(command, config=config, name="seen") == code
    out, err = capfd.readouterr()
    assert out == "out\n"
    assert "mothtrap: Nothing was observed" in err
    assert "mothtrap show" not in err  # there is nothing to show
    attempt = tmp_path / "runs" / "seen" / "1"
    info, end = layout.read_info(attempt), layout.read_end(attempt)
    assert info is not None
    assert end is not None
    assert info.command == tuple(command)
    assert (info.pid, info.id, info.cwd) == (os.getpid(), "seen", str(Path.cwd()))
    assert end.exit_code == code
    assert end.ended_s >= info.created_s


def test_a_program_that_cannot_be_started(
    config: Config, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert launch.launch([str(tmp_path / "absent")], config=config, name="seen") == 127
    assert "is it installed?" in capfd.readouterr().err


def test_a_name_that_is_taken_is_refused_before_the_job_starts(
    config: Config, tmp_path: Path
) -> None:
    started = python(f"open({str(tmp_path / 'started')!r}, 'w')")
    launch.launch(python("pass"), config=config, name="seen")
    with pytest.raises(RunExistsError, match="choose another name with --name"):
        launch.launch(started, config=config, name="seen")
    assert not (tmp_path / "started").exists()


def test_a_rule_that_does_not_exist_is_refused_before_the_job_starts(tmp_path: Path) -> None:
    config = Config(runs_dir=str(tmp_path / "runs"), select=("XYZ",))
    with pytest.raises(ConfigError, match="XYZ"):
        launch.launch(python("pass"), config=config, name="seen")
    assert not (tmp_path / "runs").exists()


def test_warnings_are_said_first(config: Config, capfd: pytest.CaptureFixture[str]) -> None:
    launch.launch(
        python("import sys; print('job', file=sys.stderr)"),
        config=config,
        name="seen",
        warnings=["MOTHTRAP_X is not a setting"],
    )
    lines = capfd.readouterr().err.splitlines()
    assert lines[:2] == ["mothtrap: MOTHTRAP_X is not a setting", "job"]


def test_names_that_were_made_are_numbered(config: Config, tmp_path: Path) -> None:
    made = [launch.create("train", ["train.py"], config, numbered=True) for _ in range(3)]
    assert [attempt.parent.name for attempt in made] == ["train", "train-2", "train-3"]
    infos = [layout.read_info(attempt) for attempt in made]
    assert [info.id for info in infos if info] == ["train", "train-2", "train-3"]


@pytest.mark.parametrize("deeper", ["", "mine"])
def test_a_run_that_cannot_be_kept_is_kept_elsewhere(
    deeper: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "runs").write_text("", encoding="utf-8")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    config = Config(runs_dir=str(tmp_path / "runs" / deeper))
    attempt = launch.create("train", ["train.py"], config, numbered=False)
    assert attempt.parent.parent.parent == tmp_path
    assert layout.read_info(attempt) is not None
    said = capfd.readouterr().err
    assert str(attempt.parent) in said
    assert "--runs-dir" in said


@pytest.mark.parametrize(
    ("command", "stem"),
    [
        (["python", "train.py", "--lr", "1"], "train"),
        (["python", "src/fit model.py"], "fit model"),
        (["python", "-m", "pkg.sub.train", "x"], "train"),
        (["torchrun", "--nproc-per-node", "2", "train.py"], "train"),
        (["/usr/bin/env"], "env"),
        (["python", "project/__main__.py"], "project"),
    ],
)
def test_a_run_is_called_after_its_script_and_time(command: list[str], stem: str) -> None:
    name, date, time = launch.default_name(command).rsplit("-", 2)
    assert name == stem
    assert len(date) == 8
    assert len(time) == 6


def test_a_run_of_a_script_with_a_long_name_fits_a_folder() -> None:
    assert len(launch.default_name(["python", f"{'ü' * 120}.py"]).encode()) <= 200


def test_a_name_that_is_too_long_for_a_folder_is_refused_in_one_sentence(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("print('started')", encoding="utf-8")
    seen = run([*MOTHTRAP, "run", "--name", "n" * 300, script], cwd=tmp_path)
    assert (seen.returncode, seen.stdout) == (2, "")
    assert seen.stderr.splitlines() == [
        "error: --name has 300 bytes; the name of a run may have at most 200; choose a shorter one"
    ]


DELETES = """
import os, shutil, sys
import torch

def fails(kind):
    if kind == "shape":
        model(torch.ones(1, 3))
    return {}[kind]

model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    if step == 1:
        shutil.rmtree(os.getcwd())
fails(sys.argv[1])
"""


@pytest.mark.parametrize(
    ("where", "kind", "why"),
    [
        ("scripts", "shape", "must be 2, but is 3"),
        ("work", "missing", "ended with KeyError"),
        pytest.param("scripts", "missing", "ended with KeyError", marks=pytest.mark.full),
        pytest.param("work", "shape", "must be 2, but is 3", marks=pytest.mark.full),
    ],
)
def test_a_crash_in_a_folder_that_the_script_has_deleted_is_explained(
    tmp_path: Path, where: str, kind: str, why: str
) -> None:
    for name in ("scripts", "work"):
        (tmp_path / name).mkdir()
    script = tmp_path / "scripts" / "train.py"
    script.write_text(DELETES, encoding="utf-8")
    folder = tmp_path / where
    command = [*MOTHTRAP, "run", "--runs-dir", tmp_path / "runs", "--name", "seen"]
    seen = run([*command, "train.py" if where == "scripts" else script, kind], cwd=folder)
    assert seen.returncode == 1
    told = " ".join(seen.stderr.rpartition("mothtrap: ")[2].split())
    assert why in told
    assert "nothing wrong was found in 2 steps" in told or "in 3 steps" in told
    assert "switched off" not in seen.stderr
    assert "cannot summarize" not in seen.stderr


def test_a_job_may_start_in_a_folder_that_is_gone(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    script = tmp_path / "train.py"
    script.write_text("print('started')", encoding="utf-8")
    words = " ".join([*ITSELF, "-m", "mothtrap", "run", "--runs-dir", f"{tmp_path}/runs"])
    seen = run(["sh", "-c", f"rmdir $PWD; exec {words} {script}"], cwd=tmp_path / "gone")
    assert (seen.returncode, seen.stdout) == (0, "started\n")
    assert "Traceback" not in seen.stderr


def test_a_child_is_told_everything_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/their/own")
    monkeypatch.chdir(tmp_path)
    config = Config(overhead=0.5, rules={"GRD101": {"limit": 3.0}})
    child = launch.child_environment(Path("runs/seen/1"), config)
    assert child["PYTHONPATH"].split(os.pathsep) == [str(launch.SITE), "/their/own"]
    assert child["MOTHTRAP_RUN_DIR"] == str(tmp_path / "runs/seen/1")
    assert "torch" in child["MOTHTRAP_FRAMEWORKS"].split(",")
    assert inherited_config(child) == config


def test_a_relative_folder_of_runs_holds_when_the_job_changes_its_own(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import os\nos.chdir('/')\nimport torch\n"
        "model = torch.nn.Linear(2, 1)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "model(torch.ones(1, 2)).sum().backward()\noptimizer.step()\n",
        encoding="utf-8",
    )
    seen = run([*MOTHTRAP, "run", "--name", "seen", script], cwd=tmp_path)
    assert seen.returncode == 0, seen.stderr
    assert layout.workers(tmp_path / "runs" / "seen" / "1") == [0]


FAILS = """
import os, subprocess, sys
import torch
if len(sys.argv) > 1:
    subprocess.run([sys.executable, __file__])
else:
    {}["learning_rate"]
"""


def test_an_exception_before_the_first_step_is_in_the_verdict(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(FAILS, encoding="utf-8")
    seen = run([*ITSELF, "-m", "mothtrap", "run", "--name", "seen", script], cwd=tmp_path)
    assert seen.returncode == 1
    told = " ".join(seen.stderr.partition("mothtrap: ")[2].split())
    assert told.startswith(
        "The job ended with KeyError at train.py:7 before its first optimizer step: "
        "'learning_rate'."
    )


def test_an_exception_of_a_helper_process_is_not_the_end_of_the_job(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(FAILS, encoding="utf-8")
    command = [*MOTHTRAP, "run", "--name", "seen", "--", *PYTHON, script, "helper"]
    seen = run(command, cwd=tmp_path)
    assert seen.returncode == 0
    assert "KeyError" in seen.stderr  # it was raised
    assert layout.workers(tmp_path / "runs" / "seen" / "1") == []


def test_the_start_up_hook_reaches_a_child() -> None:
    assert launch.probe() is None


def test_a_child_that_the_hook_does_not_reach_is_explained(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(launch, "SITE", tmp_path)
    assert "prevents it from loading" in str(launch.probe())


def test_a_folder_whose_name_is_no_utf_8_harms_neither_the_job_nor_the_run(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"dir\xff")
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("the file system refuses such names")
    config = Config(runs_dir=str(folder / "runs"), capture="off")
    code = "import os, sys; sys.exit(3 if 'MOTHTRAP_RUN_DIR' in os.environ else 4)"
    assert launch.launch([*python(code), str(folder)], config=config, name="seen") == 3
    run = mothtrap.open_run(folder / "runs" / "seen")
    assert run.info.command[-1].endswith("dir\\udcff")


def test_switched_off_nothing_is_stored(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOTHTRAP_DISABLE", "1")
    code = "import os, sys; sys.exit(3 if 'MOTHTRAP_RUN_DIR' in os.environ else 4)"
    assert launch.launch(python(code), config=config, name="seen") == 4
    assert not (tmp_path / "runs").exists()


def test_signals_that_are_meant_for_the_job_reach_it(tmp_path: Path) -> None:
    code = (
        "import signal, sys\n"
        "waited = [signal.SIGUSR1]\n"  # blocked: a handler may run just before a wait for it
        "signal.pthread_sigmask(signal.SIG_BLOCK, waited)\n"
        "print('ready', flush=True)\nsys.exit(9 if signal.sigwait(waited) else 0)\n"
    )
    job = start([*MOTHTRAP, "run", "--name", "seen", "--", *python(code)], cwd=tmp_path)
    assert job.stdout is not None
    assert job.stdout.readline() == "ready\n"
    os.kill(job.pid, signal.SIGUSR1)
    assert finish(job).returncode == 9


def test_a_verdict_that_cannot_be_made_does_not_change_the_exit_code(tmp_path: Path) -> None:
    code = "import os, shutil, sys; shutil.rmtree('runs'); sys.exit(6)"
    command = [*MOTHTRAP, "run", "--name", "seen", "--", *python(code)]
    seen = run(command, cwd=tmp_path, env=environment())
    assert seen.returncode == 6
    assert seen.stderr.count("mothtrap: cannot summarize") == 1
    assert "Traceback" not in seen.stderr


CLOSES = """
import os, sys
import torch

def train(steps):
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(2, 3)).sum().backward()
        optimizer.step()

model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
train(5)
os.closerange(3, 256)  # as programs do that become daemons
files = [open(f"checkpoint-{number}", "wb", buffering=0) for number in range(30)]
train(5)
for file in files:
    file.write(b"theirs")
"""


@pytest.mark.parametrize("writer", ["thread", "process"])
def test_files_of_a_script_that_closes_all_descriptors_are_its_own(
    tmp_path: Path, writer: str
) -> None:
    script = tmp_path / "train.py"
    script.write_text(CLOSES, encoding="utf-8")
    command = [*MOTHTRAP, "run", "--name", "seen", script]
    seen = run(command, cwd=tmp_path, env=environment(MOTHTRAP_WRITER=writer))
    assert seen.returncode == 0, seen.stderr
    contents = {path.read_bytes() for path in tmp_path.glob("checkpoint-*")}
    assert contents == {b"theirs"}
    assert mothtrap.open_run(tmp_path / "runs" / "seen").steps == 10
