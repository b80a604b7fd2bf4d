from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.nonfinite import FirstBadOperation, NonfiniteModule
from mothtrap.core.findings import Severity
from mothtrap.rules.nonfinite_activation import NonfiniteActivation


def broken(step: int, module: str = "norm", **more: bool) -> NonfiniteModule:
    return NonfiniteModule(
        step=step, module=module, module_type="Norm", nan=4, inf=0, location="model.py:7", **more
    )


def test_names_the_first_module_that_broke() -> None:
    [finding] = NonfiniteActivation().check(window(broken(5), broken(6, "head")))
    assert finding.severity is Severity.ERROR
    assert (finding.step, finding.layers, finding.location) == (5, ("norm",), "model.py:7")
    assert (finding.count, finding.last_step) == (2, 6)
    assert "4 NaN" in finding.message


def test_is_less_sure_when_the_inputs_were_gone() -> None:
    [finding] = NonfiniteActivation().check(window(broken(5, inputs_known=False)))
    assert finding.confidence == "medium"


def test_a_module_that_makes_no_nan_is_told_to_have_been_given_it() -> None:
    [finding] = NonfiniteActivation().check(window(broken(5, "head", given=True)))
    assert finding.message.startswith("the input of head (Norm) contains NaN that no module")
    assert finding.confidence == "medium"


def test_the_advice_is_the_one_for_where_the_nan_was_made() -> None:
    [made] = NonfiniteActivation().check(window(broken(5)))
    [given] = NonfiniteActivation().check(window(broken(5, "head", given=True)))
    assert made.fixes[0].startswith("Replay the step with `mothtrap replay`")
    assert made.fixes[1].startswith("Guard the operation in this module")
    assert not any("between modules" in fix for fix in made.fixes)
    [fix] = given.fixes
    assert "just before this module is called" in fix


def test_stays_quiet_on_modules_that_an_earlier_step_broke() -> None:
    assert NonfiniteActivation().check(window(broken(6, parameters_finite=False))) == []


def test_stays_quiet_on_steps_that_loss_scaling_skipped() -> None:
    assert NonfiniteActivation().check(window(broken(1), steps=4, skipped=[1])) == []


def test_stays_quiet_when_nothing_broke() -> None:
    assert NonfiniteActivation().check(window(steps=4)) == []


def test_cannot_judge_before_the_first_step() -> None:
    with pytest.raises(NotEnoughData):
        NonfiniteActivation().check(window(steps=0))


@pytest.mark.parametrize("ran_in", ["layers", "layers.2", "layers.2.scale"])
def test_names_the_operation_of_the_module_and_what_to_do_about_it(ran_in: str) -> None:
    operation = FirstBadOperation(
        step=5, operation="torch.log", module=ran_in, inputs=("input from -0.04 to 1",)
    )
    [finding] = NonfiniteActivation().check(window(broken(5, "layers.2"), operation))
    assert finding.message.endswith("from finite inputs, in torch.log (input from -0.04 to 1)")
    assert finding.fixes[0].startswith("Keep the input of `torch.log` above 0")


def test_an_operation_of_another_module_is_not_named() -> None:
    operation = FirstBadOperation(step=5, operation="torch.log", module="layers.3")
    [finding] = NonfiniteActivation().check(window(broken(5, "layers.2"), operation))
    assert "torch.log" not in finding.message
