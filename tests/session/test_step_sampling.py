"""A job of short steps: most are not watched, and a fault in an unwatched step is found."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from tests.harness.running import observed, run, show

import mothtrap
from mothtrap.capture.step_sampling import FIRST_STEPS, TOGETHER
from mothtrap.core.facts.captures import Unwatched
from mothtrap.reader.run import Run

STEPS, BAD = FIRST_STEPS + 2000, FIRST_STEPS + 1755
PROGRAM = f"""
import torch
from torch import nn
torch.set_num_threads(1)
torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.5, {STEPS})
losses = []
for step in range({STEPS}):
    x = torch.randn(8, 4)
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
    if step == {BAD}:
        loss = loss * float("nan")
    loss.backward()
    optimizer.step()
    schedule.step()
    losses.append(loss.item())
with open("losses.txt", "w") as file:
    file.write(" ".join(map(repr, losses)))
"""

NO_CREDIT = "from mothtrap.capture import step_sampling\nstep_sampling.CREDIT_S = 0.0\n"
"""Runs when Python starts: a fast machine would not use up the credit within these steps."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("rests")
    (folder / "train.py").write_text(PROGRAM, encoding="utf-8")
    (folder / "sitecustomize.py").write_text(NO_CREDIT, encoding="utf-8")
    command = observed(["train.py"], runs_dir=folder / "runs", name="short")
    outcome = run(command, cwd=folder, env=os.environ | {"PYTHONPATH": str(folder)})
    assert outcome.returncode == 0
    return folder


@pytest.fixture(scope="module")
def opened(folder: Path) -> Run:
    return mothtrap.open_run(folder / "runs" / "short")


def test_all_steps_are_counted_and_each_was_watched_or_told(opened: Run) -> None:
    told = opened.observations(Unwatched)
    unseen = [step for fact in told for step in range(fact.step, fact.last_step + 1)]
    seen = opened.steps_of("train").tolist()
    assert sorted([*seen, *unseen]) == list(range(STEPS))
    assert opened.steps == STEPS
    assert opened.overhead.unwatched == len(unseen) > STEPS / 2


def test_the_loss_of_every_step_is_kept_bit_by_bit(folder: Path, opened: Run) -> None:
    plain = np.array([float(word) for word in (folder / "losses.txt").read_text().split()])
    [losses] = opened.scalars("loss", "train")
    assert losses.steps_S.tolist() == list(range(STEPS))
    assert np.array_equal(losses.values_S, plain, equal_nan=True)


def test_the_learning_rate_of_every_step_is_kept(opened: Run) -> None:
    [rates] = opened.scalars("lr", "train")
    assert rates.steps_S.tolist() == list(range(STEPS))
    assert np.allclose(rates.values_S, 0.01 * (1 - 0.5 * np.arange(STEPS) / STEPS))


def test_between_rests_steps_are_watched_together(opened: Run) -> None:
    # The distance between them depends on the time that hooks take.
    seen = np.array([s for s in opened.steps_of("train") if s > FIRST_STEPS + 10], int)
    later = np.split(seen, np.flatnonzero(np.diff(seen) > 1) + 1)
    lengths = [len(part) for part in later if len(part) and part[-1] < BAD - 1]
    assert min(lengths) == TOGETHER == np.median(lengths)  # a pause of the machine adds some


def test_the_step_that_went_wrong_is_named(folder: Path) -> None:
    verdict = show(folder / "runs" / "short", cwd=folder)
    first = next(finding for finding in verdict["findings"] if finding["code"] == "NUM001")
    assert first["step"] == BAD
