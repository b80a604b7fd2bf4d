from __future__ import annotations

from typing import Any

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.modules import UnreachedModule
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.disconnected_parameter import DisconnectedParameter

STEPS = 20


def module(name: str = "encoder.0", **more: Any) -> UnreachedModule:
    """A module of the framework's default initialization whose calls all made no graph."""
    facts: dict[str, Any] = {
        "step": STEPS - 1,
        "module": name,
        "parameters": (f"{name}.weight", f"{name}.bias"),
        "elements": 100,
        "share": 0.4,
        "own_steps": STEPS,
        "runs": 18,
        "runs_without_graph": 18,
        "upstream": True,
        "untouched": True,
        "location": "model.py:7",
    }
    return UnreachedModule(**{**facts, **more})


def check(*modules: UnreachedModule, steps: int = STEPS) -> list[Finding]:
    return DisconnectedParameter().check(window(*modules, steps=steps))


def test_fires_on_a_module_that_only_runs_without_a_graph() -> None:
    [finding] = check(module(), module("encoder.2"))
    assert (finding.severity, finding.step, finding.count) == (Severity.ERROR, 0, STEPS)
    assert finding.layers == ("encoder.0", "encoder.2")
    assert finding.location == "model.py:7"
    assert "4 parameters" in finding.message
    assert "no_grad" in finding.message


def test_fires_when_it_is_only_ever_called_in_forwards_without_a_graph() -> None:
    [finding] = check(module(runs=0, runs_without_graph=0, runs_in_evaluation=18))
    assert finding.severity is Severity.ERROR


def test_names_where_the_output_is_detached() -> None:
    [finding] = check(
        module(runs_without_graph=0),
        module("encoder.2", runs_without_graph=0, detached_before="head"),
    )
    assert finding.severity is Severity.ERROR
    assert finding.layers == ("encoder.0", "encoder.2")
    assert "detached before head" in finding.message


def test_a_reentrant_checkpoint_whose_inputs_need_no_gradient_is_named() -> None:
    [finding] = check(module(runs_in_checkpoint=18))
    assert finding.severity is Severity.ERROR
    assert "reentrant checkpoint whose inputs need no gradient" in finding.message
    assert finding.fixes[0].startswith("Pass `use_reentrant=False`")
    for other in (module(), module(runs_in_checkpoint=9)):
        [finding] = check(other)
        assert "only runs without a graph, as under `torch.no_grad()`" in finding.message
        assert not any("use_reentrant" in fix for fix in finding.fixes)


def test_weights_that_were_loaded_may_be_left_alone_on_purpose() -> None:
    [finding] = check(module(untouched=False))
    assert finding.severity is Severity.WARNING


def test_before_all_that_is_reached_it_is_a_warning() -> None:
    [finding] = check(module(runs_without_graph=0))
    assert finding.severity is Severity.WARNING


def test_an_output_that_goes_nowhere_is_a_note() -> None:
    [finding] = check(module("pooler", runs_without_graph=0, upstream=False, share=0.05))
    assert finding.severity is Severity.INFO
    loaded = module("pooler", runs_without_graph=0, upstream=False, untouched=None)
    assert [found.severity for found in check(loaded)] == [Severity.INFO]


def test_a_small_part_that_the_model_returns_is_a_warning() -> None:
    [finding] = check(
        module("boxes", runs_without_graph=0, upstream=False, share=0.05, given_out=True)
    )
    assert finding.severity is Severity.WARNING
    assert "although the model returns a tensor that depends on it" in finding.message
    assert finding.fixes[0].startswith("Use its output in the loss")


def test_a_large_part_whose_output_goes_nowhere_is_a_warning() -> None:
    [finding] = check(module("branch", runs_without_graph=0, upstream=False))
    assert finding.severity is Severity.WARNING


@pytest.mark.parametrize(
    "more",
    [
        {"changed": True},
        {"runs": 0, "runs_without_graph": 0},
        {"runs": 0, "runs_without_graph": 0, "runs_in_evaluation": 2},
        {"own_steps": 5, "step": 4},
    ],
    ids=["moving average", "never called", "evaluation head", "early"],
)
def test_stays_quiet(more: dict[str, Any]) -> None:
    assert check(module(**more)) == []


def test_forgets_what_is_reached_after_all() -> None:
    assert check(module(), module(own_steps=0, step=30, parameters=()), steps=40) == []


def test_few_steps_prove_nothing() -> None:
    with pytest.raises(NotEnoughData, match=r"needs 20 steps, saw 5"):
        check(steps=5)
