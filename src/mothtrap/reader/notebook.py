"""A run as HTML for notebooks."""

from __future__ import annotations

from mothtrap.core.diagnosis import diagnose, in_story_order
from mothtrap.core.display import heading, pairs
from mothtrap.core.findings import Findings
from mothtrap.core.installed_rules import explains
from mothtrap.core.masking import arguments_without_secrets
from mothtrap.reader.run_facts import RunFacts


def run_html(run: RunFacts) -> str:
    """Return the run's verdict, first fix, description, and findings as HTML."""
    stories = diagnose(run.findings, explains()).stories
    findings = Findings(in_story_order(run.findings, stories))
    first = findings[0] if stories else None
    facts: dict[str, object] = {"verdict": run.verdict}
    if first is not None and first.fixes:
        facts["fix"] = first.fixes[0]
    facts |= {
        "state": run.state,
        "steps": run.steps,
        "ranks": len(run.workers) or "none yet",
        "attempts": run.attempts,
    }
    if run.info is not None:
        facts["command"] = " ".join(arguments_without_secrets(run.info.command))
    if run.dropped:
        facts["dropped"] = run.dropped
    facts |= {f"damage {n}": text for n, text in enumerate(run.damage, start=1)}
    return heading(run.id) + pairs(facts) + findings._repr_html_()
