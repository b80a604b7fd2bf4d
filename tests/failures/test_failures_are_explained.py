"""Programs that end with an exception of the framework, run as their users run them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.failures.expected import FAILURES, UNEXPLAINED
from tests.harness.running import FULL, PYTHON, observed, run, show

PROGRAMS = Path(__file__).parent / "programs"


def failing(name: str, runs_dir: Path) -> list[str]:
    """Return the command that observes a program, without importing torch for it."""
    target = ["--", *PYTHON, PROGRAMS / f"{name}.py"]
    return observed(target, runs_dir=runs_dir, name="failed")


@pytest.mark.parametrize("name", list(FAILURES)[:: 1 if FULL else 4])
def test_what_ended_the_script_is_explained(name: str, tmp_path: Path) -> None:
    wanted = FAILURES[name]
    outcome = run(failing(name, tmp_path), cwd=PROGRAMS)
    assert outcome.returncode == 1
    [failure] = show(tmp_path / "failed", cwd=PROGRAMS)["failures"]
    assert failure["kind"] == wanted.kind
    assert failure["step"] == wanted.step
    assert failure.get("module") == wanted.module
    assert failure["location"] == f"{name}.py:{wanted.line}"
    for part in wanted.says:
        assert part in failure["sentence"]
    assert wanted.fix in next(iter(failure.get("fixes", [])), "")
    assert wanted.batch in failure.get("batch", "")
    verdict = " ".join(outcome.stderr.rpartition("\nmothtrap: ")[2].split())
    assert " ".join(failure["sentence"].split()) in verdict
    assert "switched" not in outcome.stderr


@pytest.mark.parametrize("name", UNEXPLAINED)
def test_mistakes_of_the_script_itself_get_no_explanation(name: str, tmp_path: Path) -> None:
    outcome = run(failing(name, tmp_path), cwd=PROGRAMS)
    assert outcome.returncode == UNEXPLAINED[name]
    assert "failures" not in show(tmp_path / "failed", cwd=PROGRAMS)


@pytest.mark.parametrize("name", ["smaller_last_batch", "overwritten_activation"])
def test_the_traceback_stays_as_it_is(name: str, tmp_path: Path) -> None:
    script = PROGRAMS / f"{name}.py"
    plain = run([*PYTHON, script], cwd=PROGRAMS)
    watched = run(observed([script], runs_dir=tmp_path, name="failed"), cwd=PROGRAMS)
    assert watched.stdout == plain.stdout
    assert watched.stderr.startswith(plain.stderr)
    said = watched.stderr.removeprefix(plain.stderr).strip().splitlines()
    assert all(line.startswith(("mothtrap: ", "  ")) for line in said if line)
