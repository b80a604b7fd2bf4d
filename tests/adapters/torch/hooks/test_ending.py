"""Reports at the end of a job that made no step."""

from __future__ import annotations

from pathlib import Path

import torch
from tests.adapters.torch.watched import watched
from tests.harness.running import PYTHON, observed, run, show
from torch import nn

from mothtrap.core.facts.captures import Blind


def test_backwards_that_no_step_follows_are_told() -> None:
    # A user forgot optimizer.step(); "nothing was observed" alone did not help.
    with watched() as seen:
        model, x = nn.Linear(4, 1), torch.randn(16, 4)
        for _ in range(3):
            model(x).sum().backward()
    [reason] = seen.tracer.recorder.notes.unstepped
    assert isinstance(reason, Blind)
    assert reason.reason.startswith("backward ran 3 times, but no optimizer's step() was called")
    assert "dbg.step(loss=loss)" in reason.reason


def found_in(source: str, folder: Path) -> list[dict]:
    """Return the findings for a script."""
    (folder / "train.py").write_text(source)
    run(observed([folder / "train.py"], runs_dir=folder, name="seen"), cwd=folder)
    return show(folder / "seen", cwd=folder)["findings"]


CLEARED = """
import torch

def train():
    model, x = torch.nn.Linear(4, 1), torch.randn(16, 4)
    opt = torch.optim.Adam(model.parameters())
    for _ in range(20):
        opt.zero_grad()
        model(x).pow(2).mean().backward()

train()
"""


def test_an_optimizer_that_only_clears_its_gradients_is_an_error(tmp_path: Path) -> None:
    # The function has ended, so the optimizer is gone when the script ends.
    [finding] = found_in(CLEARED, tmp_path)
    assert (finding["code"], finding["severity"]) == ("OPT620", "error")
    assert finding["location"] == "train.py:8"
    assert "backward ran 20 times, but Adam never stepped" in finding["message"]
    fixed = run([*PYTHON, "-m", "mothtrap", "fix", tmp_path / "seen"], cwd=tmp_path)
    assert "\n+        opt.step()\n" in fixed.stdout


def test_gradients_that_the_script_reads_are_no_fault(tmp_path: Path) -> None:
    assert found_in(CLEARED.replace("opt.zero_grad()", "print(x.sum())"), tmp_path) == []
