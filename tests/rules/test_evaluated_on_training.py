from __future__ import annotations

import pytest
from tests.rules.boosting import began
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable
from mothtrap.core.findings import Severity
from mothtrap.rules.evaluated_on_training import EvaluatedOnTraining


def check(*parts, rule: EvaluatedOnTraining = EvaluatedOnTraining()):  # noqa: B008
    return rule.check(window(*parts))


def test_training_data_under_another_name_are_a_warning() -> None:
    for name in ("validation_0", "valid", "eval", "test"):
        [finding] = check(began(sites=(name,), train_site=name))
        assert finding.severity is Severity.WARNING
    [finding] = check(began(sites=("train",), train_site="train"))
    assert finding.severity is Severity.INFO


def test_stays_quiet_where_other_rows_are_evaluated() -> None:
    assert check(began()) == []


def test_says_why_it_cannot_judge() -> None:
    with pytest.raises(NotApplicable, match="no evals"):
        check(began(sites=(), train_site=""))
