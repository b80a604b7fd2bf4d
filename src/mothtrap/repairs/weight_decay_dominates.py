"""Leave the weight decay of an optimizer at its default."""

from __future__ import annotations

from mothtrap.core.findings import Finding
from mothtrap.repairs._optimizers import without_keyword
from mothtrap.repairs.script import Script


def repair(script: Script, finding: Finding) -> str:
    """Return the source without `weight_decay=`, or with 0 as the default of its option."""
    return without_keyword(script, finding, "weight_decay", "0.0")
