"""A run reports what was omitted: with almost no budget, everything after two captures each."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import mothtrap
from mothtrap.core.facts.captures import Thinned
from mothtrap.reader.run import Run
from mothtrap.report.cost import cost_in_words

STEPS = 30


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder: Path = tmp_path_factory.mktemp("runs")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    settings = {"capture": "everything", "overhead": 1e-9, "runs_dir": str(folder)}
    with mothtrap.watch(model, optimizer, **settings) as watch:
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = model(torch.randn(16, 4)).square().mean()
            loss.backward()
            optimizer.step()
            watch.step(loss=loss)
    assert watch.path is not None
    return mothtrap.open_run(watch.path)


@pytest.mark.parametrize("part", ["weights, biases", "gradients", "activations"])
def test_all_that_is_skipped_is_counted(run: Run, part: str) -> None:
    said = f"everything: {part} ({STEPS - 2} of {STEPS} captures)"
    assert said in run.overhead.shed
    assert said in cost_in_words(run.overhead, run.steps)


def test_what_is_missing_has_no_row_and_is_said_by_step(run: Run) -> None:
    mean = run.stats("gradient", "0.weight", ("mean",))["mean"]
    assert mean.steps_S.tolist() == [0, 1, 10, 20]  # the last two beside a histogram
    told = [fact for fact in run.observations(Thinned) if "gradient" in fact.kinds]
    assert [
        (fact.step, fact.last_step, fact.count) for fact in told if "mean" in fact.statistics
    ] == [
        (2, 2, 1),
        (3, STEPS - 1, STEPS - 3),
    ]


def test_norms_and_counts_of_what_is_not_finite_are_there_at_every_step(run: Run) -> None:
    for matrix in run.stats("gradient", "0.weight", ("l2", "nan", "inf")).values():
        assert matrix.steps_S.tolist() == list(range(STEPS))
        assert matrix.present_ST.all()
