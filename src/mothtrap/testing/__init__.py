"""Tests for parts that others write: derive from the class for your part.

`RuleTests` tests a rule; `windows` makes the windows for it. `ActionTests` tests an action. Needs
pytest to be run.
"""

from __future__ import annotations

from mothtrap.testing.actions import ActionTests as ActionTests
from mothtrap.testing.adapters import AdapterTests as AdapterTests
from mothtrap.testing.rules import RuleTests as RuleTests

__all__ = ["ActionTests", "RuleTests"]
