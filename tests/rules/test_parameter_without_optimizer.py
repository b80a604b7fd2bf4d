from __future__ import annotations

import pytest
from tests.rules.windows import gradients, window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.fact import Fact
from mothtrap.core.facts.optimizers import OptimizerFacts, UnownedParameter
from mothtrap.core.findings import Severity
from mothtrap.rules.parameter_without_optimizer import ParameterWithoutOptimizer


def idle(name: str = "head.weight", *, reached: int = 20, step: int = 19, **more):
    fields = {"changed": False, **more}
    return UnownedParameter(
        step=step,
        name=name,
        module=name.rpartition(".")[0],
        shape=(4, 4),
        reached_steps=reached,
        location="model.py:3",
        **fields,
    )


TRAINED = gradients("l2", {"encoder.0.weight": [1.0] * 20})


def check(*seen: Fact):
    return ParameterWithoutOptimizer().check(window(TRAINED, *seen))


@pytest.mark.parametrize(
    "proof",
    [
        {"created_after_optimizer": True},
        {"twin": "param 3"},
        {"downstream_of_trained": True},
    ],
)
def test_fires_with_proof(proof: dict[str, object]) -> None:
    [finding] = check(idle(**proof))
    assert (finding.severity, finding.step) == (Severity.ERROR, 0)
    assert (finding.layers, finding.location) == (("head.weight",), "model.py:3")


def test_onset_is_the_first_step_that_reached_it() -> None:
    [finding] = check(idle(step=59, reached=25, downstream_of_trained=True))
    assert finding.step == 35


def test_onset_is_told_where_not_each_step_was_looked_at() -> None:
    [finding] = check(idle(step=241, reached=97, since=1, downstream_of_trained=True))
    assert finding.step == 1


def test_warns_when_its_neighbors_are_trained() -> None:
    [finding] = check(idle("encoder.1.weight"))
    assert finding.severity is Severity.WARNING


def test_a_backbone_upstream_is_a_note() -> None:
    [finding] = check(idle("backbone.0.weight"), idle("backbone.1.weight"))
    assert finding.severity is Severity.INFO
    assert finding.layers == ("backbone.0.weight", "backbone.1.weight")


def test_judges_the_newest_count_only() -> None:
    assert check(idle(downstream_of_trained=True), idle(step=30, changed=True)) == []


def test_stays_quiet_on_updates_by_hand() -> None:
    assert check(idle(changed=True, downstream_of_trained=True)) == []


def test_stays_quiet_on_parameters_reached_rarely() -> None:
    assert check(idle(reached=19, downstream_of_trained=True)) == []


def test_cannot_judge_before_twenty_steps() -> None:
    with pytest.raises(NotEnoughData, match="20"):
        ParameterWithoutOptimizer().check(window(steps=19))


def test_a_new_model_of_which_nothing_is_held_is_a_warning() -> None:
    [finding] = check(idle("0.weight", model_untouched=True, model="Encoder"))
    assert finding.severity is Severity.WARNING
    assert finding.message.startswith("no optimizer holds the parameter of Encoder: ")


def test_the_line_that_made_the_optimizer_is_to_be_changed() -> None:
    adam = OptimizerFacts(step=0, optimizer="Adam", kind="Adam", location="train.py:46")
    [finding] = check(idle("encoder.0.weight", model_untouched=True), adam)
    assert finding.location == "train.py:46"
    other = OptimizerFacts(step=0, optimizer="SGD", kind="SGD", location="train.py:47")
    [finding] = check(idle("encoder.0.weight", model_untouched=True), adam, other)
    assert finding.location == "model.py:3", "of two it is not known which"


def test_a_backbone_that_is_most_of_the_model_and_looks_drawn_is_a_warning() -> None:
    [finding] = check(idle("backbone.0.weight", fresh_share=0.97))
    assert finding.severity is Severity.WARNING
    assert "97 % of the model keeps its random initial values" in finding.message
    [finding] = check(idle("encoder.0.weight", fresh_share=0.49))
    assert finding.severity is Severity.WARNING
    [finding] = check(idle("backbone.0.weight", fresh_share=0.3))
    assert finding.severity is Severity.INFO
