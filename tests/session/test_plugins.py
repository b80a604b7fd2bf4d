"""An unusable rule of another distribution is recorded in the run."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.plugins import install

import mothtrap


def test_a_broken_rule_is_among_what_the_run_did_not_see(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plugins").mkdir()
    install(tmp_path / "plugins", monkeypatch, {"mothtrap.rules": {"slow_loader": "1 / 0\n"}})
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with mothtrap.watch(model, optimizer, runs_dir=str(tmp_path / "runs")) as watch:
        model(torch.ones(3, 2)).pow(2).mean().backward()
        optimizer.step()
    run = mothtrap.open_run(watch.path)
    assert run.steps == 1
    [blind] = [blind for blind in run.blind if "slow_loader" in blind.what]
    assert "their-plugins 1.2" in blind.what
    assert blind.reason == "ZeroDivisionError: division by zero"
