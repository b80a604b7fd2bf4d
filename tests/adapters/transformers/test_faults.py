"""Faults in Trainer scripts are named as in plain PyTorch, at the line in `compute_loss`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest

transformers = pytest.importorskip("transformers")

import torch  # noqa: E402
from tests.adapters.faults_on_torch import FAULTS, Program  # noqa: E402
from torch.utils.data import Dataset, SequentialSampler  # noqa: E402

from mothtrap.adapters.transformers import ADAPTER  # noqa: E402
from mothtrap.core.findings import Finding, Severity  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


class Rows(Dataset[dict[str, torch.Tensor]]):
    def __init__(self, program: Program) -> None:
        self.program = program

    def __len__(self) -> int:
        return len(self.program.x)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"x": self.program.x[index], "labels": self.program.y[index]}


class Inputs(torch.nn.Module):
    """The model of a program, with the argument names that the Trainer expects."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor, labels: torch.Tensor | None = None) -> torch.Tensor:
        return self.model(x)


class Trainer(transformers.Trainer):
    """A program as people write it for the Trainer."""

    program: Program

    def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False, **_: Any) -> Any:
        outputs = model(x=inputs["x"])
        loss = self.program.loss(outputs, inputs["labels"])  # the loss
        return (loss, outputs) if return_outputs else loss

    def _get_train_sampler(self, *given: Any) -> Any:
        if self.program.shuffles:
            return super()._get_train_sampler(*given)
        return SequentialSampler(self.train_dataset)


def findings(name: str, *, healthy: bool) -> tuple[Program, list[Finding]]:
    process = Process("torch")
    transformers.logging.set_verbosity_error()
    with process.watched(ADAPTER), tempfile.TemporaryDirectory() as folder:
        transformers.set_seed(0)
        program = FAULTS[name](healthy)
        arguments = transformers.TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=32,
            num_train_epochs=program.epochs,
            learning_rate=program.rate,
            lr_scheduler_type="constant",
            optim="sgd",
            optim_args="momentum=0.9",
            logging_steps=5,
            report_to=[],
            use_cpu=True,
            save_strategy="no",
            disable_tqdm=True,
        )
        one = Trainer(Inputs(program.model), arguments, train_dataset=Rows(program))
        one.program = program
        one.train()
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
