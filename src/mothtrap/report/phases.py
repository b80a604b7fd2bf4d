"""Where the time of a training run went, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mothtrap.core.facts.phases import PhasesTimed
from mothtrap.core.phases import DATA, OWN, PHASES

if TYPE_CHECKING:
    from mothtrap.reader.run import Run

WORDS = {DATA: "waiting for data", OWN: "mothtrap"}
LEAST = 0.01
"""Share of the time from which a phase is named; chosen by hand."""


def phase_shares(run: Run) -> dict[str, float]:
    """Return the share of training time of each phase; empty if no phase was timed.

    Shares of several workers are averaged by their time.
    """
    seconds = dict.fromkeys(PHASES, 0.0)
    for timed in run.observations(PhasesTimed):
        for name, spent in timed.seconds.items():
            seconds[name] = seconds.get(name, 0.0) + spent
    whole = sum(seconds.values())
    return {name: spent / whole for name, spent in seconds.items()} if whole > 0 else {}


def phases_in_words(shares: Mapping[str, float]) -> str:
    """Describe the phases with their shares, longest first; empty without phases.

    Example:
        >>> phases_in_words({"forward": 0.3, "backward": 0.6, "data": 0.1})
        'backward 60 %, forward 30 %, waiting for data 10 %'
    """
    named = sorted(shares.items(), key=lambda each: -each[1])
    return ", ".join(
        f"{WORDS.get(name, name)} {100 * share:.0f} %" for name, share in named if share >= LEAST
    )
