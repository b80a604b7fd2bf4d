"""The time that mothtrap adds to a job is measured in total, and that of steps by phase."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.harness.running import MOTHTRAP, environment, run

import mothtrap
from mothtrap.core.facts.phases import PhasesTimed
from mothtrap.core.phases import PHASES
from mothtrap.core.runs import Overhead

SCRIPT = """
import torch

model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(200):
    optimizer.zero_grad()
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()
"""


def test_every_part_is_measured(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT, encoding="utf-8")
    command = [sys.executable, "-m", "mothtrap", "run", "--name", "seen", script]
    seen = run(command, cwd=tmp_path, env=environment())  # which imports torch itself
    assert seen.returncode == 0, seen.stderr
    cost: Overhead = mothtrap.open_run(tmp_path / "runs" / "seen").overhead
    parts = (
        *(cost.seconds, cost.start_seconds, cost.beside_seconds, cost.close_seconds),
        cost.launcher_seconds,
    )
    assert min(parts) > 0.0
    assert cost.saved_seconds > 0.0  # torch is imported at the top of the script
    whole_s = sum(parts) + cost.slowed_seconds - cost.saved_seconds
    assert cost.slowed_seconds > 0.0
    assert cost.added_seconds == pytest.approx(max(0.0, whole_s))
    assert "mothtrap added " in seen.stderr


PHASES_OF_ALL_KINDS = """
import torch
from torch.utils.data import DataLoader

model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(3):
    for x in DataLoader(torch.ones(60, 3), 2):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        model(torch.ones(1000, 3))
    model.train()
    torch.save(model.state_dict(), "weights.pt")
"""


def test_the_time_of_steps_is_divided_among_phases(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(PHASES_OF_ALL_KINDS, encoding="utf-8")
    seen = run([*MOTHTRAP, "run", "--name", "seen", script], cwd=tmp_path, env=environment())
    assert seen.returncode == 0, seen.stderr
    timed = mothtrap.open_run(tmp_path / "runs" / "seen").observations(PhasesTimed)
    assert (timed[0].first_step, timed[-1].step) == (1, 89)
    spent = {name: sum(each.seconds[name] for each in timed) for name in PHASES}
    assert min(spent.values()) > 0.0, spent
    shown = run([*MOTHTRAP, "show", "seen"], cwd=tmp_path, env=environment())
    assert "  time: " in shown.stdout
