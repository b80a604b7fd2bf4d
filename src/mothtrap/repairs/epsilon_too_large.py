"""Leave the epsilon of an optimizer at its default."""

from __future__ import annotations

from mothtrap.core.findings import Finding
from mothtrap.repairs._optimizers import without_keyword
from mothtrap.repairs.script import Script


def repair(script: Script, finding: Finding) -> str:
    """Return the source without `eps=`, or with 1e-8 as the default of its option."""
    return without_keyword(script, finding, "eps", "1e-8")
