"""The test that `mothtrap replay --as-test` writes fails, and passes once the fault is mended."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.harness.running import FULL, MOTHTRAP, PYTHON, Outcome, environment, observed, run

FOLDER = Path(__file__).parent / "programs"
# A program, what its test is of, and how it is mended: in the script, or in the test.
CASES = (
    ("zero_deviation_over_batch", "`standardised`", "correction=0)", "correction=0).clamp(1e-6)"),
    ("empty_sequence", "module `pool` (MaskedMean)", "mask.sum(1)", "mask.sum(1).clamp(1)"),
    ("shape_of_last_batch", "module `fold` (Fold)", "reshape(16, 12)", "flatten(1)"),
    ("log_of_zero", "torch.log", "torch.log(*args", "torch.log(args[0] + 1e-6"),
    ("sqrt_of_zero_in_backward", "torch.sqrt", "torch.sqrt(*args", "torch.sqrt(args[0] + 1e-6"),
)


def checked(test: Path) -> Outcome:
    """Run a written test as its owner would."""
    options = ("-q", "-p", "no:cacheprovider", "--rootdir", test.parent)
    return run([*PYTHON, "-m", "pytest", *options, test], cwd=test.parent, env=environment())


@pytest.mark.parametrize(
    ("name", "subject", "fault", "mended"),
    [pytest.param(*case, id=case[0]) for case in CASES[:: 1 if FULL else 2]],
)
def test_a_written_test_fails_until_the_fault_is_mended(
    name: str, subject: str, fault: str, mended: str, tmp_path: Path
) -> None:
    for program in (f"{name}.py", "telling.py"):
        shutil.copy(FOLDER / program, tmp_path)
    script, test = tmp_path / f"{name}.py", tmp_path / "test_step.py"
    target = ["--", *PYTHON, script]
    run(observed(target, runs_dir=tmp_path, name="seen"), cwd=tmp_path)
    again = ["replay", tmp_path / "seen", "--as-test", test, "--", *PYTHON, script]
    outcome = run([*MOTHTRAP, *again], cwd=tmp_path)
    assert f"test_step.py shows it with {subject} alone" in outcome.stdout, outcome

    of_operation = "torch." in subject
    assert ("it does not guard a repair of" in outcome.stdout) is of_operation, outcome

    failed = checked(test)
    assert failed.returncode == 1, failed.stdout
    faulty = test if of_operation else script
    text = faulty.read_text(encoding="utf-8")
    assert text.count(fault) == 1
    faulty.write_text(text.replace(fault, mended), encoding="utf-8")
    passed = checked(test)
    assert passed.returncode == 0, passed.stdout
