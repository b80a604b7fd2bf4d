"""Assertions on predictions: functions that check for each row if its prediction can be right.

Shape suffixes: R = rows.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mothtrap.core.errors import ConfigError
from mothtrap.core.findings import Severity
from mothtrap.core.rule_form import CODE
from mothtrap.core.ruledoc import parse_doc

Mask = npt.NDArray[np.bool_]
PREDICT = "predict"
"""Keyword-only argument of a check that receives the predict function itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assertion:
    """A condition on predictions, created by `mothtrap.assertion`.

    Attributes:
        code: capital letters and three digits.
        name: name of the function.
        severity: severity of the finding if a prediction breaks it.
        check: called with the rows and their predictions; returns one bool per row, True if
            the assertion holds.
        correction: called with the rows and their predictions; returns better predictions.
        settings: values of the check's keyword-only arguments.
        asks_model: the check takes the predict function as `predict`.
    """

    code: str
    name: str
    severity: Severity
    check: Callable[..., Any]
    correction: Callable[[Any, Any], Any] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    asks_model: bool = False

    def __call__(self, X: Any, predictions: Any, **settings: Any) -> Any:
        """Return the function's result, as if it were not decorated."""
        return self.check(X, predictions, **{**self.settings, **settings})

    def using(self, **settings: Any) -> Assertion:
        """Return a copy of the assertion with different values for its keyword-only arguments."""
        return replace(self, settings={**self.settings, **settings})

    def correct(self, function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        """Set the correction; used as a decorator.

        Args:
            function: takes the rows and their predictions, and returns predictions in the same
                form. Only the predictions of failing rows are used.
        """
        object.__setattr__(self, "correction", function)
        return function

    def holds(self, X: Any, predictions: Any, predict: Callable[[Any], Any]) -> Mask:
        """Return a mask (R,) of the rows that satisfy the assertion.

        Raises:
            ConfigError: the check did not return one bool per row.
            Exception: the check raised an exception.
        """
        given = dict(self.settings)
        if self.asks_model:
            given[PREDICT] = predict
        return _as_mask(self.check(X, predictions, **given), len(predictions), self.name)

    @property
    def why(self) -> str:
        """The docstring's section `Why it matters`, or its summary."""
        doc = parse_doc(inspect.getdoc(self.check) or "")
        return doc.why or doc.summary

    @property
    def fixes(self) -> tuple[str, ...]:
        """The bullets of the docstring's section `What to do`."""
        return parse_doc(inspect.getdoc(self.check) or "").fixes


def assertion(
    code: str, *, severity: Severity | Literal["error", "warning", "info"] = Severity.ERROR
) -> Callable[[Callable[..., Any]], Assertion]:
    """Turn a function of rows and predictions into an assertion.

    The function returns one bool per row, True if the prediction can be right. Its settings are
    keyword-only arguments with defaults. An argument `*, predict` receives the predict function.
    `correct` adds a correction::

        @mothtrap.assertion("BEH901")
        def price_is_positive(X, predictions, *, low=0.0):
            return predictions >= low

        @price_is_positive.correct
        def _(X, predictions):
            return predictions.clip(min=0)

    Args:
        code: two or more capital letters and three digits.
        severity: severity of the finding if a prediction breaks the assertion.

    Raises:
        ConfigError: the code or the function is not valid for an assertion.
    """
    if not isinstance(code, str) or not CODE.fullmatch(code):
        raise ConfigError(
            f"an assertion code is capital letters and three digits, such as BEH901; got {code!r}"
        )
    found = Severity(severity)

    def decorate(function: Callable[..., Any]) -> Assertion:
        asks_model = _check_arguments(function)
        return Assertion(
            code=code,
            name=function.__name__,
            severity=found,
            check=function,
            asks_model=asks_model,
        )

    return decorate


def as_array(values: Any) -> npt.NDArray[Any]:
    """Convert an array of any framework to a NumPy array."""
    if hasattr(values, "detach"):  # a tensor of PyTorch, on any device
        # A copy: numpy forbids for good that the storage of a tensor which it reads is resized.
        values = values.detach().cpu().clone()
    return np.asarray(values)


def _check_arguments(function: Callable[..., Any]) -> bool:
    """Return whether a check takes the predict function.

    Raises:
        ConfigError: the function cannot be called with rows and predictions.
    """
    if not callable(function) or inspect.iscoroutinefunction(function):
        raise ConfigError(f"@assertion decorates {function!r}; it must decorate a function (`def`)")
    arguments = list(inspect.signature(function).parameters.values())
    placed = [a for a in arguments if a.kind is not inspect.Parameter.KEYWORD_ONLY]
    named = [a for a in arguments if a.kind is inspect.Parameter.KEYWORD_ONLY]
    name = getattr(function, "__name__", "check")
    if len(placed) != 2:
        raise ConfigError(
            f"the assertion {name} must take rows and predictions: write "
            f"`def {name}(X, predictions):`"
        )
    for argument in named:
        if argument.name != PREDICT and argument.default is inspect.Parameter.empty:
            raise ConfigError(
                f"the assertion {name}: its argument {argument.name!r} needs a default value"
            )
    return any(argument.name == PREDICT for argument in named)


def _as_mask(given: Any, count: int, name: str) -> Mask:
    """Return one bool per row."""
    values = as_array(given)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim == 0:
        values = np.broadcast_to(values, (count,))
    if values.shape != (count,) or values.dtype.kind not in "bO":
        raise ConfigError(
            f"the assertion {name} must return one bool per row, shape ({count},); it returned "
            f"{values.dtype}, shape {values.shape}"
        )
    if values.dtype.kind == "O":  # missing values of pandas do not hold
        values = np.array([each is True for each in values.tolist()], bool)
    return np.asarray(values)
