"""Parts are found by their file names."""

import sys

import pytest

from mothtrap.core import registry
from mothtrap.core.errors import UnknownNameError


def test_lists_public_modules_without_importing_them() -> None:
    names = registry.names("mothtrap.adapters")
    assert "torch" in names
    assert not [name for name in registry.names("mothtrap.rules") if name.startswith("_")]


def test_loads_only_the_one_asked_for() -> None:
    module = registry.load("mothtrap.rules", "nonfinite_loss")
    assert module is sys.modules["mothtrap.rules.nonfinite_loss"]


def test_an_unknown_part_names_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'dead_units'"):
        registry.load("mothtrap.rules", "dead_unit")
