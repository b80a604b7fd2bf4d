"""A run as HTML for notebooks."""

from __future__ import annotations

from mothtrap.core.display import grid, heading, pairs
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
        facts["command"] = " ".join(run.info.command)
    if run.dropped:
        facts["dropped"] = run.dropped
    facts |= {f"damage {n}": text for n, text in enumerate(run.damage, start=1)}
    rows = [
        (f.severity, f.code, f.name, f.step, ", ".join(f.layers), f.message) for f in run.findings
    ]
    found = grid(("severity", "code", "name", "step", "layers", "message"), rows) if rows else ""
    return heading(run.id) + pairs(facts) + (found or "<p>Nothing was found.</p>")
