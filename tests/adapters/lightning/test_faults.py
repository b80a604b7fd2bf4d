"""Faults in LightningModules are named as in plain PyTorch, at the line in `training_step`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lightning.pytorch")

import torch
from lightning import pytorch as pl
from tests.adapters.faults_on_torch import FAULTS, Program
from tests.adapters.lightning.modules import trainer
from torch.utils.data import DataLoader, TensorDataset

from mothtrap.adapters.lightning import ADAPTER
from mothtrap.core.findings import Finding, Severity
from mothtrap.testing.adapters import Process

pytestmark = pytest.mark.filterwarnings("ignore")


class Module(pl.LightningModule):
    """A program as people write it for Lightning."""

    def __init__(self, program: Program) -> None:
        super().__init__()
        self.model, self.program = program.model, program

    def training_step(self, batch: Any, _: int) -> torch.Tensor:
        x, y = batch
        loss = self.program.loss(self.model(x), y)  # the loss
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=self.program.rate, momentum=0.9)


def findings(name: str, *, healthy: bool) -> tuple[Program, list[Finding]]:
    process = Process("torch")
    with process.watched(ADAPTER):
        torch.manual_seed(0)
        program = FAULTS[name](healthy)
        loader = DataLoader(TensorDataset(program.x, program.y), 32, shuffle=program.shuffles)
        trainer(max_epochs=program.epochs).fit(Module(program), loader)
    return program, [each for each in process.findings() if each.severity is not Severity.INFO]


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named_and_its_twin_is_no_error(name: str) -> None:
    program, found = findings(name, healthy=False)
    naming = [each for each in found if each.name in program.named]
    assert naming, [each.name for each in found]
    if program.at_loss:
        file, _, line = str(naming[0].location).rpartition(":")
        assert Path(file).name == Path(__file__).name
        assert "# the loss" in Path(__file__).read_text().splitlines()[int(line) - 1]
    _, alarms = findings(name, healthy=True)
    assert not [each for each in alarms if each.severity is Severity.ERROR]
