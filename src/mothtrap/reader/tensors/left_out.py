"""Reason why a step lacks a capture that a collection requested."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeGuard

from mothtrap.core.fact import Fact
from mothtrap.core.facts.captures import Dropped, Thinned
from mothtrap.core.steps import Mode

COPIES = "copies of collection "


def why_left_out(facts: Iterable[Fact], kind: str, step: int, mode: Mode, *, raw: bool) -> str:
    """Return why a step was left out, as a clause; empty if the run does not record a reason.

    Args:
        facts: facts of one worker.
        kind: kind of the tensor.
        step: step of the job without captured data.
        mode: mode of the step.
        raw: values are missing, not statistics.
    """
    reasons = []
    for fact in facts:
        if isinstance(fact, Thinned):
            within = fact.step <= step <= fact.last_step and fact.mode is mode
            if within and kind in fact.kinds and ("raw" in fact.statistics) == raw:
                reasons.append(f"skipped to stay within `overhead`: {fact.what}")
        elif raw and _ends_copies(fact) and fact.step <= step:
            reasons.append(f"from step {fact.step} on, {fact.what} were skipped: {fact.reason}")
    return "; ".join(dict.fromkeys(reasons))


def _ends_copies(fact: Fact) -> TypeGuard[Dropped]:
    return isinstance(fact, Dropped) and fact.what.startswith(COPIES)
