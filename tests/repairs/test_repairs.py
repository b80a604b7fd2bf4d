"""Each repair changes the faulty line and nothing else, and refuses scripts that look alike."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.repairs.look_alikes import LOOK_ALIKES as OF_LINES
from tests.repairs.programs import FAULTY as OF_SCRIPTS
from tests.repairs.programs_of_models import OF_MODELS, SIMILAR
from tests.repairs.programs_of_training import OF_TRAINING

from mothtrap import repairs
from mothtrap.core.findings import Finding, Severity
from mothtrap.monitor.catalogue import rule_classes
from mothtrap.repairs import catalogue
from mothtrap.repairs.script import NoCertainRepairError

FAULTY = OF_SCRIPTS | OF_TRAINING | OF_MODELS
LOOK_ALIKES = OF_LINES | SIMILAR


def finding(name: str, **fields: object) -> Finding:
    made = {"message": "m", "location": "train.py:1", "severity": Severity.ERROR, **fields}
    return Finding(code="X1", name=name, step=1, detected_step=1, **made)


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
    """Whatever a repair does to its own result, it is still Python and never the fault again."""
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
