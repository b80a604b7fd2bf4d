"""`max_run_mb` is respected by both writers, and the run reports what was omitted."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import mothtrap
from mothtrap.core.facts.captures import Dropped


@pytest.mark.parametrize("writer", ["thread", pytest.param("process", marks=pytest.mark.full)])
def test_statistics_stop_at_the_limit_and_losses_go_on(tmp_path: Path, writer: str) -> None:
    model = torch.nn.Sequential(*(torch.nn.Linear(2, 2) for _ in range(20)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    settings = {"capture": "everything", "max_run_mb": 0.25, "runs_dir": str(tmp_path)}
    with mothtrap.watch(model, optimizer, writer=writer, overhead=0, **settings) as watch:
        for _ in range(40):
            optimizer.zero_grad()
            loss = model(torch.ones(3, 2)).pow(2).mean()
            loss.backward()
            optimizer.step()
            watch.step(loss=loss)
    run = mothtrap.open_run(watch.path)
    assert run.steps == 40
    assert len(run.scalars("loss")[0]) == 40
    reasons = {o.reason for o in run.observations(Dropped)}
    assert reasons == {"the run has reached its size limit (max_run_mb)"}
    stored = sum(p.stat().st_size for p in tmp_path.rglob("stats-*.arrow"))
    assert 0 < stored < 0.25 * 2**20
