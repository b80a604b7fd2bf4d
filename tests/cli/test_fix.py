"""`mothtrap fix` prints a patch that repairs a script, and tries it in a copy."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from click.testing import CliRunner
from tests.cli.stored_run import store_run
from tests.harness.running import MOTHTRAP, PYTHON, observed, run
from tests.report.faulty_run import exploding

from mothtrap.cli import main
from mothtrap.core.findings import Severity

SCRIPT = """\
import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(600, 12)
y = torch.sin(x[:, :1]) + 0.5 * x[:, 1:2]
model = nn.Sequential(nn.Linear(12, 32), nn.SiLU(), nn.Linear(32, 1))
opt = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(4):
    for rows in torch.randperm(600).split(30):
        loss = nn.functional.mse_loss(model(x[rows]), y[rows])
        loss.backward()
        opt.step()
"""


def test_a_patch_is_printed_applied_and_tried(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    script = folder / "train.py"
    script.write_text(SCRIPT, encoding="utf-8")
    run(observed(["--", *PYTHON, "train.py"], runs_dir=tmp_path / "runs", name="r"), cwd=folder)
    outcome = run([*MOTHTRAP, "fix", tmp_path / "runs" / "r", "--try", "--anyway"], cwd=folder)
    assert outcome.returncode == 0, outcome
    assert "GRD105 stale gradient: " in outcome.stderr
    diff, _, tried = outcome.stdout.partition("the finding is gone\n")
    assert "verdict of the patched script: " in tried
    assert script.read_text(encoding="utf-8") == SCRIPT, "the file of the user stays"

    if shutil.which("patch"):
        subprocess.run(["patch", "-p1"], input=diff, text=True, cwd=folder, check=True)
        assert "        opt.zero_grad()\n" in script.read_text(encoding="utf-8")


def test_a_run_without_findings_has_no_patch(tmp_path: Path) -> None:
    store_run(tmp_path / "x")
    done = CliRunner().invoke(main, ["fix", str(tmp_path / "x")])
    assert done.exit_code == 1
    assert done.stdout == ""
    assert "nothing was found in this run" in done.stderr


def test_a_run_with_notes_alone_says_that_nothing_needs_a_fix(tmp_path: Path) -> None:
    store_run(tmp_path / "x", findings=(exploding(severity=Severity.INFO),))
    done = CliRunner().invoke(main, ["fix", str(tmp_path / "x")])
    assert done.exit_code == 1
    assert done.stderr == "nothing was found in this run that needs a fix\n"
