"""Raise a learning rate at which the weights hardly change."""

from __future__ import annotations

from mothtrap.core.findings import Finding
from mothtrap.repairs._optimizers import usual_rate, with_rate, written_rate
from mothtrap.repairs.script import NoCertainRepairError, Script

ANYWHERE = True

LEAST_RATIO = 100.0
"""Minimum ratio of the usual rate to the rate for the rate itself to be the fault. Chosen by hand.
"""


def repair(script: Script, finding: Finding) -> str:
    """Return the source with the usual learning rate of the optimizer.

    Only if the usual rate is `LEAST_RATIO` times as high.
    """
    usual = usual_rate(finding)
    number, rate = written_rate(script, finding, finding.evidence.get("learning_rate"))
    if rate * LEAST_RATIO > usual:
        raise NoCertainRepairError("the learning rate is not far below the usual one")
    return with_rate(script, number, usual)
