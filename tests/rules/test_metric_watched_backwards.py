from __future__ import annotations

from collections.abc import Iterable

import pytest
from tests.rules.epochs import epochs
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.epochs import MetricWatched
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.window import Window
from mothtrap.rules.metric_watched_backwards import MetricWatchedBackwards
from mothtrap.testing import RuleTests

LOSSES = (0.9, 0.5, 0.4, 0.3, 0.25)
SHARES = (0.3, 0.5, 0.6, 0.7, 0.8)


def watched(monitor: str, direction: str, **options: object) -> MetricWatched:
    known = {
        "fit": "fit train.py:9",
        "callback": "EarlyStopping",
        "metric": monitor.removeprefix("val_"),
        "held_out": monitor.startswith("val_"),
        "stops": True,
        "location": "train.py:7",
    }
    return MetricWatched(step=0, monitor=monitor, direction=direction, **(known | options))


def check(*parts: object) -> list[Finding]:
    return MetricWatchedBackwards().check(window(*parts))


TRAINED = epochs(
    {"loss": LOSSES, "accuracy": SHARES, "own": SHARES},
    {"loss": LOSSES, "accuracy": SHARES, "own": SHARES},
)


class TestMetricWatchedBackwards(RuleTests):
    rule = MetricWatchedBackwards

    def sick(self) -> Iterable[Window]:
        yield window(watched("val_loss", "max"), *TRAINED)
        yield window(watched("val_accuracy", "min"), *TRAINED)
        yield window(watched("loss", "max"), *TRAINED)
        yield window(watched("val_auc", "min"))  # before the first epoch has ended
        yield window(watched("val_f1_score", "min"))

    def healthy(self) -> Iterable[Window]:
        yield window(watched("val_loss", "min"), *TRAINED)
        yield window(watched("val_accuracy", "max"), *TRAINED)
        yield window(watched("val_own", "min"), *TRAINED)  # not known which way it is better
        yield window(watched("val_fid_score", "min"), *TRAINED)
        yield window(*TRAINED)


def test_it_is_an_error_once_an_early_epoch_is_taken_for_the_best() -> None:
    one = watched("val_loss", "max", restores=True)
    [finding] = check(one, *TRAINED[:1])
    assert (finding.severity, finding.step) == (Severity.WARNING, 0)
    [finding] = check(one, *TRAINED)
    assert (finding.severity, finding.step) == (Severity.ERROR, 0)
    assert finding.location == "train.py:7"
    assert finding.message == (
        'EarlyStopping treats the greatest val_loss as the best (`mode="max"`), but a smaller '
        "one is better: epoch 1 of 5 counts as the best, and its weights are restored"
    )
    [fix] = finding.fixes
    assert 'mode="min"' in fix


def test_a_loss_that_rises_and_is_meant_to_stays_a_warning() -> None:
    rising = epochs({"loss": SHARES}, {"d_loss": SHARES})
    [finding] = check(watched("val_d_loss", "max"), *rising)
    assert finding.severity == Severity.WARNING


def test_a_rate_that_falls_with_each_better_epoch() -> None:
    one = watched(
        "val_accuracy", "min", callback="ReduceLROnPlateau", stops=False, lowers_rate=True
    )
    [finding] = check(one, *TRAINED)
    assert finding.severity == Severity.ERROR
    assert "after epoch 1 of 5, every improvement lowers the learning rate" in finding.message
    [fix] = finding.fixes
    assert 'mode="max"' in fix


def test_the_metric_of_the_framework_knows_its_direction_better_than_its_name() -> None:
    known = epochs({"loss": LOSSES, "own": SHARES}, {"own": SHARES}, higher_is_better=("own",))
    [finding] = check(watched("val_own", "min", saves=True, stops=False), *known)
    assert finding.message.endswith("epoch 1 of 5 counts as the best, and its weights are kept")


def test_trainings_of_other_lines_are_not_asked() -> None:
    [finding] = check(watched("val_loss", "max", fit="fit train.py:30"), *TRAINED)
    assert finding.severity == Severity.WARNING


def test_it_does_not_apply_where_nothing_acts_by_a_metric() -> None:
    with pytest.raises(NotApplicable):
        check(*TRAINED)


def test_a_schedule_is_judged_by_the_name_of_its_metric() -> None:
    known = {"fit": "", "callback": "ReduceLROnPlateau", "lowers_rate": True, "stops": False}
    [finding] = check(watched("val_loss / total", "max", metric="val_loss / total", **known))
    assert finding.severity is Severity.WARNING
    assert "treats the greatest val_loss / total as the best" in finding.message
    assert check(watched("val_acc", "max", metric="val_acc", **known)) == []
