"""The test that `mothtrap replay --as-test` writes fails, and passes once the fault is fixed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.harness.running import FULL, MOTHTRAP, PYTHON, Outcome, environment, observed, run

FOLDER = Path(__file__).parent / "programs"
# A program, the subject of its test, and its repair: in the script, or in the test.
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
    env = environment(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")  # importing them takes half a second
    return run([*PYTHON, "-m", "pytest", *options, test], cwd=test.parent, env=env)


@pytest.mark.parametrize(
    ("name", "subject", "fault", "mended"),
    [pytest.param(*case, id=case[0]) for case in CASES[: None if FULL else 1]],
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
    assert f"test_step.py reproduces it with {subject} alone" in outcome.stdout, outcome

    of_operation = "torch." in subject
    assert ("it does not test a fix of" in outcome.stdout) is of_operation, outcome

    failed = checked(test)
    assert failed.returncode == 1, failed.stdout
    faulty = test if of_operation else script
    text = faulty.read_text(encoding="utf-8")
    assert text.count(fault) == 1
    faulty.write_text(text.replace(fault, mended), encoding="utf-8")
    passed = checked(test)
    assert passed.returncode == 0, passed.stdout


LAST_BATCH = """
import torch
from torch import nn

torch.manual_seed(0)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(3, 4, batch_first=True)
        self.out = nn.Linear(4, 1)

    def forward(self, x):
        y, _ = self.rnn(x, torch.zeros(1, 8, 4))
        return self.out(y[:, -1])


model = Recurrent()
optimizer = torch.optim.Adam(model.parameters())
for x in torch.randn(44, 5, 3).split(8):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
"""


def test_a_layer_that_raises_by_itself_gives_a_test_and_a_step_in_order_a_reason(
    tmp_path: Path,
) -> None:
    script, runs = tmp_path / "train.py", tmp_path / "runs"
    script.write_text(LAST_BATCH, encoding="utf-8")
    run(observed(["--", *PYTHON, script], runs_dir=runs, name="seen"), cwd=tmp_path)
    again = [*MOTHTRAP, "replay", runs / "seen", "--anyway", "--as-test"]
    outcome = run([*again, tmp_path / "test_step.py"], cwd=tmp_path)
    assert outcome.returncode == 0, outcome
    assert "test_step.py reproduces it with module `rnn` (GRU) alone" in outcome.stdout
    assert "it does not test a fix of train.py:15" in outcome.stdout
    failed = checked(tmp_path / "test_step.py")
    assert failed.returncode == 1, failed.stdout
    assert "Expected hidden size (1, 4, 4), got [1, 8, 4]" in failed.stdout

    script.write_text(LAST_BATCH.replace("(1, 8, 4)", "(1, len(x), 4)"), encoding="utf-8")
    outcome = run([*again, tmp_path / "test_mended.py"], cwd=tmp_path)
    assert outcome.returncode == 2, outcome
    assert "no fault here, unlike in the run" in outcome.stdout
    assert "error: no test was written: the step has no fault here" in outcome.stderr
    assert not (tmp_path / "test_mended.py").exists()
