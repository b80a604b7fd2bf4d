"""Steps of a run that can be replayed, because they have a snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from mothtrap.core.facts.snapshots import SnapshotKept
from mothtrap.core.runs import has_script
from mothtrap.core.snapshots import BASE, BUILD
from mothtrap.report.style import Style
from mothtrap.snapshot.choosing import Rank, is_offered, rank

if TYPE_CHECKING:
    from mothtrap.core.findings import Finding
    from mothtrap.reader.run import Run

EXCEPTION = "exception"
"""Reason of the snapshot of a step that an exception ended."""
NAMED = 6
"""Steps that are named."""


class KeptSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot of a step, from one or more workers.

    `exact`: its state is the state before the step; `scripted`: a replay can start the script
    again.
    """

    step: int
    reason: str
    exact: bool
    scripted: bool = True


def kept_snapshots(run: Run) -> tuple[KeptSnapshot, ...]:
    """Return the snapshots that still exist, by step."""
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
    called: str, kept: tuple[KeptSnapshot, ...], style: Style, root: Finding | None = None
) -> list[str]:
    """Return one line with the steps, and the command that replays the most informative one.

    Args:
        called: argument that finds the run in a command.
        kept: all stored snapshots; if some are exact, only these are listed, otherwise the
            requested snapshots.
        style: capabilities of the stream.
        root: the finding with which the diagnosis opens.
    """
    command = replay_command(called, kept, style, root)
    if not command:
        return []
    kept = _offered(kept)
    steps = ", ".join(str(snapshot.step) for snapshot in kept[:NAMED])
    steps += ", ..." if len(kept) > NAMED else ""
    word = "step" if len(kept) == 1 else "steps"
    return [f"  can be replayed: {word} {steps}: {command}"]


def replay_command(
    called: str, kept: tuple[KeptSnapshot, ...], style: Style, root: Finding | None = None
) -> str:
    """Return the command that replays the most informative step; empty without snapshots.

    Args: as for `kept_lines`.
    """
    offered = _offered(kept)
    if not offered:
        return ""

    def place(snapshot: KeptSnapshot) -> Rank:
        return rank(
            step=snapshot.step,
            reason=snapshot.reason,
            exact=snapshot.exact,
            root_step=root.step if root is not None else None,
            root_code=root.code if root is not None else "",
        )

    chosen = min(offered, key=place)
    command = f"mothtrap replay {style.safe(called)} --step {chosen.step}"
    if chosen.reason == EXCEPTION:
        command += " --pdb"
    if not chosen.scripted:
        command += BUILD
    if not chosen.exact:
        command += " (from a later state, so there is nothing to compare with)"
    return command


def _offered(kept: tuple[KeptSnapshot, ...]) -> tuple[KeptSnapshot, ...]:
    offered = tuple(each for each in kept if is_offered(each.reason, exact=each.exact))
    return tuple(snapshot for snapshot in offered if snapshot.exact) or offered
