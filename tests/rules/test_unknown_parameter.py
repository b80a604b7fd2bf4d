from __future__ import annotations

import pytest
from tests.rules.boosting import PLACE, began
from tests.rules.windows import window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.unknown_parameter import unknown_parameter


def check(ignored: dict[str, str] | None, library: str = "lightgbm") -> list[Finding]:
    parameters = {"min_child_samples": "20"}
    seen = began(ignored=ignored, library=library, parameters=parameters)
    return unknown_parameter().check(window(seen))


def test_a_misspelled_parameter_is_a_warning() -> None:
    [found] = check({"min_child_sample": "min_child_samples"})
    assert (found.severity, found.location) == (Severity.WARNING, PLACE)
    assert found.message == (
        "LightGBM does not know the parameter `min_child_sample`, and ignores it; a similar name "
        "that it knows is `min_child_samples`, which is 20"
    )
    assert found.fixes == ("Rename `min_child_sample` to `min_child_samples`.",)


def test_several_parameters_are_counted() -> None:
    [found] = check({"max_dept": "max_depth", "min_child_weigth": "min_child_weight"}, "xgboost")
    assert found.message.startswith("XGBoost does not know the parameter `max_dept`")
    assert found.message.endswith("It ignores 1 more")


def test_arguments_of_train_are_no_parameters() -> None:
    [found] = check({"n_estimators": ""}, "xgboost")
    assert "`train` takes it as its argument `num_boost_round`" in found.message
    assert found.fixes[0].startswith("Pass `num_boost_round=...` to `train`")


def test_quiet_if_all_parameters_are_known() -> None:
    assert check({}) == []


def test_runs_without_the_names_are_not_judged() -> None:
    with pytest.raises(NotEnoughData, match="not inspected"):
        check(None)
