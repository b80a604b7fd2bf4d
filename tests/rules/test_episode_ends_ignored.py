from __future__ import annotations

import pytest
from tests.rules.windows import loss, window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.policies import UnreadEnds
from mothtrap.core.findings import Severity
from mothtrap.rules.episode_ends_ignored import episode_ends_ignored


def test_ends_that_are_never_read_are_a_note() -> None:
    seen = UnreadEnds(step=2, name="done", location="agent.py:7")
    [finding] = episode_ends_ignored().check(window(loss([1.0] * 20), seen))
    assert (finding.severity, finding.step, finding.location) == (Severity.INFO, 0, "agent.py:7")
    assert "gets the ends of episodes as `done`, but never reads `done`" in finding.message


@pytest.mark.parametrize(("last", "severe"), [(1e4, True), (1e2, False)])
def test_values_that_grow_without_bound_are_a_warning(last: float, severe: bool) -> None:
    seen = UnreadEnds(step=2, name="done", location="agent.py:7")
    losses = [*[1.0] * 50, *[last] * 50]
    [finding] = episode_ends_ignored().check(window(loss(losses), seen))
    assert (finding.severity is Severity.WARNING) is severe


def test_other_scripts_are_fine() -> None:
    assert episode_ends_ignored().check(window(loss([1.0] * 20))) == []


def test_needs_a_few_steps() -> None:
    with pytest.raises(NotEnoughData, match="needs 8 steps, saw 0"):
        episode_ends_ignored().check(window())


def test_ends_that_multiply_the_next_value_are_a_warning() -> None:
    seen = UnreadEnds(step=2, name="done", inverted=True, location="agent.py:7")
    [finding] = episode_ends_ignored().check(window(loss([1.0] * 20), seen))
    assert (finding.severity, finding.title) == (Severity.WARNING, "ends of episodes are inverted")
    assert "multiplied by `done`, which is 1 only at the end" in finding.message
