"""Choice of the snapshot of a run whose replay is most informative."""

from __future__ import annotations

from mothtrap.core.snapshots import BASE
from mothtrap.snapshot.retention import is_onset

Rank = tuple[int, bool, bool, int]
"""Sort key of snapshots, the most informative snapshot first."""
ASKED_FOR = ("request", "step", "exception")
"""Reasons of snapshots that the user requested or waits for."""


def is_offered(reason: str, *, exact: bool) -> bool:
    """Return whether a snapshot is offered without a request; not with a state after the step.

    Args:
        reason: reason for the snapshot, see `core.snapshots.Snapshot`.
        exact: whether its state is the state before the step.
    """
    return reason != BASE and (exact or reason.startswith(ASKED_FOR))


def rank(
    *, step: int, reason: str, exact: bool, root_step: int | None = None, root_code: str = ""
) -> Rank:
    """Return the priority of a snapshot among the snapshots of its run.

    The first step that was not finite or raised an exception comes first, then the first with a
    finding, then the last requested step. If the state is later than the step, a replay has no
    reference.

    Args:
        step: step of the snapshot.
        reason: reason for the snapshot, see `core.snapshots.Snapshot`.
        exact: whether its state is the state before the step.
        root_step: step of the finding with which the diagnosis begins.
        root_code: code of that finding.
    """
    at_root = step == root_step
    of_finding = reason.startswith("finding") or at_root
    if reason == BASE:
        level = 4
    elif not exact:
        level = 3
    elif is_onset(reason):
        level = 0
    else:
        level = 1 if of_finding else 2
    for_root = bool(root_code) and reason == f"finding {root_code}"
    return level, not at_root, not for_root, step if level != 2 else -step
