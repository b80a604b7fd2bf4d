"""Adapters are not imported in the middle of an import that they need."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

from mothtrap.session.triggers import TABLE_TRIGGERS, is_too_early, triggers


@pytest.mark.parametrize(("initializing", "early"), [(True, True), (False, False)])
def test_a_module_that_is_still_imported_makes_it_too_early(
    monkeypatch: pytest.MonkeyPatch, initializing: bool, early: bool
) -> None:
    for name in [name for name in sys.modules if name.startswith("sklearn.")]:
        monkeypatch.delitem(sys.modules, name)
    module = ModuleType("sklearn.linear_model")
    module.__spec__ = SimpleNamespace(_initializing=initializing)  # type: ignore[assignment]
    monkeypatch.setitem(sys.modules, "sklearn.linear_model", module)
    assert is_too_early("sklearn.svm") is early
    assert not is_too_early("torch")


def test_imports_of_whole_models_count_in_a_check_alone() -> None:
    further = set(TABLE_TRIGGERS["sklearn"])
    assert further <= set(triggers(tables=True))
    assert further.isdisjoint(triggers())
