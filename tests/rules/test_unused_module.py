from __future__ import annotations

from typing import Any

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.modules import HiddenParameters, UnreachedModule
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.unused_module import unused_module


def hidden(**more: Any) -> HiddenParameters:
    facts: dict[str, Any] = {
        "step": 19,
        "holder": "body.layers",
        "what": "plain list of 3 Linear",
        "parameters": 6,
        "elements": 300,
        "reached_steps": 20,
        "changed": False,
        "location": "model.py:5",
    }
    return HiddenParameters(**{**facts, **more})


def uncalled(name: str = "pooler", **more: Any) -> UnreachedModule:
    facts: dict[str, Any] = {
        "step": 99,
        "module": name,
        "parameters": (f"{name}.weight",),
        "elements": 50,
        "share": 0.04,
        "own_steps": 100,
        "location": "model.py:8",
    }
    return UnreachedModule(**{**facts, **more})


def check(*seen: HiddenParameters | UnreachedModule, steps: int = 120) -> list[Finding]:
    return unused_module().check(window(*seen, steps=steps))


def test_fires_on_layers_in_a_plain_list() -> None:
    [finding] = check(hidden())
    assert (finding.severity, finding.step) == (Severity.ERROR, 0)
    assert finding.layers == ("body.layers",)
    assert "plain list of 3 Linear" in finding.message
    assert "ModuleList" in finding.fixes[0]


@pytest.mark.parametrize(
    "seen",
    [hidden(changed=True), hidden(reached_steps=3, step=2)],
    ids=["trained by hand", "early"],
)
def test_stays_quiet_on_hidden_parameters(seen: HiddenParameters) -> None:
    assert check(seen) == []


def test_a_module_that_is_never_called_is_a_note_while_it_is_small() -> None:
    [finding] = check(uncalled())
    assert finding.severity is Severity.INFO
    assert "pooler was never called in 100 steps" in finding.message


def test_a_large_part_that_is_never_called_is_a_warning() -> None:
    [finding] = check(uncalled(), uncalled("body.2", share=0.3))
    assert finding.severity is Severity.WARNING
    assert finding.layers == ("pooler", "body.2")
    assert finding.fixes == ("Call the module in `forward`, or remove it.",)


@pytest.mark.parametrize(
    "more",
    [
        {"runs": 3},
        {"runs_in_evaluation": 1},
        {"calls_are_seen": False},
        {"changed": True},
        {"own_steps": 50},
    ],
)
def test_stays_quiet_on_modules_that_are_called_or_out_of_sight(more: dict[str, Any]) -> None:
    assert check(uncalled(**more)) == []


def test_few_steps_prove_nothing() -> None:
    with pytest.raises(NotEnoughData, match=r"needs 20 steps, saw 5"):
        check(steps=5)
