from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.harness.running import observed, run, show
from torch import nn
from torch.nn import functional

from mothtrap.adapters.torch.losses.failed_loss import failed_loss, told
from mothtrap.core.facts.losses import FailedLoss

Tensor = torch.Tensor


def raised(act: Callable[[], object]) -> Exception:
    try:
        act()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def seen(act: Callable[[], object]) -> FailedLoss:
    found = failed_loss(raised(act), step=3)
    assert found is not None
    return found


@pytest.mark.parametrize("loss", [functional.cross_entropy, nn.CrossEntropyLoss()])
def test_a_label_that_the_model_has_no_output_for(loss: Callable[..., Tensor]) -> None:
    found = seen(lambda: loss(torch.randn(4, 3), torch.tensor([0, 1, 3, 2])))
    assert (found.operation, found.step, found.classes) == ("cross_entropy", 3, 3)
    assert (found.least, found.greatest, found.target_dtype) == (0, 3, "int64")
    assert "IndexError" in found.error
    assert found.location is not None
    assert "test_failed_loss.py:" in found.location


def test_predictions_that_are_no_probabilities() -> None:
    found = seen(lambda: functional.binary_cross_entropy(torch.tensor([2.0]), torch.ones(1)))
    assert (found.operation, found.predicted_greatest) == ("binary_cross_entropy", 2.0)
    assert (found.least, found.greatest, found.classes) == (1.0, 1.0, None)


def test_a_loss_of_log_probabilities() -> None:
    found = seen(lambda: functional.nll_loss(torch.randn(4, 3), torch.tensor([0, 1, -1, 2])))
    assert (found.operation, found.least) == ("nll", -1)


def test_other_exceptions_are_none_of_a_loss() -> None:
    assert failed_loss(raised(lambda: torch.randn(2, 3) @ torch.randn(2, 3)), 0) is None
    assert failed_loss(raised(lambda: nn.Embedding(3, 2)(torch.tensor([7]))), 0) is None
    assert failed_loss(KeyboardInterrupt(), 0) is None


def test_what_is_no_tensor_has_no_range() -> None:
    found = seen(lambda: functional.cross_entropy(torch.randn(4, 3), [0, 1, 2, 0]))
    assert (found.least, found.target_dtype) == (None, None)


def test_words_say_what_does_not_fit() -> None:
    label = seen(lambda: functional.cross_entropy(torch.randn(2, 3), torch.tensor([1, 3])))
    assert told(label).endswith("; its targets range from 1 to 3, its classes from 0 to 2")
    score = seen(lambda: functional.binary_cross_entropy(torch.tensor([2.0]), torch.ones(1)))
    assert told(score).endswith("; its targets range from 1 to 1, its predictions from 2 to 2")


SCRIPT = """
import torch
from torch import nn
from torch.nn import functional

model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(5):
    labels = torch.tensor([0, 1, 2, FIRST if step == 0 else step])
    loss = functional.cross_entropy(model(torch.randn(4, 4)), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_the_finding_is_told_although_the_script_died(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.replace("FIRST", "0"))
    outcome = run(observed([script], runs_dir=tmp_path, name="seen"), cwd=tmp_path)
    assert outcome.returncode == 1
    assert "IndexError: Target 3 is out of bounds." in outcome.stderr
    record = show(tmp_path / "seen", cwd=tmp_path)
    [finding] = [f for f in record["findings"] if f["code"] == "DAT505"]
    assert finding["location"] == "train.py:10"
    assert "its targets range from 0 to 3, but it accepts 0 to 2" in finding["message"]


def test_without_a_step_the_verdict_says_what_failed(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.replace("FIRST", "7"))
    outcome = run(observed([script], runs_dir=tmp_path, name="seen"), cwd=tmp_path)
    assert outcome.returncode == 1
    assert "labels from 0 to 7 (wrong in row 3)" in outcome.stderr
    assert "the predictions have only classes 0 to 2" in " ".join(outcome.stderr.split())
