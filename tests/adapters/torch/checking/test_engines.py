"""Scripts that cannot be restarted for a trial, and trials for which no time is left."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch
from torch import nn

from mothtrap.adapters.torch.checking import engines
from mothtrap.adapters.torch.checking.engines import Command, RestartEngine, why_no_restart
from mothtrap.adapters.torch.checking.recording import Recording
from mothtrap.adapters.torch.checking.scaled_losses import ScaledLosses
from mothtrap.checks.step import Change
from mothtrap.core.check_plan import CheckPlan


class FullyShardedDataParallel(nn.Module):
    """Imitates a model whose weights are sharded, without a process group."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 2)


def recorded(model: nn.Module) -> Recording:
    recording = Recording(10, lambda: None, ScaledLosses())
    recording.forward_called(model, (torch.ones(4, 3),), {})
    recording.step_ended(torch.optim.SGD(model.parameters(), lr=0.1))
    recording.finish()
    return recording


@pytest.mark.parametrize(
    ("words", "model", "reason"),
    [
        (("python", "train.py"), nn.Linear(3, 2), ""),
        (("python", "-m", "package.train"), nn.Linear(3, 2), ""),
        (("python",), nn.Linear(3, 2), "standard input or a prompt"),
        (("python", "-"), nn.Linear(3, 2), "standard input or a prompt"),
        (("python", "train.py"), FullyShardedDataParallel(), "sharded across ranks"),
    ],
)
def test_some_scripts_cannot_be_started_again(
    words: tuple[str, ...], model: nn.Module, reason: str
) -> None:
    found = why_no_restart(Command(words=words), recorded(model))
    assert reason in found
    assert bool(found) == bool(reason)


def test_a_trial_is_not_begun_if_the_script_takes_longer_to_start(tmp_path: Path) -> None:
    plan = CheckPlan(steps=10, budget_s=60, scratch=str(tmp_path), began_s=time.time() - 30)
    engine = RestartEngine(plan, Command(), recorded(nn.Linear(3, 2)), time.monotonic() + 10)
    lines, in_time = engine.played(Change(), 100, 5.0)
    assert in_time
    assert b"30 s to start the script again, and 10 s are left" in lines
    assert not list(tmp_path.iterdir())


def test_a_process_without_accelerators_is_copied() -> None:
    assert engines.why_no_copy() == ""
