"""`dbg.mode(...)`: forwards have the mode that the script sets, whatever autograd does."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.harness.running import PYTHON, observed, run
from torch import nn

import mothtrap
from mothtrap import Collection
from mothtrap.core.facts.evaluations import Evaluation

EVERY_MODE = ("train", "eval", "predict")
PROGRAM = """
import sys
import torch
import mothtrap
from torch import nn
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
dbg = mothtrap.watch(model, optimizer)
of_module = nn.MSELoss()
for step in range(3):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(torch.ones(8, 4)), torch.ones(8, 1)).backward()
    optimizer.step()
    with dbg.mode(sys.argv[1]):
        for loss in (of_module, nn.functional.mse_loss):
            loss(model(torch.ones(5, 4)), torch.zeros(5, 1)).item()
"""


def test_captures_go_by_the_mode_that_is_set(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    hidden = Collection(tensors=("activation:1",), statistics=("count",), modes=EVERY_MODE)
    settings = {"runs_dir": str(tmp_path), "name": "x", "collections": {"hidden": hidden}}
    with mothtrap.watch(model, optimizer, **settings) as dbg:
        for _ in range(2):
            optimizer.zero_grad()
            with torch.no_grad(), dbg.mode("train"):
                model(torch.ones(1, 4))
            model(torch.ones(16, 4)).sum().backward()
            optimizer.step()
            with dbg.mode("eval"):  # in training mode, under autograd
                model(torch.ones(5, 4))
            with torch.no_grad(), dbg.mode("predict"):
                model(torch.ones(3, 4))
                with dbg.mode("eval"):
                    model(torch.ones(5, 4))
                model(torch.ones(3, 4))
    tensor = mothtrap.open_run(tmp_path / "x").tensor("activation:1")
    counts = {mode: tensor.history("count", mode).values_S.tolist() for mode in EVERY_MODE}
    assert counts == {
        "train": [17 * 8] * 2,
        "eval": [5 * 8] * 4,
        "predict": [3 * 8] * 4,
    }


@pytest.mark.parametrize(("mode", "calls"), [("eval", [2] * 3), ("predict", [])])
def test_losses_of_the_mode_are_those_of_an_evaluation_or_of_none(
    mode: str, calls: list[int], tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(PROGRAM, encoding="utf-8")
    words = observed(["--", *PYTHON, "train.py", mode], runs_dir=tmp_path, name="seen")
    assert run(words, cwd=tmp_path).returncode == 0
    seen = mothtrap.open_run(tmp_path / "seen")
    assert [fact.calls for fact in seen.observations(Evaluation)] == calls
    assert [len(series) for series in seen.scalars("loss", mode="train")] == [3]


def test_a_word_that_is_no_mode_is_refused_and_nothing_stays_set(tmp_path: Path) -> None:
    model = nn.Linear(2, 1)
    with mothtrap.watch(model, name="x", runs_dir=str(tmp_path)) as dbg:
        refused = pytest.raises(ValueError, match=r"train, eval or predict, not 'evel'.*'eval'")
        with refused, dbg.mode("evel"):  # type: ignore[arg-type]
            pass
        with pytest.raises(KeyError), dbg.mode("eval"):
            raise KeyError
        assert dbg._job is not None
        assert dbg._job.asked_mode is None


def test_where_nothing_is_watched_it_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOTHTRAP_DISABLE", "1")
    dbg = mothtrap.watch(nn.Linear(2, 1))
    with dbg.mode("eval"):
        pass
