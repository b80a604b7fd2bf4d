"""Which steps of a run can be done again: those of which a snapshot lies there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from mothtrap.core.observations import SnapshotKept
from mothtrap.core.runs import has_script
from mothtrap.core.snapshots import BASE, BUILD
from mothtrap.report.style import Style

if TYPE_CHECKING:
    from mothtrap.core.findings import Finding
    from mothtrap.reader.run import Run

NAMED = 6
"""Steps that are named."""


class KeptSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot of a step, of one worker or several; `exact`: its state is that of the step;
    `scripted`: there is a script that a replay can start again.
    """

    step: int
    reason: str
    exact: bool
    scripted: bool = True


def kept_snapshots(run: Run) -> tuple[KeptSnapshot, ...]:
    """The snapshots that were written and not removed since, by step."""
    found: dict[int, KeptSnapshot] = {}
    for kept in run.observations(SnapshotKept):
        if kept.error or kept.reason == BASE or not (run.path / kept.folder).is_dir():
            continue
        found[kept.step] = KeptSnapshot(
            step=kept.step,
            reason=kept.reason,
            exact=kept.state_step <= kept.step,
            scripted=run.info is None or has_script(run.info.command),
        )
    return tuple(found[step] for step in sorted(found))


def kept_lines(
    run_id: str, kept: tuple[KeptSnapshot, ...], style: Style, root: Finding | None = None
) -> list[str]:
    """One line that names them, and the command for that of `root`, else for the first one."""
    if not kept:
        return []
    steps = ", ".join(str(snapshot.step) for snapshot in kept[:NAMED])
    steps += ", ..." if len(kept) > NAMED else ""

    def rank(snapshot: KeptSnapshot) -> tuple[bool, bool, bool]:
        at_root = root is not None and snapshot.step == root.step
        for_root = root is not None and snapshot.reason == f"finding {root.code}"
        return not snapshot.exact, not at_root, not for_root

    chosen = min(kept, key=rank)  # the first of equals
    word = "step" if len(kept) == 1 else "steps"
    command = f"mothtrap replay {style.safe(run_id)} --step {chosen.step}"
    if not chosen.scripted:
        command += BUILD
    if not chosen.exact:
        command += " (of a later state: nothing to compare with)"
    return [f"  can be done again: {word} {steps}: {command}"]
