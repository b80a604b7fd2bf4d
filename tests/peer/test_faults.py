"""The trainings on which built-in rules of other tools were shown, and the findings in them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.peer.trainings import classifier, parameter, trained
from torch import nn

from mothtrap import Run, Watch


def codes(run: Run) -> set[str]:
    return {finding.code for finding in run.findings}


@pytest.mark.parametrize(("rate", "ill"), [(1e-3, False), (1e12, True)])
def test_a_rate_that_explodes_the_training_is_found_and_a_usual_one_is_not(
    tmp_path: Path, rate: float, ill: bool
) -> None:
    run = trained(tmp_path, 30, lr=rate)
    assert bool(codes(run) & {"NUM001", "NUM002", "NUM004", "GRD101", "LOS402"}) == ill


def test_units_that_never_fire_are_found_with_their_layer(tmp_path: Path) -> None:
    model = classifier()
    with torch.no_grad():
        parameter(model, "0.bias").fill_(-100.0)
    run = trained(tmp_path, 60, model=model)
    (found,) = [finding for finding in run.findings if finding.code == "ACT201"]
    assert found.layers == ("1",)


def test_weights_that_never_change_are_found(tmp_path: Path) -> None:
    assert "OPT601" in codes(trained(tmp_path, 60, lr=0.0))


def test_a_loss_that_does_not_fall_is_found(tmp_path: Path) -> None:
    targets = torch.randint(3, (16,))

    class Deaf(nn.Module):  # learns, but nothing from its input
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Linear(4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.body(x) * 1e-6

    def loss_of(output: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(output, targets)

    run = trained(tmp_path, 260, model=Deaf(), loss_of=loss_of, lr=0.01)
    assert codes(run) & {"LOS401", "LOS407"}


def test_a_nan_is_named_with_its_first_step(tmp_path: Path) -> None:
    def each(step: int, model: nn.Module, dbg: Watch) -> None:
        if step == 7:
            gradient = parameter(model, "0.weight").grad
            assert gradient is not None
            gradient[0, 0] = float("nan")

    run = trained(tmp_path, 12, each)
    (found,) = [finding for finding in run.findings if finding.code == "NUM002"]
    assert (found.step, found.layers) == (7, ("0.weight",))
