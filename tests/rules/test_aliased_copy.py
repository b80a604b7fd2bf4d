from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.modules import AliasedCopy
from mothtrap.core.findings import Severity
from mothtrap.rules.aliased_copy import aliased_copy


@pytest.mark.parametrize("shallow", [False, True])
def test_a_second_name_is_a_warning(shallow: bool) -> None:
    seen = AliasedCopy(
        step=3, copy="target_net", model="policy_net", shallow=shallow, location="dqn.py:9"
    )
    [finding] = aliased_copy().check(window(seen, steps=20))
    assert (finding.severity, finding.step, finding.location) == (Severity.WARNING, 0, "dqn.py:9")
    assert ("share all" in finding.message) is shallow


def test_stays_quiet_without_it() -> None:
    assert aliased_copy().check(window(steps=20)) == []


def test_needs_a_few_steps() -> None:
    with pytest.raises(NotEnoughData):
        aliased_copy().check(window(steps=3))
