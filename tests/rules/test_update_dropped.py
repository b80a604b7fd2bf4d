from __future__ import annotations

from tests.rules.windows import window

from mothtrap.core.facts.compiling import UpdateDropped as Seen
from mothtrap.core.findings import Severity
from mothtrap.rules.update_dropped import UpdateDropped


def test_weights_that_stay_the_old_ones_are_an_error() -> None:
    told = [Seen(step=s, function="step", calls=s - 4, location="a.py:9") for s in (12, 36)]
    [finding] = UpdateDropped().check(window(*told))
    assert (finding.severity, finding.step, finding.count) == (Severity.ERROR, 5, 32)
    assert finding.location == "a.py:9"


def test_warming_up_is_nothing() -> None:
    assert not UpdateDropped().check(window(Seen(step=3, function="step", calls=4)))
