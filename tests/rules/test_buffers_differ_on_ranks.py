from __future__ import annotations

import pytest
from tests.rules.ranks import STEPS, by_hand, check
from tests.rules.test_ranks_diverge import started
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.fact import Fact
from mothtrap.core.facts.replicas import BufferDigests
from mothtrap.core.findings import Severity
from mothtrap.rules.buffers_differ_on_ranks import buffers_differ_on_ranks

RULE = buffers_differ_on_ranks()


def buffers(norm: str, codes: str = "aaaaa") -> list[Fact]:
    return [
        BufferDigests(step=step, digests={"norm": norm[i], "codes": codes[i]}, norms=("norm",))
        for i, step in enumerate(STEPS)
    ]


def test_quiet_on_equal_buffers_and_on_one_difference() -> None:
    assert check(RULE, buffers("abcde"), buffers("abcde")) == []
    assert check(RULE, buffers("abcde"), buffers("abxde")) == []


def test_codes_are_a_warning_and_running_averages_a_note() -> None:
    [found] = check(RULE, buffers("abcde"), buffers("abcde", "aaxxx"), common=by_hand)
    assert (found.severity, found.step, found.workers) == (Severity.WARNING, 2, (1,))
    assert found.layers == ("codes",)
    assert "the buffers of codes differ" in found.message
    [found] = check(RULE, buffers("abcde"), buffers("vwxyz"))
    assert (found.severity, found.step, found.layers) == (Severity.INFO, 0, ("norm",))
    assert "SyncBatchNorm" in found.fixes[0]
    [found] = check(RULE, buffers("abcde"), buffers("vwxyz", "xxxxx"))
    assert (found.severity, found.layers) == (Severity.WARNING, ("codes",))


def test_says_why_it_cannot_judge() -> None:
    with pytest.raises(NotApplicable, match="one rank"):
        RULE.check(window(started(1), steps=5))
    with pytest.raises(NotApplicable, match="no trained model has buffers"):
        check(RULE, [], [])
    with pytest.raises(NotApplicable, match="do not average"):
        check(RULE, buffers("abcde"), buffers("vwxyz"), common=list)
    with pytest.raises(NotEnoughData, match="two ranks"):
        check(RULE, buffers("abcde"), [])
