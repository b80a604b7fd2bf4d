"""Tests for parts that others write: derive from the class for your part.

`RuleTests` tests a rule; `windows` makes the windows for it. `ActionTests` tests an action. Needs
pytest to be run. Each class is loaded when it is first used, as pytest imports `plugin` in every
project.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mothtrap.testing.actions import ActionTests as ActionTests
    from mothtrap.testing.adapters import AdapterTests as AdapterTests
    from mothtrap.testing.rules import RuleTests as RuleTests

__all__ = ["ActionTests", "RuleTests"]
_HOMES = {"ActionTests": "actions", "AdapterTests": "adapters", "RuleTests": "rules"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
