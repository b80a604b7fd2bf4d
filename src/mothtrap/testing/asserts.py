"""Assertions about a model, for tests: each makes one check of `mothtrap.check`.

They fail with the text of the finding, and also if the check could not decide. Weights and random
states are the same afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from mothtrap.session.explicit_check import check

Loss = Callable[..., Any] | None


def assert_gradients_reach_all(model: Any, loader: Iterable[Any], loss: Loss, **more: Any) -> None:
    """Assert that every parameter of a called layer gets a gradient (PRE101).

    Args:
        model: the model.
        loader: gives batches, such as a list with one batch.
        loss: called with the output of `model(*batch[:-1])` and `batch[-1]`.
        **more: `optimizer` and `step`, as in `mothtrap.check`.
    """
    _assert("PRE101", model, loader, loss, more)


def assert_rows_independent(model: Any, loader: Iterable[Any], loss: Loss, **more: Any) -> None:
    """Assert that the output of a row does not depend on the other rows (STR707)."""
    _assert("STR707", model, loader, loss, more)


def assert_causal(model: Any, loader: Iterable[Any], loss: Loss = None, **more: Any) -> None:
    """Assert that a model of sequences does not see the step that it predicts (PRE102)."""
    _assert("PRE102", model, loader, loss, more)


def assert_initial_loss(model: Any, loader: Iterable[Any], loss: Loss, **more: Any) -> None:
    """Assert that the loss of a fresh model is that of guessing (PRE103)."""
    _assert("PRE103", model, loader, loss, more)


def assert_overfits(model: Any, loader: Iterable[Any], loss: Loss, **more: Any) -> None:
    """Assert that the model can learn one batch (PRE104)."""
    _assert("PRE104", model, loader, loss, more)


def assert_uses_input(model: Any, loader: Iterable[Any], loss: Loss, **more: Any) -> None:
    """Assert that the model learns more from its inputs than without them (PRE105)."""
    _assert("PRE105", model, loader, loss, more)


def assert_evaluation_repeatable(
    model: Any, loader: Iterable[Any], loss: Loss, **more: Any
) -> None:
    """Assert that evaluation mode gives the same output twice (PRE109)."""
    _assert("PRE109", model, loader, loss, more)


def _assert(code: str, model: Any, loader: Iterable[Any], loss: Loss, more: dict[str, Any]) -> None:
    [result] = check(model, loader, loss, select=(code,), **more).results
    if result.found:
        raise AssertionError("\n".join(f"{code}: {found.message}" for found in result.found))
    if result.state != "done":
        raise AssertionError(f"{code} could not decide: {result.reason}")
