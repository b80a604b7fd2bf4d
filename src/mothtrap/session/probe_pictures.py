"""Store the pictures of a probe run as figures of its record."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mothtrap.capture.containment import say_on_stderr
from mothtrap.core.fact import Fact
from mothtrap.core.facts.captures import Blind
from mothtrap.core.facts.workers import WorkerEnded
from mothtrap.reader.plots import Chart
from mothtrap.session.record.keeper import RecordKeeper
from mothtrap.session.unobserved import store_facts
from mothtrap.store import layout


class _Facts:
    """Collects facts."""

    def __init__(self) -> None:
        self.found: list[Fact] = []

    def observe(self, observation: Fact, *, may_be_next: bool = False) -> None:  # noqa: ARG002
        """Add a fact."""
        self.found.append(observation)

    def blind(self, step: int, what: str, reason: str) -> None:
        """Report a part that is not observed, and the reason."""
        self.found.append(Blind(step=step, what=what, reason=reason))


def store_pictures(attempt: Path, charts: Mapping[str, Chart], missing: Mapping[str, str]) -> None:
    """Write charts by name, and the reasons for missing charts, to an attempt; raises OSError."""
    if not charts and not missing:
        return
    _, worker = layout.claim_worker(attempt)
    facts = _Facts()
    keeper = RecordKeeper(facts, lambda: 0, say_on_stderr)
    keeper.open(worker)
    for name, chart in charts.items():
        keeper.figure(name, chart)
    for name, reason in missing.items():
        facts.blind(0, f"picture {name}", reason)
    ended = WorkerEnded(step=0, steps=0, own_s=0.0, wall_s=0.0)
    store_facts(worker, [*facts.found, ended])
