"""What mothtrap adds to a job is measured as a whole: imports, hooks, threads, and launcher."""

from __future__ import annotations

from pathlib import Path

from tests.harness.running import MOTHTRAP, environment, run

import mothtrap
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
    seen = run([*MOTHTRAP, "run", "--name", "seen", script], cwd=tmp_path, env=environment())
    assert seen.returncode == 0, seen.stderr
    cost: Overhead = mothtrap.open_run(tmp_path / "runs" / "seen").overhead
    parts = (cost.seconds, cost.start_seconds, cost.beside_seconds, cost.launcher_seconds)
    assert min(parts) > 0.0
    assert cost.added_seconds == sum(parts)
    assert "mothtrap added " in seen.stderr
