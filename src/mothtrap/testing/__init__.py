"""Tests for plugins: derive your test class from the class for your kind of plugin.

`RuleTests` tests a rule, and `windows` creates windows for it. `ActionTests` tests an action, and
`AdapterTests` tests an adapter. The tests run with pytest. Each class is loaded when it is first
used, as pytest imports `plugin` in every project.
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
