"""Modules are found once; where one was removed, all are found again."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from mothtrap.core.loaded_modules import LoadedModules


def added(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType(name)
    monkeypatch.setitem(sys.modules, name, module)
    return module


def test_only_new_modules_are_found_and_main_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = LoadedModules()
    assert loaded.look() == (dict(sys.modules), True)
    first, second = added("first_new", monkeypatch), added("second_new", monkeypatch)
    main = {"__main__": sys.modules["__main__"]}
    assert loaded.look() == ({"first_new": first, "second_new": second, **main}, False)
    assert loaded.look() == (main, False)


def test_a_module_that_was_imported_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    added("again", monkeypatch)
    added("last", monkeypatch)
    loaded = LoadedModules()
    loaded.look()
    del sys.modules["again"]
    again = added("again", monkeypatch)
    found, are_all = loaded.look()
    assert are_all
    assert found["again"] is again


@pytest.mark.parametrize("name", ["first_new", "last_new"])
def test_where_a_module_was_removed_all_are_found(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    added("first_new", monkeypatch)
    added("last_new", monkeypatch)
    loaded = LoadedModules()
    loaded.look()
    monkeypatch.delitem(sys.modules, name)
    assert loaded.look() == (dict(sys.modules), True)
    assert not loaded.look()[1]


def test_a_replaced_main_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = LoadedModules()
    loaded.look()
    main = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    assert loaded.look() == ({"__main__": main}, False)
