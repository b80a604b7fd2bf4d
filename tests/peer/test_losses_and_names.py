"""Losses are found and correct; no two tensors share a name; what users log is kept."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.harness import running
from tests.peer.trainings import UNJUDGED, trained
from torch import nn

import mothtrap
from mothtrap import Collection, Watch

LOSSES = """
import json
import torch
from torch import nn

torch.manual_seed(0)
models = [nn.Linear(4, 3), nn.Linear(4, 3)]
optimizer = torch.optim.SGD([p for model in models for p in model.parameters()], lr=0.1)
module = nn.CrossEntropyLoss()
def own(output, target):
    return (output - nn.functional.one_hot(target, 3)).pow(2).mean()
losses = {{"module": [], "function": [], "own": []}}
choices = {{"module": module, "function": nn.functional.cross_entropy, "own": own}}
for step in range(6):
    inputs, target = torch.randn(8, 4), torch.randint(3, (8,))
    output = models[0](inputs) + models[1](inputs)
    name = {order}[step % 3]
    loss = choices[name](output, target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses[name].append(loss.item())
json.dump(losses, open("losses.json", "w"))
"""


def test_losses_of_modules_functions_and_ones_own_are_seen_without_a_word(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(LOSSES.format(order=["module", "function", "own"]))
    command = [*running.MOTHTRAP, "run", "--name", "job", "train.py"]
    assert running.run(command, cwd=tmp_path).returncode == 0
    seen = mothtrap.open_run("job", tmp_path / "runs")
    losses = json.loads((tmp_path / "losses.json").read_text())
    expected = [losses[("module", "function", "own")[step % 3]][step // 3] for step in range(6)]
    (series,) = seen.scalars("loss")
    assert series.values_S.tolist() == expected
    assert series.steps_S.tolist() == list(range(6))
    # Two models of one class have names of their own.
    assert {tensor.identity for tensor in seen.tensors(kind="gradient")} == {
        *("gradient:weight", "gradient:bias", "gradient:Linear#1.weight", "gradient:Linear#1.bias")
    }


def test_a_loss_that_is_no_module_is_taken_as_it_is(tmp_path: Path) -> None:
    def own(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return (output.sum(1) - target).pow(2).mean()

    run = trained(tmp_path, 4, loss_of=own)
    (series,) = run.scalars("loss")
    assert np.isfinite(series.values_S).all()
    assert len(series.values_S) == 4


class Reusing(nn.Module):
    """Uses one module three times."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.relu, self.head = nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x = self.relu(self.body(x))
        return self.head(x)


def test_a_module_that_is_used_three_times_has_six_tensors(tmp_path: Path) -> None:
    chosen = Collection(tensors=("inputs:relu*", "activations:relu*"), raw=True)
    run = trained(tmp_path, 2, model=Reusing(), collections={"relu": chosen}, **UNJUDGED)
    assert {tensor.identity for tensor in run.tensors()} == {
        *("input:relu.0", "input:relu.0#1", "input:relu.0#2"),
        *("activation:relu", "activation:relu#1", "activation:relu#2"),
    }
    values = [tensor.at(1) for tensor in run.tensors()]
    assert len({value.tobytes() for value in values}) == 6
    for call in ("", "#1", "#2"):
        given, returned = run.tensor(f"input:relu.0{call}"), run.tensor(f"activation:relu{call}")
        assert np.array_equal(np.maximum(given.at(1), 0), returned.at(1))


def test_numbers_and_tensors_of_ones_own_have_the_step_in_which_they_were_logged(
    tmp_path: Path,
) -> None:
    def each(step: int, model: nn.Module, dbg: Watch) -> None:
        dbg.log("always", step * 0.5)
        mothtrap.log("from elsewhere", step)
        if step % 2:
            dbg.log_tensor("sometimes", np.arange(step))

    rare = {"weights": Collection(every=100)}  # logging does not wait for a schedule
    run = trained(tmp_path, 5, each, collections=rare)
    (always,) = run.scalars("always")
    assert (always.steps_S.tolist(), always.values_S.tolist()) == (
        [0, 1, 2, 3, 4],
        [0.0, 0.5, 1.0, 1.5, 2.0],
    )
    assert run.scalars("from elsewhere")[0].values_S.tolist() == [0, 1, 2, 3, 4]
    sometimes = run.tensor("sometimes")
    assert sometimes.steps().tolist() == [1, 3]
    assert sometimes.at(3).tolist() == [0, 1, 2]


def test_a_tensor_of_ones_own_may_belong_to_any_new_collection(tmp_path: Path) -> None:
    chosen = {
        "mine": Collection(tensors=("metrics:confusion",), statistics=("max",)),
        "yours": Collection(tensors=("*:conf*",), statistics=("mean",)),
    }

    def each(step: int, model: nn.Module, dbg: Watch) -> None:
        dbg.log_tensor("confusion", np.eye(3) * step)

    run = trained(tmp_path, 3, each, collections=chosen)
    confusion = run.tensor("metric:confusion")
    assert confusion.identity in {t.identity for t in run.tensors(collection="mine")}
    assert confusion.identity in {t.identity for t in run.tensors(collection="yours")}
    assert confusion.at(2).tolist() == (np.eye(3) * 2).tolist()
    assert confusion.history("max").values_S.tolist() == [0, 1, 2]
    assert confusion.history("mean").values_S.tolist() == pytest.approx([0, 1 / 3, 2 / 3])
