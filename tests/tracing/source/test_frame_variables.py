"""Variables of running frames are read as they are, and reading them changes nothing."""

from __future__ import annotations

import gc
import sys
import weakref
from types import FrameType
from typing import Any

import pytest

from mothtrap.tracing.source import frame_variables

READING = frame_variables.variables


def _seen(frame: FrameType) -> dict[str, Any]:
    return dict(READING(frame) or ())


class Thing:
    """Can be referred to weakly."""


GLOBAL = Thing()


def test_a_function_shows_its_variables_those_of_closures_and_named_globals() -> None:
    outer, unset = Thing(), None

    def called(first: int, *rest: int, last: int = 4, **more: int) -> dict[str, Any]:
        inner = [outer]

        def uses() -> Any:
            return inner, first

        assert GLOBAL is not uses
        if rest == ():
            unbound = 1
            del unbound
        return _seen(sys._getframe())

    found = called(1, 2, 3, five=5)
    assert found["first"] == 1
    assert found["rest"] == (2, 3)
    assert (found["last"], found["more"]) == (4, {"five": 5})
    assert found["outer"] is outer
    assert found["inner"] == [outer]
    assert found["GLOBAL"] is GLOBAL
    assert "unbound" not in found
    assert unset is None


def test_a_variable_of_a_cell_that_is_empty_is_left_out() -> None:
    def called() -> dict[str, Any]:
        def uses() -> Any:
            return later

        found = _seen(sys._getframe())
        later = 1
        assert uses() == later
        return found

    assert "later" not in called()


def test_a_module_shows_its_names() -> None:
    scope: dict[str, Any] = {"read": _seen, "sys": sys}
    exec("a = 1\nfound = read(sys._getframe())", scope)
    assert scope["found"]["a"] == 1


def _keeps_alive(read: Any) -> bool:
    """Return whether reading the variables of a frame makes them outlive their deletion."""
    value = Thing()
    alive = weakref.ref(value)
    read(sys._getframe())
    del value
    gc.collect()
    return alive() is not None


def _changes_a_dict_of_locals(read: Any) -> bool:
    before = locals()
    later = len(before)
    read(sys._getframe())
    return "later" in before and later > 0


def _undoes_exec(read: Any) -> bool:
    number = 1
    names = locals()
    exec("number = 2", {}, names)
    read(sys._getframe())
    return names["number"] == number


EFFECTS = (_keeps_alive, _changes_a_dict_of_locals, _undoes_exec)


@pytest.mark.parametrize("effect", EFFECTS)
def test_reading_leaves_no_trace(effect: Any) -> None:
    assert not effect(_seen)


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="f_locals is a view there")
@pytest.mark.parametrize("effect", EFFECTS)
def test_reading_f_locals_would_leave_one(effect: Any) -> None:
    """The counterpart, which shows that these tests can fail."""
    assert effect(lambda frame: frame.f_locals)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="read by functions of Python there")
def test_frames_that_lie_otherwise_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_variables, "_CODE", frame_variables._GLOBALS)
    assert READING(sys._getframe()) is None
