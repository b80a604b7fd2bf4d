"""Faults that begin at step 3,000, where steps are light or unwatched; with `HARNESS=full` only."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.harness.running import FULL, PYTHON, observed, run, show

AT, STEPS = 3000, 4200
PROGRAM = f"""
import sys
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
fault = sys.argv[1]
true = torch.randn(16, 4)
layers = nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4)
model = nn.Sequential(*layers)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range({STEPS}):
    x = torch.randn(32, 16)
    y = (x @ true).argmax(1)
    late = step >= {AT}
    if not (late and fault == "stale_gradient"):
        optimizer.zero_grad()
    if step == {AT} and fault == "dead_units":
        with torch.no_grad():
            model[0].bias.fill_(-100.0)
    if step == {AT} and fault == "exploding_gradient":
        optimizer.param_groups[0]["lr"] = 50.0
    if late and step % 7 == 3 and fault == "nonfinite_input":
        x[3, 2] = float("nan")
    if step == {AT} and fault == "learning_rate_zero":
        optimizer.param_groups[0]["lr"] = 0.0
    p = model(x)
    if late and fault == "softmax_before_cross_entropy":
        p = p.softmax(1)
    loss = nn.functional.cross_entropy(p, y)
    if late and fault == "softmax_wrong_dim":
        loss = nn.functional.nll_loss(p.log_softmax(0), y)
    if step == {AT + 33} and fault == "nonfinite_loss":
        loss = loss + (0 * p).abs().log().mean()
    if late and fault == "wrong_sign":
        loss = -loss
    loss.backward()
    optimizer.step()
"""
FAULTS = (
    "stale_gradient",
    "exploding_gradient",
    "nonfinite_input",
    "wrong_sign",
    "dead_units",
    "softmax_before_cross_entropy",
    "learning_rate_zero",
    "softmax_wrong_dim",
    "nonfinite_loss",
)


@pytest.mark.skipif(not FULL, reason="takes minutes: HARNESS=full")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_that_begins_late_is_named(fault: str, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(PROGRAM, encoding="utf-8")
    command = observed(["--", *PYTHON, script, fault], runs_dir=tmp_path, name="seen")
    outcome = run(command, cwd=tmp_path)
    assert outcome.returncode == 0, outcome.stderr
    findings = show(tmp_path / "seen", cwd=tmp_path)["findings"]
    [found] = [finding for finding in findings if finding["name"] == fault]
    assert (found["severity"], found["caused_by"]) == ("error", [])
    assert AT <= found["step"] <= AT + 100
