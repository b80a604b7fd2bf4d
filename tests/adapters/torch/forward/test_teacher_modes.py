from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from tests.adapters.torch.watched import sgd, watched
from torch import nn

from mothtrap.core.facts.evaluations import TeacherMode


def teacher(dropout: float = 0.5) -> nn.Module:
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(dropout), nn.Linear(16, 3))


def found(
    taught: nn.Module, *, first: bool = False, other: bool = False, student: nn.Module | None = None
) -> list[TeacherMode]:
    """Return the reports of a distillation; `first`: the teacher is called first."""
    model = student or nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    with watched() as seen:
        optimizer = sgd(model)
        for _ in range(12):
            x = torch.randn(10, 6)
            given = torch.randn(10, 6) if other else x.view(10, 6)
            answers = taught(given).detach() if first else None
            out = model(x)
            if answers is None:
                with torch.no_grad():
                    answers = taught(given)
            optimizer.zero_grad()
            F.mse_loss(out, answers).backward()
            optimizer.step()
        assert seen.failed() == []
        return [one for one in seen.observed(TeacherMode) if isinstance(one, TeacherMode)]


@pytest.mark.parametrize("first", [False, True])
def test_a_teacher_in_training_mode_is_told_once(first: bool) -> None:
    [one] = found(teacher(), first=first)
    assert (one.module_type, one.steps, one.norms) == ("Sequential", 8, ())
    assert [path.rpartition(".")[2] for path in one.dropouts] == ["2"]
    assert "test_teacher_modes.py" in (one.location or "")


def test_a_teacher_in_evaluation_mode_is_fine() -> None:
    assert found(teacher().eval()) == []


def test_a_teacher_without_dropout_is_fine() -> None:
    assert found(teacher(0.0)) == []


def test_a_model_that_gets_other_data_is_no_teacher() -> None:
    assert found(teacher(), other=True) == []


@pytest.mark.parametrize("first", [False, True])
def test_a_copy_of_the_student_is_no_teacher(first: bool) -> None:
    student = teacher()
    assert found(copy.deepcopy(student), first=first, student=student) == []
