from __future__ import annotations

import numpy as np
import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.fact import Fact
from mothtrap.core.facts.evaluations import (
    BootstrappedTargets,
    EvaluatedCopy,
    Evaluation,
    EvaluationPhase,
)
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.steps import Mode
from mothtrap.rules.evaluation_unchanged import EvaluationUnchanged


def check(
    values: list[float], *, train: list[float] | None = None, steps: int = 20
) -> list[Finding]:
    train = train or [2.0 - 0.1 * number for number in range(len(values))]
    return EvaluationUnchanged().check(
        window(
            *(
                Evaluation(
                    step=steps * (number + 1),
                    mode=Mode.EVAL,
                    site="eval.py:9",
                    operation="cross_entropy",
                    value=value,
                    calls=3,
                    rows=90,
                    number=number,
                    first=values[0],
                    best=float(np.min(values[: number + 1])),
                    best_step=steps,
                    location="eval.py:9",
                    train_losses={"train.py:5": train[number]},
                )
                for number, value in enumerate(values)
            )
        )
    )


def test_losses_that_are_equal_to_the_last_digit_are_reported() -> None:
    [finding] = check([1.234567] * 5)
    assert (finding.severity, finding.step, finding.count) == (Severity.WARNING, 20, 5)
    assert "all 5 evaluations gave exactly the loss 1.23457" in finding.message
    assert finding.location == "eval.py:9"
    assert finding.fixes[0].startswith("Evaluate the model that is trained")


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([1.2, 1.2, 1.2, np.nextafter(1.2, 2), 1.2], id="another last digit"),
        pytest.param([0.0] * 5, id="nothing is left to learn"),
        pytest.param([1.3, 1.2, 1.2, 1.2, 1.2], id="it changed once"),
    ],
)
def test_stays_quiet(values: list[float]) -> None:
    assert check(values) == []


def test_a_training_loss_that_stands_still_is_another_fault() -> None:
    assert check([1.2] * 5, train=[2.0] * 5) == []


def test_needs_several_evaluations() -> None:
    with pytest.raises(NotEnoughData):
        check([1.2] * 3)


def copied(*digests: str, others: tuple[Fact, ...] = ()) -> list[Finding]:
    copies = [
        EvaluatedCopy(step=20 * number, module="AveragedModel", digest=digest, location="eval.py:9")
        for number, digest in enumerate(digests, 1)
    ]
    return EvaluationUnchanged().check(window(*copies, *others))


def test_a_copy_whose_weights_stand_still_is_reported() -> None:
    [finding] = copied(*"aaaa")
    assert (finding.severity, finding.location) == (Severity.WARNING, "eval.py:9")
    assert "the same weights in all 4 evaluations from step 20 to 80" in finding.message


def test_a_policy_that_acts_and_never_changes_is_reported() -> None:
    copies = [
        EvaluatedCopy(step=80 * number, module=module, digest=module, location="ppo.py:9")
        for number in range(1, 6)
        for module in ("actor", "critic")
    ]
    gain = LossCall(step=0, operation="policy_gain")
    [finding] = EvaluationUnchanged().check(window(*copies, gain))
    assert finding.severity is Severity.WARNING
    assert "actor, a copy of the trained model, chooses the actions and has" in finding.message
    assert finding.fixes[0].startswith("Copy the new weights to the policy that acts")


def test_a_reference_model_that_gets_the_data_of_the_trained_model_is_fine() -> None:
    copies = [
        EvaluatedCopy(step=40 * number, module="reference", digest="a", same=number)
        for number in range(1, 6)
    ]
    with pytest.raises(NotEnoughData):
        EvaluationUnchanged().check(window(*copies))


def test_copies_that_change_or_make_targets_are_fine() -> None:
    targets = BootstrappedTargets(step=9, module="Net", steps=10)
    own = EvaluationPhase(
        step=20,
        mode=Mode.EVAL,
        module="Net",
        module_type="Net",
        forwards=1,
        trains=False,
        number=0,
        steps=20,
    )
    for seen in (("aaab", ()), ("aa", ()), ("aaaa", (targets,)), ("aaaa", (own,))):
        with pytest.raises(NotEnoughData):
            copied(*seen[0], others=seen[1])


def targets(steps: list[int], *, digest: str = "a", same: int = 0) -> list[Finding]:
    copies = [
        EvaluatedCopy(step=step, module="Net#2", digest=digest or str(step), same=same, apart=5)
        for step in steps
    ]
    made = BootstrappedTargets(step=9, module="Net#2", steps=10)
    error = LossCall(step=0, operation="elementwise")
    return EvaluationUnchanged().check(window(*copies, made, error))


def test_a_target_network_that_never_changes_is_a_note_and_later_a_warning() -> None:
    [finding] = targets([0, 100, 400])
    assert finding.severity is Severity.INFO
    assert "Net#2 computes the targets, and has the same weights in all 3" in finding.message
    assert finding.fixes[0].startswith("Update a target network every few hundred steps")
    [finding] = targets([0, 100, 5000])
    assert finding.severity is Severity.WARNING


def test_a_target_network_that_changes_and_a_teacher_are_fine() -> None:
    for steps, digest, same in (([0, 200], "a", 0), ([0, 900], "", 0), ([0, 900], "a", 1)):
        with pytest.raises(NotEnoughData):
            targets(steps, digest=digest, same=same)


def test_a_compiled_evaluation_that_ignores_the_weights_it_gets() -> None:
    phases = [
        EvaluationPhase(
            step=40 * (number + 1),
            mode=Mode.EVAL,
            module="eval_step",
            module_type="eval_step",
            forwards=3,
            trains=False,
            number=number,
            steps=40,
            old_weights=True,
            location="a.py:9",
        )
        for number in range(2)
    ]
    [finding] = EvaluationUnchanged().check(window(*phases))
    assert (finding.severity, finding.step, finding.location) == (Severity.WARNING, 40, "a.py:9")
    assert "`eval_step` gets the trained weights, but its result does not depend" in finding.message
    assert "`state.params`" in finding.fixes[0]
    with pytest.raises(NotEnoughData):
        EvaluationUnchanged().check(window(*phases[:1]))
