"""A written script fails in a clean process with the same bits, and contains no user data."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.harness.running import PYTHON, Outcome, run
from torch import nn

from mothtrap.adapters.torch.origin import reproduction
from mothtrap.adapters.torch.origin.failing_calls import FailingCall
from mothtrap.adapters.torch.origin.operations import (
    Localized,
    OperationObserver,
)

LOG = FailingCall(
    name="aten.log.default", function=torch.ops.aten.log.default, args=(torch.zeros(3),), kwargs={}
)
FOUND = Localized(
    operation="torch.log", module=None, location="train.py:3", sentence="x", operation_call=LOG
)


def watched(step) -> Localized:
    """Watch a step that goes wrong, and return the cause found."""
    parameter = torch.ones(4, requires_grad=True)
    with OperationObserver(keep=True) as observer:
        try:
            loss = step(parameter)
            observer.loss(loss)
            loss.backward()
        except Exception as err:
            found = observer.raised(err) or observer.raised_in_module(err)
        else:
            found = observer.explain({"w": parameter.grad})
    assert found is not None
    return found


def ran(script: Path) -> Outcome:
    return run([*PYTHON, script.name], cwd=script.parent)


def by_backward(weight: torch.Tensor) -> torch.Tensor:
    return ((weight - 1.0).square().sum()).sqrt()


def by_in_place(weight: torch.Tensor) -> torch.Tensor:
    values = (weight - 1.0) * 2
    values.log_()
    return values.sum()


def by_half(weight: torch.Tensor) -> torch.Tensor:
    return (weight.bfloat16() * torch.tensor(3e38, dtype=torch.bfloat16) * 8).float().sum()


def by_exception(weight: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.embedding(torch.tensor([[0, 99]]), weight.reshape(2, 2)).sum()


def by_layer(weight: torch.Tensor) -> torch.Tensor:
    return nn.GRU(3, 4)(torch.zeros(5, 8, 3), torch.zeros(1, 7, 4))[0].sum() + weight.sum()


def by_data(weight: torch.Tensor) -> torch.Tensor:
    return (weight * torch.tensor([1.0, float("nan"), 2.0, 3.0])).sum()


@pytest.mark.parametrize(
    "step", [by_backward, by_in_place, by_half, by_exception, by_layer, by_data]
)
def test_the_script_fails_in_another_folder_with_the_same_bits(
    step, tmp_path: Path, monkeypatch
) -> None:
    script = tmp_path / "repro.py"
    # The check of the script starts a process, too; running it once is enough.
    monkeypatch.setattr(reproduction, "_fails", lambda draft: True)
    said = reproduction.write(script, watched(step), 3)
    assert said.startswith("repro.py reproduces it without the script")
    text = script.read_text()
    assert len(text.splitlines()) <= reproduction.MAX_LINES
    assert str(tmp_path) not in text
    assert str(Path(__file__).parent) not in text
    ended = ran(script)
    assert ended.returncode == 1, ended
    assert "reproduced: the same " in ended.stderr


def test_a_tensor_beside_the_script_and_a_digest_that_differs(tmp_path: Path) -> None:
    values = torch.linspace(6000.0, 6001.0, 40)
    call = FailingCall(
        name="aten.logsumexp.default",
        function=torch.ops.aten.logsumexp.default,
        args=(torch.cat([values, -values]) * 1e38, [0]),
        kwargs={},
    )
    found = Localized(
        operation="torch.logsumexp", module=None, location=None, sentence="x", operation_call=call
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reproduction, "MAX_LITERAL", 0)
        reproduction.write(tmp_path / "repro.py", found, 3)
    assert (tmp_path / "repro.npz").exists()
    script = tmp_path / "repro.py"
    lines = script.read_text().splitlines()
    changed = ["EXPECTED = '0'" if line.startswith("EXPECTED") else line for line in lines]
    script.write_text("\n".join(changed))
    ended = ran(script)
    assert ended.returncode == 1
    assert "not finite, but not the same bits" in ended.stderr


@pytest.mark.parametrize("there", ["repro.py", "repro.npz"])
def test_existing_files_stay(tmp_path: Path, there: str) -> None:
    (tmp_path / there).write_text("mine")
    with pytest.raises(reproduction.NotReproducedError, match=f"{there} already exists"):
        reproduction.write(tmp_path / "repro.py", FOUND, 3)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]


def test_a_script_that_does_not_fail_goes(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(reproduction, "_fails", lambda draft: False)
    with pytest.raises(reproduction.NotReproducedError, match="does not fail on its own in a scr"):
        reproduction.write(tmp_path / "repro.py", FOUND, 3)
    assert list(tmp_path.iterdir()) == []


def test_code_of_the_user_is_not_called_and_not_written(tmp_path: Path) -> None:
    calls = []

    class Own(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            calls.append(x)
            raise ValueError("own")

    with pytest.raises(reproduction.NotReproducedError, match="needs code of the training"):
        reproduction.write(tmp_path / "repro.py", watched(lambda w: Own()(w)), 3)
    assert len(calls) == 1


def test_large_tensors_are_refused(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(reproduction, "MAX_BYTES", 3)
    monkeypatch.setattr(reproduction, "MAX_LITERAL", 0)
    call = FailingCall(
        name="aten.exp.default", function=torch.exp, args=(torch.full((3,), 99.0),), kwargs={}
    )
    found = Localized(
        operation="torch.exp", module=None, location=None, sentence="x", operation_call=call
    )
    with pytest.raises(reproduction.NotReproducedError, match="have 4 bytes; 3 fit"):
        reproduction.write(tmp_path / "repro.py", found, 3)
