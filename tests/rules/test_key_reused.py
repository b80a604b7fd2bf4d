from __future__ import annotations

from tests.rules.windows import window

from mothtrap.core.facts.compiling import KeyReused as Seen
from mothtrap.core.findings import Severity
from mothtrap.rules.key_reused import key_reused


def test_the_same_key_in_each_step_is_an_error() -> None:
    told = [Seen(step=s, function="step", draws=("a.py:3",), each_step=s + 1) for s in (7, 31)]
    [finding] = key_reused().check(window(*told))
    assert (finding.severity, finding.step, finding.count) == (Severity.ERROR, 0, 32)
    assert "same random key in 32 steps" in finding.message


def test_two_draws_in_a_step_are_a_warning() -> None:
    [finding] = key_reused().check(
        window(Seen(step=0, function="step", draws=("a.py:3", "a.py:9")))
    )
    assert finding.severity is Severity.WARNING
    assert "a.py:3 and a.py:9" in finding.message


def test_a_few_steps_with_one_key_are_nothing() -> None:
    assert not key_reused().check(window(Seen(step=3, function="step", each_step=4)))
