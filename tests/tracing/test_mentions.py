from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from mothtrap.tracing.mentions import only_call

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
    """A module of the user's."""
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
