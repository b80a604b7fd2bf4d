"""A run as HTML for notebooks."""

from __future__ import annotations

from mothtrap.core.display import heading, pairs
from mothtrap.core.masking import arguments_without_secrets
from mothtrap.reader.run_facts import RunFacts


def run_html(run: RunFacts) -> str:
    """Return what a run is, and what was found in it."""
    facts: dict[str, object] = {
        "state": run.state,
        "steps": run.steps,
        "workers": ", ".join(map(str, run.workers)) or "none yet",
        "attempts": run.attempts,
    }
    if run.info is not None:
        facts["command"] = " ".join(arguments_without_secrets(run.info.command))
    if run.dropped:
        facts["dropped"] = run.dropped
    facts |= {f"damage {n}": text for n, text in enumerate(run.damage, start=1)}
    return heading(run.id) + pairs(facts) + run.findings._repr_html_()
