from __future__ import annotations

import pytest
from tests.rules.boosting import began, table
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable
from mothtrap.core.findings import Severity
from mothtrap.rules.metric_mismatch import metric_mismatch


def check(*parts, rule: metric_mismatch = metric_mismatch()):  # noqa: B008
    return rule.check(window(*parts))


@pytest.mark.parametrize(
    ("fit", "words"),
    [
        (began(task="two_classes", metrics=("rmse",)), "a regression metric"),
        (began(task="regression", metrics=("rmse", "auc")), "evaluated with auc"),
        (began(task="regression", metrics=("mape",)), "relative error"),
    ],
)
def test_fires(fit, words: str) -> None:
    near = table(counts=None, label_nearest=0.0, label_std=2.0)
    [finding] = check(fit, near)
    assert finding.severity is Severity.WARNING
    assert words in finding.message


@pytest.mark.parametrize(
    "fit",
    [
        began(task="two_classes", metrics=("rmse", "logloss")),
        began(task="classes", metrics=("multi_logloss",)),
        began(task="regression", metrics=("RMSE",)),
        began(task="regression", metrics=("mape",)),
        began(task="ranking", metrics=("ndcg@5", "auc")),
        began(task="two_classes", metrics=("rmse", "profit")),
    ],
)
def test_stays_quiet(fit) -> None:
    assert check(fit, table(counts=None, label_nearest=1.0, label_std=2.0)) == []


def test_says_why_it_cannot_judge() -> None:
    with pytest.raises(NotApplicable, match="no metric"):
        check(began(metrics=("profit",)), table())
