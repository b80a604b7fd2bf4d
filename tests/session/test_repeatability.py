"""A flipped bit is distinguished from a bug: the step is sound in two equal replays."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.harness.running import MOTHTRAP, PYTHON, environment, observed, run

from mothtrap.core.replays import Difference, ReplayResult
from mothtrap.session.repeatability import NOT_DETERMINISTIC, TRANSIENT, repeatability

SCRIPT = """
import os
import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(240, 4), torch.randn(240, 1)
first, second = nn.Linear(4, 8), nn.Linear(8, 1)
opt = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.01)
for step, rows in enumerate(torch.arange(240).split(8)):
    hidden = first(x[rows])
    if os.environ.get("FLIP") == str(step):
        with torch.no_grad():
            hidden.view(torch.int32)[3, 2] = 0x7FC00001
    loss = nn.functional.mse_loss(second(hidden), y[rows])
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


def result(loss: float, digest: str = "a") -> ReplayResult:
    differs = Difference(kind="gradient", name="w", found=digest, expected="z")
    return ReplayResult(reached=True, match=False, losses=(loss,), difference=differs)


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ((result(0.5),), TRANSIENT),
        ((result(0.25),), NOT_DETERMINISTIC),
        ((result(0.5, "b"),), NOT_DETERMINISTIC),
        ((), ""),
    ],
)
def test_two_replays_are_compared_by_their_bits(second, said: str) -> None:
    assert repeatability((result(0.5),), second) == said


def test_a_flipped_bit_in_the_run_is_transient(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT, encoding="utf-8")
    flipped = environment(FLIP="20")
    target = ["--", *PYTHON, script]
    run(observed(target, runs_dir=tmp_path / "runs", name="r"), cwd=tmp_path, env=flipped)
    outcome = run([*MOTHTRAP, "replay", tmp_path / "runs" / "r", "--anyway"], cwd=tmp_path)
    assert outcome.returncode == 0, outcome
    assert "no fault here, unlike in the run" in outcome.stdout
    assert f"= note: {TRANSIENT}" in outcome.stdout
