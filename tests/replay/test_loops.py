"""Loops of every form are replayed, bit-identical, without help from the user."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.harness.running import FULL, MOTHTRAP, PYTHON, Outcome, environment, observed, run

from mothtrap.snapshot.format import folder_of, load, write

LOOPS = Path(__file__).parent / "loops"
PROGRAMS = Path(__file__).parent / "programs"
STEPS = {
    "loader_epochs": 4,  # the last, smaller batch of the first epoch
    "loader_workers": 7,
    "next_of_iter": 7,
    "sliced_by_hand": 7,
    "random_indices": 7,
    "numpy_batches": 7,
    "accumulation": 7,
    "gan": 7,
    "lbfgs": 7,
    "rnn_carried": 7,
    "autocast": 7,
    "scripted": 7,
}
"""The step of each loop that is kept and replayed."""


def kept(target: list[Any], folder: Path, *, step: int | None = 7, **env: str) -> Path:
    """Run a loop under mothtrap, and keep a step of it."""
    if step is not None:
        env["MOTHTRAP_SNAPSHOT_AT"] = str(step)
    words = observed(["--", *target], runs_dir=folder, name="seen")
    outcome = run(words, cwd=LOOPS, env=environment(**env))
    assert outcome.returncode == 0, outcome.stderr
    assert "switched off" not in outcome.stderr
    return folder / "seen"


def replayed(path: Path, *options: str) -> Outcome:
    """Return the outcome of `mothtrap replay`, started from its own folder."""
    return run([*MOTHTRAP, "replay", path, *options], cwd=path)


def told(path: Path, *options: str) -> dict[str, Any]:
    outcome = replayed(path, "--format", "json", *options)
    assert outcome.returncode == 0, outcome.stderr
    found: dict[str, Any] = json.loads(outcome.stdout)
    return found


@pytest.mark.parametrize("name", list(STEPS)[:: 1 if FULL else 5])
def test_a_step_comes_to_the_same_bits(name: str, tmp_path: Path) -> None:
    target = [*PYTHON, f"{name}.py"]
    path = kept(target, tmp_path, step=STEPS[name])
    again = told(path)
    assert (again["step"], again["match"]) == (STEPS[name], True), again
    assert again["losses"], again
    assert (again["operation"], again["rows"], again["nonfinite"]) == (None, [], False)


def test_a_class_with_arguments_a_schedule_and_an_evaluation_before_the_training(
    tmp_path: Path,
) -> None:
    target = [*PYTHON, "trainer_class.py", "--width", "5", "--epochs", "3"]
    again = told(kept(target, tmp_path, step=12))
    assert (again["step"], again["match"]) == (12, True), again


def test_a_module_that_makes_a_loader_in_each_epoch(tmp_path: Path) -> None:
    target = [*PYTHON, "-m", "package.train"]
    again = told(kept(target, tmp_path, step=12))
    assert (again["step"], again["match"]) == (12, True), again


def files_of(folder: Path) -> dict[Path, int]:
    """Return when each file was written."""
    return {file: file.stat().st_mtime_ns for file in folder.rglob("*") if file.is_file()}


def test_only_the_result_is_written_to_the_run_and_nothing_behind_the_step_runs(
    tmp_path: Path,
) -> None:
    path = kept([*PYTHON, "sliced_by_hand.py"], tmp_path)
    before = files_of(tmp_path)
    assert replayed(path).returncode == 0
    after = files_of(tmp_path)
    assert {file.name for file in after.keys() - before.keys()} == {"replay.json"}
    assert {file: after.get(file) for file in before} == before


def test_a_script_that_never_comes_to_the_place_is_told_what_it_reached(tmp_path: Path) -> None:
    path = kept([*PYTHON, "rnn_carried.py"], tmp_path)
    outcome = replayed(path, "--", *PYTHON, str(LOOPS / "random_indices.py"))
    assert outcome.returncode == 2
    assert "never reached step 7" in outcome.stderr
    assert "expected at rnn_carried.py:24" in outcome.stderr
    assert "reached instead: a call to Sequential at random_indices.py:" in outcome.stderr
    assert "a step of Adam" in outcome.stderr


def test_a_script_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    path = kept([*PYTHON, "rnn_carried.py"], tmp_path)
    endless = "import time; time.sleep(100)"
    outcome = replayed(path, "--timeout", "1", "--", *MOTHTRAP[:1], "-c", endless)
    assert outcome.returncode == 2
    assert "stopped after 1 s; raise the limit with --timeout" in outcome.stderr


def test_a_model_that_a_function_makes_does_the_step_without_the_script(tmp_path: Path) -> None:
    path = kept([*PYTHON, "random_indices.py"], tmp_path)
    again = told(path, "--build", "built:classifier")
    assert again["match"] is True, again
    outcome = replayed(path, "--build", "built:absent")
    assert outcome.returncode == 2
    assert "no attribute 'absent'" in outcome.stderr


def test_in_another_type_no_match_is_expected(tmp_path: Path) -> None:
    path = kept([*PYTHON, "autocast.py"], tmp_path)
    again = told(path, "--dtype", "float64", "--device", "cpu")
    assert again["match"] is False
    assert any("need not match bit for bit" in note for note in again["notes"])
    assert again["losses"]


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("rate_of_epochs", (3, 4, 5)),
        pytest.param("autocast", (5, 6, 7), marks=pytest.mark.full),
    ],
)
def test_steps_are_played_one_after_the_other_from_an_earlier_state(
    name: str, steps: tuple[int, ...], tmp_path: Path
) -> None:
    loaded = []
    for step in steps:  # a deterministic script gives its arrays the same names in every run
        folder = tmp_path / str(step)
        path = kept([*PYTHON, f"{name}.py"], folder, step=step)
        loaded.append(load(folder_of(path, step, 0)))
    joined = msgspec.structs.replace(
        loaded[-1].snapshot,
        state_step=steps[0],
        state=loaded[0].snapshot.state,
        steps=tuple(one.snapshot.steps[-1] for one in loaded),
    )
    arrays = {key: array for one in loaded for key, array in one.steps.items()}
    write(loaded[-1].folder, joined, loaded[0].state, arrays)
    again = told(path)
    assert (again["step"], again["match"]) == (steps[-1], True), again
    without_one = msgspec.structs.replace(joined, steps=joined.steps[::2])
    write(loaded[-1].folder, without_one, loaded[0].state, arrays)
    assert told(path)["match"] is False


def test_a_step_of_a_later_phase_is_reached_where_training_is_allowed(tmp_path: Path) -> None:
    path = kept([*PYTHON, "phases.py"], tmp_path, step=8)
    outcome = replayed(path)
    assert outcome.returncode == 2
    assert "a step of SGD" in outcome.stderr
    again = told(path, "--through")
    assert (again["step"], again["match"]) == (8, True), again


@pytest.mark.parametrize("leave", ["q", "c"] if FULL else ["q"])
def test_a_debugger_opens_before_the_line_of_the_first_bad_operation(
    leave: str, tmp_path: Path
) -> None:
    target = [*PYTHON, str(PROGRAMS / "log_of_zero.py")]
    path = kept(target, tmp_path, step=None)
    words = [*MOTHTRAP, "replay", path, "--pdb"]
    outcome = run(words, cwd=path, text=f"p 'rows', tuple(x.shape)\n{leave}\n")
    assert outcome.returncode == 0, outcome.stderr
    assert "the debugger opens before" in outcome.stderr
    assert "('rows', (16, 8))" in outcome.stdout
    assert "replayed: bit-identical" in outcome.stdout


def test_a_debugger_opens_where_an_exception_was_raised(tmp_path: Path) -> None:
    target = [*PYTHON, str(PROGRAMS / "shape_of_last_batch.py")]
    words = observed(["--", *target], runs_dir=tmp_path, name="seen")
    assert run(words, cwd=LOOPS).returncode == 1
    words = [*MOTHTRAP, "replay", tmp_path / "seen", "--pdb"]
    outcome = run(words, cwd=tmp_path, text="p 'shape', tuple(x.shape)\nq\n")
    assert outcome.returncode == 0, outcome.stderr
    assert "the debugger opens where it was raised" in outcome.stderr
    assert "('shape', (7, 3, 4))" in outcome.stdout
    assert "replayed: the same exception" in outcome.stdout
