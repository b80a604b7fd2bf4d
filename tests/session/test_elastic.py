"""Jobs that start again: through torchrun, and through a user who resumes a run."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.harness.programs import FOLDER
from tests.harness.running import MOTHTRAP, TORCHRUN, Outcome, environment, observed, run

from mothtrap.core.facts.workers import Resumed
from mothtrap.reader.run import Run, open_run

PROGRAM = str(FOLDER / "restarted.py")
EVALUATIONS = 'outputs = {modes = ["eval"]}'


def restarted(folder: Path, how: str, *launcher: str, resume: bool = False) -> tuple[Outcome, Run]:
    """Run the program that fails once, which `launcher` may start again."""
    script = [PROGRAM, how, str(folder / "checkpoint"), str(folder / "failed")]
    target = ["--", *launcher, *script] if launcher else script
    options = ["--resume"] if resume else []
    command = observed([*options, *target], runs_dir=folder, name="job")
    outcome = run(
        command, cwd=folder, env=environment(OMP_NUM_THREADS="1", MOTHTRAP_COLLECTIONS=EVALUATIONS)
    )
    return outcome, open_run(folder / "job")


def resumptions(run: Run) -> list[Resumed]:
    """Return the steps at which attempts resumed; each has all losses and the rate before it."""
    found = run.observations(Resumed)
    assert all(len(losses) == one.step for one in found for losses in one.losses.values())
    assert all(bool(one.losses) == bool(one.step) for one in found)
    assert all(set(one.last_rates.values()) == {0.1} for one in found if one.step)
    known = {"losses": {}, "first_rates": {}, "last_rates": {}}
    return [msgspec.structs.replace(one, **known) for one in found]


def steps(run: Run, worker: int) -> list[int]:
    return run.scalars("loss", worker=worker)[0].steps_S.tolist()


def evaluations(run: Run) -> list[tuple[int, int]]:
    """Return the step and own count of each forward of an evaluation."""
    return [(key.step, key.mode_step) for key in run.timeline.keys("eval")]


def test_workers_that_torchrun_starts_again_go_on_where_they_loaded(tmp_path: Path) -> None:
    launcher = (TORCHRUN, "--standalone", "--nproc-per-node", "2", "--max-restarts", "1")
    outcome, run = restarted(tmp_path, "weights", *launcher)
    assert outcome.returncode == 0, outcome.stderr
    assert (run.attempts, run.workers, run.steps, run.state) == (2, (0, 1), 9, "finished")
    saved = "its weights are those saved after 5 steps"
    wanted = Resumed(step=5, evidence=saved, evaluations=2, loaded=True)
    assert resumptions(run) == [wanted, wanted]
    assert [steps(run, worker) for worker in (0, 1)] == [list(range(9))] * 2
    assert evaluations(run) == [(2, 0), (4, 1), (6, 2), (8, 3)]


def test_a_resumed_run_goes_on_in_its_next_attempt(tmp_path: Path) -> None:
    outcome, run = restarted(tmp_path, "optimizer", resume=True)  # none exists yet: it begins
    assert (outcome.returncode, run.attempts, run.steps) == (1, 1, 7)
    outcome, run = restarted(tmp_path, "optimizer", resume=True)
    assert outcome.returncode == 0, outcome.stderr
    assert (run.attempts, run.steps, run.state) == (2, 9, "finished")
    wanted = Resumed(step=5, evidence="its optimizer has taken 5 steps", evaluations=2)
    assert resumptions(run) == [wanted]
    assert steps(run, 0) == list(range(9))
    assert evaluations(run) == [(2, 0), (4, 1), (6, 2), (8, 3)]
    assert run.timeline.step_of("eval", 3) == 8


@pytest.mark.parametrize(
    ("how", "fix"),
    [
        ("well", None),
        ("forgets", "No saved weights were loaded"),
        pytest.param(
            "rescales",
            "If the saved weights are loaded, check that both attempts prepare the data",
            marks=pytest.mark.full,
        ),
    ],
)
def test_a_loss_that_jumps_where_a_job_goes_on_is_a_note(
    tmp_path: Path, how: str, fix: str | None
) -> None:
    script = [str(FOLDER / "resumed_anew.py"), str(tmp_path / "saved"), how]
    for _ in range(2):
        outcome = run(observed(["--resume", *script], runs_dir=tmp_path, name="job"), cwd=tmp_path)
        assert outcome.returncode == 0, outcome.stderr
    found = [one for one in open_run(tmp_path / "job").findings if one.code == "RUN911"]
    assert [(one.step, one.fixes[0].startswith(fix or "")) for one in found] == [(80, True)] * bool(
        fix
    )


def test_resuming_needs_a_name(tmp_path: Path) -> None:
    command = [*MOTHTRAP, "run", "--resume", PROGRAM]
    outcome = run(command, cwd=tmp_path)
    assert outcome.returncode == 2
    assert "--resume needs the name of the run" in outcome.stderr


@pytest.mark.full
@pytest.mark.parametrize("name", ["job", None])
def test_models_that_are_watched_go_on_in_the_run_of_before(
    tmp_path: Path, name: str | None
) -> None:
    launcher = (TORCHRUN, "--standalone", "--nproc-per-node", "2", "--max-restarts", "1")
    words = [str(FOLDER / "watched_restarted.py"), str(tmp_path / "saved"), *([name] * bool(name))]
    runs = tmp_path / "runs"
    own = environment(OMP_NUM_THREADS="1", MOTHTRAP_RUNS_DIR=str(runs))
    outcome = run([*launcher, *words], cwd=tmp_path, env=own)
    assert outcome.returncode == 0, outcome.stderr
    (path,) = runs.iterdir()
    found = open_run(path)
    assert (found.attempts, found.workers, found.steps, found.state) == (2, (0, 1), 9, "finished")
    resumed = found.observations(Resumed)
    assert [each.step for each in resumed] == [5, 5]
    assert {each.evidence for each in resumed} == {"its weights are those saved after 5 steps"}
    assert [steps(found, worker) for worker in (0, 1)] == [list(range(9))] * 2
