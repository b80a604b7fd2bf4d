"""`mothtrap check` on whole scripts: output, exit code, and files that stay as they are."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.harness.running import PYTHON, Outcome, environment, run, show

PROGRAMS = Path(__file__).parent / "programs"
REAL = (sys.executable,)
"""Python that can be started again by the words that started it."""


def checked(
    folder: Path,
    program: str,
    *arguments: str,
    options: tuple[str, ...] = (),
    python: Sequence[str] = PYTHON,
) -> Outcome:
    """Check a program in a folder."""
    words = [*PYTHON, "-m", "mothtrap", "check", "--runs-dir", "runs", "--name", "seen", *options]
    target = ["--", *python, str(PROGRAMS / program), *arguments]
    return run([*words, *target], cwd=folder, env=environment())


def contents(folder: Path) -> dict[str, str]:
    """Digest of every file of the user's."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "runs" not in path.relative_to(folder).parts
    }


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str], Outcome]:
    """A folder with files of an earlier run, their digests, and the check of a script there."""
    folder = tmp_path_factory.mktemp("writes")
    for name in ("train.log", "best.pt", "old.pt", "history.txt", "losses.npy", "copy.pt"):
        (folder / name).write_text(f"{name} of an earlier run\n")
    with sqlite3.connect(folder / "scores.db") as base:
        base.execute("create table losses (step integer, loss real)")
        base.execute("insert into losses values (-1, 1.0)")
    base.close()
    before = contents(folder)
    return folder, before, checked(folder, "writes.py", options=("--select", "PRE1,LOS"))


def test_files_of_the_user_stay_as_they_are(
    written: tuple[Path, dict[str, str], Outcome],
) -> None:
    folder, before, outcome = written
    assert outcome.returncode == 0, outcome.stderr
    assert contents(folder) == before


def test_a_healthy_script_passes_and_the_terminal_says_what_was_proved(
    written: tuple[Path, dict[str, str], Outcome],
) -> None:
    _, _, outcome = written
    assert "the loss falls when one batch is repeated" in outcome.stderr
    assert "the model uses its input" in outcome.stderr
    assert "0 found a fault" in outcome.stderr


def test_the_run_is_of_kind_check_and_holds_the_states_of_the_checks(
    written: tuple[Path, dict[str, str], Outcome],
) -> None:
    folder, _, _ = written
    record = show(folder / "runs" / "seen", cwd=folder)
    assert record["run"]["kind"] == "check"
    states = {rule["code"]: rule["state"] for rule in record["rules"]}
    assert states["PRE104"] == "ok"
    assert states["PRE102"] == "not_applicable"
    assert json.dumps(record)


@pytest.mark.full
def test_a_script_that_is_started_again_for_a_trial_keeps_its_files_too(tmp_path: Path) -> None:
    (tmp_path / "old.pt").write_text("of an earlier run\n")
    before = contents(tmp_path)
    outcome = checked(
        tmp_path, "writes.py", options=("--restart", "--select", "PRE104"), python=REAL
    )
    assert outcome.returncode == 0, outcome.stderr
    assert "the loss falls when one batch is repeated" in outcome.stderr
    assert contents(tmp_path) == before


@pytest.mark.full
def test_a_thread_that_trains_is_checked_by_restarts(tmp_path: Path) -> None:
    outcome = checked(tmp_path, "threaded.py", options=("--select", "PRE101,PRE104"), python=REAL)
    assert "2 passed" in outcome.stderr, outcome.stderr


@pytest.mark.full
def test_all_ranks_are_started_again_for_a_trial(tmp_path: Path) -> None:
    words = [*PYTHON, "-m", "mothtrap", "check", "--runs-dir", "runs", "--select", "PRE101,PRE104"]
    ranks = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    target = ["--", *REAL, *ranks, str(PROGRAMS / "ranks.py")]
    outcome = run([*words, *target], cwd=tmp_path, env=environment())
    assert "2 passed" in outcome.stderr, outcome.stderr


def test_a_faulty_script_gets_a_finding_and_exit_code_1(tmp_path: Path) -> None:
    outcome = checked(tmp_path, "blind.py", options=("--select", "PRE101,PRE104,PRE105"))
    assert outcome.returncode == 1, outcome.stderr
    assert "PRE105" in outcome.stderr
    record = show(tmp_path / "runs" / "seen", cwd=tmp_path)
    assert "PRE105" in [finding["code"] for finding in record["findings"]]


def test_targets_are_compared_with_the_inputs_of_the_same_step(tmp_path: Path) -> None:
    outcome = checked(tmp_path, "future.py", options=("--select", "PRE102"))
    assert outcome.returncode == 1, outcome.stderr
    assert "PRE102" in outcome.stderr


def test_targets_that_the_model_itself_is_given_are_no_inputs(tmp_path: Path) -> None:
    outcome = checked(tmp_path, "own_loss.py", options=("--select", "PRE105"))
    assert outcome.returncode == 0, outcome.stderr
    assert "the model uses its input" in outcome.stderr


def test_a_check_that_decides_nothing_has_exit_code_2(tmp_path: Path) -> None:
    outcome = checked(tmp_path, "blind.py", options=("--select", "PRE102"))
    assert outcome.returncode == 2, outcome.stderr
    assert "error: nothing was checked: the targets are not the inputs of the next step" in (
        outcome.stderr
    )


def test_the_time_that_a_check_adds_is_neither_overhead_nor_time_of_the_script(
    written: tuple[Path, dict[str, str], Outcome],
) -> None:
    folder, _, outcome = written
    assert "overhead" not in outcome.stderr
    assert "  time: " not in outcome.stderr
    assert not show(folder / "runs" / "seen", cwd=folder).get("phases")


def test_the_data_sets_behind_the_loaders_are_read(tmp_path: Path) -> None:
    outcome = checked(tmp_path, "splits.py", "--leak", options=("--select", "PRE301,PRE401"))
    assert outcome.returncode == 1, outcome.stderr
    assert "30 of 130 evaluation samples of TensorDataset" in " ".join(outcome.stderr.split())
    assert "scores to beat (dummy accuracy" in outcome.stderr
    record = show(tmp_path / "runs" / "seen", cwd=tmp_path)
    assert [finding["code"] for finding in record["findings"]] == ["PRE301"]


@pytest.mark.full
def test_simple_models_are_fitted_after_the_script_has_ended(tmp_path: Path) -> None:
    options = ("--select", "PRE401", "--steps", "100")
    outcome = checked(tmp_path, "splits.py", options=options, python=REAL)
    assert "scores to beat (dummy accuracy" in outcome.stderr


@pytest.mark.full
def test_simple_models_that_a_check_fits_are_no_steps_of_the_script(tmp_path: Path) -> None:
    options = ("--select", "PRE401", "--restart")
    outcome = checked(tmp_path, "splits.py", options=options, python=REAL)
    assert "scores to beat (dummy accuracy" in outcome.stderr
    assert show(tmp_path / "runs" / "seen", cwd=tmp_path)["run"]["steps"] <= 10


def test_a_run_after_a_check_is_the_same_as_before(tmp_path: Path) -> None:
    words = [*PYTHON, str(PROGRAMS / "splits.py")]
    before = run(words, cwd=tmp_path, env=environment()).stdout
    assert before.count("\n") >= 3
    checked(tmp_path, "splits.py", options=("--select", "PRE104,PRE301"))
    assert run(words, cwd=tmp_path, env=environment()).stdout == before


def test_the_table_that_a_forest_is_fitted_to_is_checked(tmp_path: Path) -> None:
    outcome = checked(tmp_path, "tables.py", "--leak", options=("--select", "PRE104,PRE3"))
    assert outcome.returncode == 1, outcome.stderr
    assert "40 of 143 evaluation rows" in " ".join(outcome.stderr.split())
    assert "there is no training step to repeat" in " ".join(outcome.stderr.split())


@pytest.mark.full
def test_a_healthy_split_has_no_finding(tmp_path: Path) -> None:
    outcome = checked(tmp_path, "splits.py", options=("--select", "PRE3,PRE4"))
    assert outcome.returncode == 0, outcome.stderr
    assert "0 found a fault" in outcome.stderr


@pytest.mark.full
def test_a_connection_to_another_machine_is_refused(tmp_path: Path) -> None:
    outcome = checked(tmp_path, "writes.py", "--connect", options=("--select", "PRE103"))
    assert "blocked a connection to" in outcome.stderr
    assert outcome.returncode != 0


@pytest.mark.full
def test_a_script_that_never_trains_says_so(tmp_path: Path) -> None:
    outcome = checked(tmp_path, "untrained.py", options=("--select", "PRE103"))
    assert "nothing was checked: the script ended after 0 steps" in outcome.stderr
    assert outcome.returncode == 2


@pytest.mark.full
def test_the_budget_is_kept_by_a_script_that_hangs(tmp_path: Path) -> None:
    began = time.monotonic()
    outcome = checked(tmp_path, "hangs.py", options=("--select", "PRE1", "--budget", "40"))
    assert "the script completed 4 steps in" in " ".join(outcome.stderr.split())
    assert "the gradient reaches every parameter" in outcome.stderr
    assert time.monotonic() - began < 60


@pytest.mark.full
def test_a_script_that_hangs_between_two_steps_is_checked(tmp_path: Path) -> None:
    options = ("--select", "PRE101,PRE104", "--budget", "40")
    outcome = checked(tmp_path, "hangs_in_loader.py", options=options)
    assert "2 checks" in outcome.stderr
    assert "the gradient reaches every parameter" in outcome.stderr
    assert "damaged" not in outcome.stderr
    assert "without closing" not in outcome.stderr


@pytest.mark.full
def test_a_script_that_is_too_slow_for_the_budget_says_so(tmp_path: Path) -> None:
    outcome = checked(tmp_path, "slow.py", options=("--select", "PRE101", "--budget", "8"))
    assert "Nothing was observed: the script completed 0 steps" in outcome.stderr
    assert "larger --budget" in outcome.stderr
    assert outcome.returncode == 2


@pytest.mark.full
def test_a_script_that_crashes_before_its_first_step_has_exit_code_1(tmp_path: Path) -> None:
    outcome = checked(tmp_path, "crashes.py", options=("--select", "PRE101"))
    assert outcome.returncode == 1
    assert "RuntimeError" in outcome.stderr
