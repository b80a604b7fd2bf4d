"""An assertion is a function that checks for each row whether its prediction can be right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import mothtrap
from mothtrap.core.errors import ConfigError
from mothtrap.core.findings import Severity


def ask(X: Any) -> Any:
    return X


@mothtrap.assertion("BEH901", severity="warning")
def is_small(X: Any, predictions: Any, *, high: float = 2.0) -> Any:
    """The prediction is too large.

    Why it matters:
        Such a price is a mistake.

    What to do:
        - Look at the row.
    """
    return predictions <= high


@pytest.mark.parametrize(
    "form", [np.asarray, pd.Series, torch.tensor, lambda v: pd.Series(v, index=[7, 7, 9])]
)
def test_predictions_of_any_framework_are_judged(form: Any) -> None:
    assert is_small.holds(None, form([1.0, 3.0, float("nan")]), ask).tolist() == [
        True,
        False,
        False,
    ]


def test_a_tensor_can_be_resized_after_it_was_judged() -> None:
    given = torch.tensor([1.0, 3.0])
    is_small.holds(None, given, ask)
    given.untyped_storage().resize_(64)


def test_settings_and_documentation_come_from_the_function() -> None:
    assert is_small.using(high=5.0).holds(None, np.array([3.0]), ask).all()
    assert not is_small.holds(None, np.array([3.0]), ask).any()
    assert is_small(None, np.array([3.0]), high=3.0).all()
    assert (is_small.name, is_small.severity) == ("is_small", Severity.WARNING)
    assert (is_small.why, is_small.fixes) == ("Such a price is a mistake.", ("Look at the row.",))


def test_missing_values_of_pandas_do_not_hold() -> None:
    made = mothtrap.assertion("BEH902")(lambda X, p: pd.array([True, None, False]))
    assert made.holds(None, [1, 2, 3], ask).tolist() == [True, False, False]


@pytest.mark.parametrize(
    "given", [np.array([1, 0]), np.array([True]), np.ones((2, 2), bool), "yes"]
)
def test_anything_but_one_bool_per_row_is_refused(given: Any) -> None:
    made = mothtrap.assertion("BEH902")(lambda X, p: given)
    with pytest.raises(ConfigError, match="one bool per row"):
        made.holds(None, [1, 2], ask)


def test_a_form_that_cannot_be_called_is_refused_when_it_is_defined() -> None:
    with pytest.raises(ConfigError, match="three digits"):
        mothtrap.assertion("price")
    with pytest.raises(ConfigError, match="must take rows and predictions"):
        mothtrap.assertion("BEH902")(lambda predictions: True)
    with pytest.raises(ConfigError, match="'low' needs a default"):

        @mothtrap.assertion("BEH902")
        def one(X: Any, predictions: Any, *, low: float) -> Any:
            return predictions > low
