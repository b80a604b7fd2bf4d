"""Limits of replaying a step of several ranks if some have no snapshot."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mothtrap.core.replays import ReplayPlan, ReplayResult


def compared_alone(plan: ReplayPlan, results: Sequence[ReplayResult]) -> tuple[ReplayResult, ...]:
    """Remove comparisons that depend on other ranks, such as averaged gradients.

    Args:
        plan: contains the ranks that have a snapshot.
        results: results of all ranks; a rank without a snapshot replays the snapshot of another
            rank.
    """
    without = sorted({result.rank for result in results} - set(plan.workers))
    if not without:
        return tuple(results)
    return tuple(_compared(result, plan, without) for result in results)


def _compared(result: ReplayResult, plan: ReplayPlan, without: Sequence[int]) -> ReplayResult:
    if result.rank in without:
        note = (
            f"rank {result.rank} has no snapshot of this step: it repeated the step of rank "
            f"{min(plan.workers)}, and its results are not compared"
        )
        return msgspec.structs.replace(result, match=None, difference=None, notes=(note,))
    difference = result.difference
    if difference is None or difference.kind != "gradient":
        return result
    names = ", ".join(map(str, without))
    note = (
        f"rank {result.rank}: the gradient of {difference.name} differs, as expected where "
        f"gradients are averaged: the ranks without a snapshot ({names}) have different gradients"
    )
    return msgspec.structs.replace(result, match=None, difference=None, notes=(*result.notes, note))
