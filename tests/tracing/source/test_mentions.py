from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from mothtrap.tracing.source import mentions
from mothtrap.tracing.source.mentions import only_assignment, only_call

SOURCE = """
import math
import torch
from numpy import sqrt

def sin(p):
    return eval("p")

def loss(self, p):
    self.log("loss", p)
    self.log({"loss": p})
    sin(p)
    limit = math.log(4.0)
    entropy = (
        p
        * p.log()
    )
    limit = p.tan() + p.tan()
    grown = entropy.exp()
    return grown + torch.exp(p) - sqrt(limit)
"""


@pytest.fixture
def script(tmp_path: Path) -> ModuleType:
    """Create a module of the user."""
    found = ModuleType("script")
    found.__file__ = str(tmp_path / "script.py")
    Path(found.__file__).write_text(SOURCE, encoding="utf-8")
    return found


def test_the_only_call_is_found_and_those_of_other_libraries_are_not(script: ModuleType) -> None:
    place = only_call("log", among=[script])
    assert place is not None
    assert place.endswith("script.py:16")
    tangent = only_call("tan", among=[script])
    assert tangent is not None
    assert tangent.endswith("script.py:18")
    for name in ("sqrt", "sin", "eval"):
        assert only_call(name, among=[script]) is None


def test_of_two_calls_none_is_guessed(script: ModuleType, tmp_path: Path) -> None:
    assert only_call("exp", among=[script]) is None
    other = ModuleType("other")
    other.__file__ = str(tmp_path / "other.py")
    Path(other.__file__).write_text("def f(x):\n    return x.log()\n", encoding="utf-8")
    assert only_call("log", among=[script, other]) is None


def test_what_cannot_be_read_has_no_call(tmp_path: Path) -> None:
    broken = ModuleType("broken")
    broken.__file__ = str(tmp_path / "broken.py")
    Path(broken.__file__).write_text("x.log(", encoding="utf-8")
    assert only_call("log", among=[broken]) is None
    assert only_call("log", among=[ModuleType("built_in")]) is None


def test_a_module_that_takes_the_name_of_another_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("tests.")]:
        monkeypatch.delitem(sys.modules, name)  # hundreds of files, each of which is parsed
    monkeypatch.setattr(mentions, "MOST_FILES", 100_000)
    for number, name in enumerate(("theirs", "theirs", "more")):
        module = ModuleType(name)
        module.__file__ = str(tmp_path / f"{number}.py")
        Path(module.__file__).write_text(f"def f(x):\n    return x.only_here{number}()\n")
        monkeypatch.delitem(sys.modules, name, raising=False)
        monkeypatch.setitem(sys.modules, name, module)  # as an import does
        if number != 1:  # with it there are as many as before
            place = only_call(f"only_here{number}")
            assert place is not None
            assert place.endswith(f"{number}.py:2")
    assert only_call("only_here0") is None
    assert only_call("only_here1") is not None


def test_the_only_assignment_of_a_name_or_an_attribute_is_found(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert script.__file__ is not None
    with open(script.__file__, "a", encoding="utf-8") as file:
        file.write("\ntarget_net = net\nnet.frozen = True\n")
    monkeypatch.setattr(mentions, "loaded_files", lambda: [script.__file__])
    for name, line in (("target_net", 22), ("frozen", 23), ("entropy", 14)):
        place = only_assignment(name)
        assert place is not None
        assert place.endswith(f"script.py:{line}")
    assert only_assignment("limit") is None  # two lines
    assert only_assignment("unknown") is None
