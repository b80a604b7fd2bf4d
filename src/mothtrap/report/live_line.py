"""A finding in one line while the job trains.

A watched process imports this module, and no other module that renders runs.
"""

from __future__ import annotations

from mothtrap.core.diagnosis import fault_name
from mothtrap.core.findings import Finding
from mothtrap.core.texts import layer_in_words
from mothtrap.report.style import PLAIN, SEVERITY_COLORS, Style

MAX_LAYERS = 3


def live_line(finding: Finding, style: Style = PLAIN) -> str:
    """Return the line that reports a finding while the job trains."""
    head = f"{finding.code} {fault_name(finding)}"
    layers = f" in {layers_in_words(finding, style)}" if finding.layers else ""
    parts = [
        f"mothtrap: {style.glyph(finding.severity)}",
        style.paint(head, SEVERITY_COLORS[finding.severity]),
        f"at {finding.began}{layers}",
    ]
    where = f" ({style.safe(finding.location)})" if finding.location else ""
    return " ".join(parts) + f": {style.safe(finding.message)}{where}"


def layers_in_words(finding: Finding, style: Style) -> str:
    """Return the names of the first layers of a finding, and the number of further ones."""
    first, *others = finding.layers[:MAX_LAYERS]
    named = layer_in_words(first)
    if others and named != first:
        named = f"layers {first}"
    more = len(finding.layers) - MAX_LAYERS
    names = ", ".join(style.safe(name) for name in (named, *others))
    return names + (f" and {more} more" if more > 0 else "")
