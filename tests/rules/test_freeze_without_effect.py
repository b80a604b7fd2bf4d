from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.modules import FreezeWithoutEffect
from mothtrap.core.findings import Severity
from mothtrap.rules.freeze_without_effect import freeze_without_effect


def told(attribute: str, *holders: str, of_module: bool = False) -> FreezeWithoutEffect:
    return FreezeWithoutEffect(
        step=2,
        attribute=attribute,
        holders=holders,
        parameters=4,
        elements=100,
        of_module=of_module,
        location="train.py:5",
    )


def test_a_misspelled_attribute_is_a_warning() -> None:
    seen = told("require_grad", "body.0.weight", "body.0.bias")
    [finding] = freeze_without_effect().check(window(seen, steps=20))
    assert (finding.severity, finding.step, finding.location) == (Severity.WARNING, 0, "train.py:5")
    assert "`require_grad = False` was set on 4 parameters" in finding.message
    assert finding.fixes[0].startswith("Set `requires_grad`")


def test_an_attribute_of_a_module_gets_the_method_as_first_fix() -> None:
    seen = told("requires_grad", "encoder", of_module=True)
    [finding] = freeze_without_effect().check(window(seen, steps=20))
    assert "on the module encoder" in finding.message
    assert finding.fixes[0].startswith("Call `module.requires_grad_(False)`")


def test_stays_quiet_without_it() -> None:
    assert freeze_without_effect().check(window(steps=20)) == []


def test_needs_a_step() -> None:
    with pytest.raises(NotEnoughData):
        freeze_without_effect().check(window())
