"""Each repair changes the faulty line and nothing else, and refuses scripts that look alike."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch
from tests.repairs.look_alikes import LOOK_ALIKES as OF_LINES
from tests.repairs.programs import FAULTY as OF_SCRIPTS
from tests.repairs.programs_of_models import OF_MODELS, SIMILAR
from tests.repairs.programs_of_training import OF_TRAINING
from tests.repairs.sources import LOG

import mothtrap
from mothtrap import repairs
from mothtrap.adapters.torch.losses.bad_operands import words_of
from mothtrap.core.facts.nonfinite import FirstBadOperation
from mothtrap.core.findings import Finding, Severity
from mothtrap.monitor.catalogue import rule_classes
from mothtrap.repairs import catalogue
from mothtrap.repairs.script import NoCertainRepairError
from mothtrap.rules._operation_advice import operation_in_words

FAULTY = OF_SCRIPTS | OF_TRAINING | OF_MODELS
LOOK_ALIKES = OF_LINES | SIMILAR


def finding(name: str, **fields: object) -> Finding:
    made = {"message": "m", "location": "train.py:1", "severity": Severity.ERROR, "step": 1}
    return Finding(code="X1", name=name, detected_step=1, **(made | fields))


@pytest.mark.parametrize("case", FAULTY)
def test_the_fault_is_repaired_and_comments_stay(case: str) -> None:
    name, fields, source, repaired = FAULTY[case]
    found = catalogue.patch(finding(name, **fields), "train.py", source)
    assert found.text == repaired
    assert found.diff.startswith("--- a/train.py\n+++ b/train.py\n")


@pytest.mark.parametrize("case", LOOK_ALIKES)
def test_a_script_that_looks_alike_is_refused(case: str) -> None:
    name, fields, source, reason = LOOK_ALIKES[case]
    with pytest.raises(NoCertainRepairError, match=reason):
        catalogue.patch(finding(name, **fields), "train.py", source)


@pytest.mark.parametrize("case", [case for case in FAULTY if case != "swapped"])
def test_a_repaired_script_gets_no_second_repair_of_another_kind(case: str) -> None:
    """A repair applied to its own result gives valid Python and never the fault again."""
    name, fields, source, repaired = FAULTY[case]
    try:
        again = catalogue.patch(finding(name, **fields), "train.py", repaired)
    except NoCertainRepairError:
        return
    assert again.text != source


def test_every_repair_is_of_a_rule_and_tested() -> None:
    files = {path.stem for path in Path(repairs.__file__).parent.glob("*.py")}
    names = {name for name in files if not name.startswith("_")} - {"catalogue", "script"}
    assert names <= {rule.name() for rule in rule_classes()}
    assert names == {name for name, *_ in FAULTY.values()}
    assert names == {name for name, *_ in LOOK_ALIKES.values()}


def test_a_rule_without_a_repair_is_known_as_such() -> None:
    assert not catalogue.is_known(finding("overfit"))
    assert catalogue.is_known(finding("stale_gradient"))


def phrases(path: Path) -> set[str]:
    """Return the words that a repair searches for in the message of its finding."""
    compared = (
        (node.left, ast.unparse(node.comparators[0]))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Compare)
    )
    return {
        left.value
        for left, right in compared
        if isinstance(left, ast.Constant) and right == "finding.message"
    }


def test_messages_have_the_words_that_repairs_look_for() -> None:
    """Rewording a message must not break its repair."""
    folder = Path(mothtrap.__file__).parent
    said = "".join(
        constant.value
        for path in folder.rglob("*.py")
        if "repairs" not in path.parts
        for constant in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(constant, ast.Constant) and isinstance(constant.value, str)
    )
    sought = {path.name: phrases(path) for path in (folder / "repairs").glob("*.py")}
    assert sum(map(len, sought.values())) > 10
    assert not {(name, one) for name, every in sought.items() for one in every if one not in said}


@pytest.mark.parametrize("name", ["input", "1 - p", "p.exp() * 2"])
def test_a_logarithm_of_zero_is_repaired_however_its_argument_is_called(name: str) -> None:
    argument = words_of(name, torch.tensor([0.0, 0.5, 1.0]))
    seen = FirstBadOperation(
        step=3, operation="torch.log", module="", location="", inputs=(argument,), rows=(0,)
    )
    message = f"the loss is NaN; {operation_in_words(seen)}"
    found = finding("nonfinite_loss", message=message, location="train.py:2")
    assert "clamp(min=1e-7)" in catalogue.patch(found, "train.py", LOG).text
