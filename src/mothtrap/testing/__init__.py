"""Tests for plugins: derive your test class from the class for your kind of plugin.

`RuleTests` tests a rule, and `windows` creates windows for it. `ActionTests` tests an action. The
tests run with pytest.
"""

from __future__ import annotations

from mothtrap.testing.actions import ActionTests as ActionTests
from mothtrap.testing.adapters import AdapterTests as AdapterTests
from mothtrap.testing.rules import RuleTests as RuleTests

__all__ = ["ActionTests", "RuleTests"]
