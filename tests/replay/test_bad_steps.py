"""Steps that go bad late and rarely: kept, skipped, replayed, narrowed down.

By default one in five is replayed, another skips its bad step, and another stops the job there;
with `HARNESS=full` each does all of these.
"""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest
from tests.harness.running import FULL, MOTHTRAP, PYTHON, Outcome, observed, run
from tests.replay.expected import BAD_STEPS, BadStep

FOLDER = Path(__file__).parent / "programs"
MARK = "# <- here"
STOPPED = 3
WEIGHTS = re.compile(r"^(?:step (?P<step>\d+)|end) weights (?P<digest>\w+)$", re.MULTILINE)
RAISING = [bad for bad in BAD_STEPS if bad.exception]
OTHERS = [bad for bad in BAD_STEPS if not bad.exception]
WAYS = 1 if FULL else 5


def cases(steps: list[BadStep], way: int) -> list:
    """Return those of the bad steps that run in one of the ways."""
    return [pytest.param(bad, id=bad.name) for bad in steps[way % WAYS :: WAYS]]


REPLAYED = [*cases(RAISING, 0), *cases(OTHERS, 0)]


def trained(bad: BadStep, folder: Path, *options: str, returncode: int = 0) -> Outcome:
    """Run a program under mothtrap; its run is `folder / "seen"`."""
    target = [*options, "--", *PYTHON, FOLDER / f"{bad.name}.py"]
    words = observed(target, runs_dir=folder, name="seen")
    outcome = run(words, cwd=folder)
    assert outcome.returncode == returncode, outcome.stderr
    assert "switched off" not in outcome.stderr
    return outcome


def weights(outcome: Outcome) -> tuple[list[str], str]:
    """Return the digests of the weights before each step, and at the end."""
    *steps, end = (found["digest"] for found in WEIGHTS.finditer(outcome.stdout))
    return steps, end


def marked_line(bad: BadStep) -> str:
    """`file:line` of the line that must be named."""
    text = (FOLDER / f"{bad.name}.py").read_text(encoding="utf-8").splitlines()
    [line] = [number for number, line in enumerate(text, start=1) if line.endswith(MARK)]
    return f"{bad.name}.py:{line}"


def replayed(bad: BadStep, folder: Path) -> dict:
    """Return the report of `mothtrap replay` about the run, in a new process."""
    script = [*PYTHON, FOLDER / f"{bad.name}.py"]
    words = [*MOTHTRAP, "replay", folder / "seen", "--format", "json", "--", *script]
    outcome = run(words, cwd=folder)
    assert outcome.returncode == 0, outcome.stderr
    return json.loads(outcome.stdout)


def test_every_program_is_expected_to_be_what_it_says() -> None:
    programs = {path.stem for path in FOLDER.glob("*.py")} - {"telling"}
    assert programs == {bad.name for bad in BAD_STEPS}
    for bad in BAD_STEPS:
        text = (FOLDER / f"{bad.name}.py").read_text(encoding="utf-8")
        said = " ".join((ast.get_docstring(ast.parse(text)) or "").split())
        assert f"step {bad.step}" in said, bad.name
        assert (bad.operation or "No operation") in said, bad.name
        assert all(f"row {row}" in said for row in bad.rows or ()), bad.name


@pytest.mark.parametrize("bad", REPLAYED)
def test_the_step_is_replayed_and_narrowed_down(bad: BadStep, tmp_path: Path) -> None:
    trained(bad, tmp_path, returncode=1 if bad.exception else 0)
    again = replayed(bad, tmp_path)
    told = json.dumps(again, indent=1)
    assert (again["step"], again["match"]) == (bad.step, True), told
    assert (again["operation"], again["module"]) == (bad.operation, bad.module), told
    if bad.operation is not None:
        assert again["location"].endswith(marked_line(bad)), told
    assert bad.holder in (again["holder"] or ""), told
    assert tuple(again["rows"]) == (bad.rows or ()), told
    assert again["worker"] == bad.worker, told
    if bad.sample is not None:
        assert again["samples"][0].split()[0] == str(bad.sample), told
    assert (again["exception"] or "").partition(":")[0] == (bad.exception or ""), told


@pytest.mark.parametrize("bad", cases(OTHERS, 1))
def test_a_skipped_step_leaves_the_weights_alone(bad: BadStep, tmp_path: Path) -> None:
    outcome = trained(bad, tmp_path, "--on-nonfinite", "skip")
    steps, end = weights(outcome)
    if bad.operation is None and bad.holder != "batch":  # the weights were bad before
        assert set(steps[bad.step :]) | {end} == {steps[bad.step]}
        return
    assert steps[bad.step + 1] == steps[bad.step]
    assert steps[bad.step] != steps[bad.step - 1]
    assert steps[bad.step + 2] != steps[bad.step + 1]


@pytest.mark.parametrize("bad", cases(OTHERS, 2))
def test_a_stop_leaves_the_weights_alone(bad: BadStep, tmp_path: Path) -> None:
    outcome = trained(bad, tmp_path, "--on-nonfinite", "stop", returncode=STOPPED)
    steps, end = weights(outcome)
    assert len(steps) == bad.step + 1
    assert end == steps[-1] != steps[-2]
