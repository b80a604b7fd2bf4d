"""Clip gradients before the step, and only if they are large."""

from __future__ import annotations

import libcst as cst

from mothtrap.core.findings import Finding
from mothtrap.repairs._optimizers import is_number
from mothtrap.repairs.script import NoCertainRepairError, Script, code, keyword, only

ANYWHERE = True

USUAL = "1.0"
"""Usual maximum norm, as in the Hugging Face trainer."""
LEAST_RATIO = 100.0
"""Minimum ratio of the usual norm to the script's for the number to be the fault. Chosen by hand.
"""


def repair(script: Script, finding: Finding) -> str:
    """Return the source with clipping before the step, or with the usual clipping threshold.

    Only if one line of the file clips: after the only step in its block, or to a number that is
    `LEAST_RATIO` times smaller than usual.
    """
    clip = only(script.calls("clip_grad_norm_"), "call to clip_grad_norm_()")
    if "optimizer" in finding.evidence:
        return _before_step(script, clip)
    given = keyword(clip, "max_norm")
    values = [given.value] if given is not None else [one.value for one in clip.args[1:2]]
    number, limit = only(values, "largest norm"), finding.evidence.get("clip_limit")
    if not is_number(number) or not isinstance(limit, int | float):
        raise NoCertainRepairError("the largest norm is not a number in this line")
    if abs(float(code(number)) - limit) > 1e-2 * limit:
        raise NoCertainRepairError(f"the run clipped to {limit:g}, unlike this line")
    if limit * LEAST_RATIO > float(USUAL):
        raise NoCertainRepairError("decide on a largest norm; the median norm is a good one")
    return script.replaced(number, cst.Float(USUAL))


def _before_step(script: Script, clip: cst.Call) -> str:
    """Return the source with the clipping statement moved before the step of its block."""
    clips = script.statement(clip)
    if not isinstance(clips, cst.SimpleStatementLine) or len(clips.body) != 1:
        raise NoCertainRepairError("the clipping is not a separate statement")
    block = list(script.block(clips))
    steps = [
        statement
        for call in script.calls("step")
        if (statement := script.statement(call)) in block and "sched" not in code(call).lower()
    ]
    step = only(steps, "optimizer step in the block of the clipping")
    if script.line(step) > script.line(clips):
        raise NoCertainRepairError("the clipping already comes before the step")
    return script.with_statements(before=[(step, code(clips))], without=[clips])
