"""Findings that rules return are completed, or refused with the name of the wrong field."""

from __future__ import annotations

import itertools
import math

import msgspec
import numpy as np
import pytest
from tests.rules.windows import window

import mothtrap
from mothtrap.core.checked_findings import MAX_FINDINGS, findings_of
from mothtrap.core.findings import Finding, Severity

SEEN = window(steps=9)


@mothtrap.rule("LOS901", severity="info")
class Given(mothtrap.Rule):
    """It finds nothing by itself."""

    def check(self, window):
        return []


def found(**fields: object) -> mothtrap.Found:
    return mothtrap.Found(**{"step": 3, "message": "odd", **fields})  # type: ignore[arg-type]


def made(**changes: object) -> Finding:
    finding = Given().finding(SEEN, step=3, message="odd")
    for name, value in changes.items():
        msgspec.structs.force_setattr(finding, name, value)
    return finding


@pytest.mark.parametrize("given", [None, found(), [found()], (one for one in [made(), found()])])
def test_findings_come_in_several_forms(given: object) -> None:
    for finding in findings_of(Given(), SEEN, given):
        assert (finding.code, finding.step, finding.severity) == ("LOS901", 3, Severity.INFO)
        assert finding.fingerprint


def test_numbers_of_numpy_and_lists_are_taken() -> None:
    given = found(
        step=np.int64(3),
        last_step=np.int32(5),
        layers=["head"],
        evidence={"limit": np.float32(0.5), "bad": math.nan, "rows": (1, 2)},
        severity="error",
    )
    [finding] = findings_of(Given(), SEEN, given)
    assert (finding.step, finding.last_step, finding.layers) == (3, 5, ("head",))
    assert (finding.evidence["limit"], finding.evidence["rows"]) == (0.5, [1, 2])
    assert math.isnan(finding.evidence["bad"])  # type: ignore[arg-type]
    assert finding.severity is Severity.ERROR


WRONG = [
    ("step", math.nan, "a whole number"),
    ("step", 3.0, "a whole number"),
    ("step", -1, "0 or above"),
    ("step", True, "a whole number"),
    ("step", "3", "a whole number"),
    ("step", 2**70, "a whole number"),
    ("message", None, "a string that describes the fault"),
    ("message", " ", "a string that describes the fault"),
    ("severity", "fatal", "'error', 'warning' or 'info'"),
    ("severity", ["error"], "'error', 'warning' or 'info'"),
    ("layers", "head", "a tuple of names"),
    ("layers", [["head"]], "a tuple of names"),
    ("layers", None, "a tuple of names"),
    ("evidence", [1], "a dict"),
    ("evidence", {"a": {}}, "numbers, strings, or lists"),
    ("evidence", {3: 1}, "a string"),
    ("evidence", {"a": 2**70}, "numbers, strings"),
    ("count", 1.5, "a whole number"),
    ("last_step", "x", "a whole number"),
    ("mode", "training", "'train', 'eval' or 'predict'"),
    ("location", 3, "a string"),
    ("confidence", None, "a string"),
    ("title", None, "a string"),
    ("why", 3, "a string"),
    ("workers", 3, "a tuple of ranks"),
    ("workers", ("one",), "a whole number"),
    ("fixes", (1.5,), "a whole number"),
]


@pytest.mark.parametrize(("field", "value", "expected"), WRONG)
@pytest.mark.parametrize("kind", [found, made])
def test_a_wrong_field_is_named(kind: object, field: str, value: object, expected: str) -> None:
    with pytest.raises(
        TypeError, match=rf"the rule given .* `{field}` is .*; expected .*"
    ) as error:
        findings_of(Given(), SEEN, kind(**{field: value}))  # type: ignore[operator]
    assert expected in str(error.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"code": "XXX"}, r"use self\.finding"),
        ({"why": 3}, "`why` is 3; expected a string"),
        ({"detected_step": "x"}, r"a wrong field \(.*detected_step"),
        ({"fixes": 3}, "`fixes` is 3; expected a tuple of sentences"),
    ],
)
def test_a_finding_made_by_hand_is_of_its_rule_and_whole(
    changes: dict[str, object], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        findings_of(Given(), SEEN, [made(**changes)])


@pytest.mark.parametrize("given", [3, "odd", b"odd", {"step": 3}, True, [None], ["odd"], [{}]])
def test_what_is_no_finding_is_named(given: object) -> None:
    with pytest.raises(TypeError, match=r"the rule given returned .*; expected mothtrap\.Found"):
        findings_of(Given(), SEEN, given)


def test_findings_without_an_end_are_refused() -> None:
    with pytest.raises(ValueError, match="more than 1,000 findings for one window"):
        findings_of(Given(), SEEN, itertools.repeat(found()))
    assert len(findings_of(Given(), SEEN, [found()] * MAX_FINDINGS)) == MAX_FINDINGS
