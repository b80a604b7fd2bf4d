"""Plugin of pytest: the assertions about models as a fixture, with a time budget per test.

pytest loads it in every project of an environment with mothtrap. So it imports no framework, adds
no hook that runs per test, and is idle until a test requests the fixture.
"""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable
from typing import Any

import pytest

BUDGET_S = 60.0
"""Seconds for the assertions of a test without a marker: the default of `mothtrap.check`."""


class Assertions:
    """The functions of `mothtrap.testing.asserts`, which share one time budget.

    Args:
        budget_s: seconds for all assertions together, counted from the first assertion.
    """

    def __init__(self, budget_s: float) -> None:
        self._budget_s = budget_s
        self._until: float | None = None

    def __getattr__(self, name: str) -> Callable[..., None]:
        from mothtrap.testing import asserts

        if not name.startswith("assert_"):
            raise AttributeError(name)
        assertion: Callable[..., None] = getattr(asserts, name)
        if not {"more", "budget_s"} & inspect.signature(assertion).parameters.keys():
            return assertion

        @functools.wraps(assertion)
        def within_budget(*args: Any, **kwargs: Any) -> None:
            __tracebackhide__ = True
            kwargs.setdefault("budget_s", self._left_s())
            assertion(*args, **kwargs)

        return within_budget

    def _left_s(self) -> float:
        """Return the remaining seconds."""
        now = time.monotonic()
        if self._until is None:
            self._until = now + self._budget_s
        return max(0.0, self._until - now)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, for projects with `--strict-markers`."""
    config.addinivalue_line(
        "markers", "mothtrap(budget): seconds for the assertions of `mothtrap_asserts`"
    )


@pytest.fixture
def mothtrap_asserts(request: pytest.FixtureRequest) -> Assertions:
    """Assertions about models, as in `mothtrap.testing.asserts`.

    `@pytest.mark.mothtrap(budget=20)` gives all assertions of a test 20 seconds in total.
    """
    marker = request.node.get_closest_marker("mothtrap")
    return Assertions(_budget(marker))


def _budget(marker: pytest.Mark | None) -> float:
    """Return the seconds of a marker.

    Raises:
        pytest.UsageError: the marker has other arguments.
    """
    if marker is None:
        return BUDGET_S
    given = {**dict(zip(("budget",), marker.args, strict=False)), **marker.kwargs}
    budget = given.get("budget")
    if given.keys() != {"budget"} or not isinstance(budget, int | float) or budget <= 0:
        raise pytest.UsageError("expected @pytest.mark.mothtrap(budget=SECONDS)")
    return float(budget)
