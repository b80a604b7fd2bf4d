from __future__ import annotations

import pytest
from tests.rules.windows import loss, window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.evaluations import TeacherMode
from mothtrap.core.findings import Severity
from mothtrap.rules.teacher_in_training_mode import teacher_in_training_mode


def test_dropout_of_a_teacher_is_a_warning() -> None:
    seen = TeacherMode(
        step=9, module="Big", module_type="Big", steps=8, dropouts=("drop",), location="a.py:7"
    )
    [finding] = teacher_in_training_mode().check(window(loss([1.0] * 20), seen))
    assert (finding.severity, finding.step, finding.location) == (Severity.WARNING, 2, "a.py:7")
    assert finding.layers == ("Big", "drop")
    assert finding.message == (
        "Big is not trained, gets the data of the trained model, and ran in training mode in 8 of "
        "8 inspected steps (limit 8): dropout (drop) active"
    )


def test_batch_norms_of_a_teacher_are_a_note() -> None:
    seen = TeacherMode(step=9, module="Big", module_type="Big", steps=8, norms=("bn",))
    [finding] = teacher_in_training_mode().check(window(loss([1.0] * 20), seen))
    assert finding.severity is Severity.INFO


def test_other_models_are_fine() -> None:
    assert teacher_in_training_mode().check(window(loss([1.0] * 20))) == []


def test_needs_a_few_steps() -> None:
    with pytest.raises(NotEnoughData, match="needs 8 steps, saw 0"):
        teacher_in_training_mode().check(window())
