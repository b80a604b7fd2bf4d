"""Results of replays, stored in the run and shown again by `show`, the page, and the report."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from mothtrap.core.errors import DamagedDataError
from mothtrap.core.replays import StoredReplay
from mothtrap.report.replays import as_json, as_text
from mothtrap.session.replay import Replayed, ReplayOptions
from mothtrap.session.sameness import changed_sources
from mothtrap.store.layout import attempt_folder, attempts, read_end, read_replay, write_replay


def keep(run: Path, found: Replayed, more: Sequence[str] = ()) -> None:
    """Store the result of a replay, keeping the earlier result of the same or the original script.

    Args:
        run: folder of the run.
        found: result of the replay.
        more: further lines.

    Raises:
        OSError: the run cannot be written to.
    """
    attempt = attempt_folder(run, attempts(run)[-1])
    plain = as_text(found.snapshot, found.results, run.name, warnings=found.warnings)
    lines = (*plain.splitlines(), *more)
    step = found.snapshot.step
    kept: StoredReplay | None = None
    with suppress(DamagedDataError):
        kept = read_replay(attempt)
    if kept is None or kept.step != step:
        kept = StoredReplay(step=step)
    if changed_sources(run, found.snapshot, found.options.cwd):
        kept = msgspec.structs.replace(kept, edited=lines)
    else:
        result = as_json(found.snapshot, found.results, found.warnings)
        kept = msgspec.structs.replace(kept, lines=lines, result=result)
    write_replay(attempt, kept)


def keep_if_plain(run: Path, found: Replayed, asked: ReplayOptions) -> None:
    """Store the result of a replay of an ended run, if only the script differs.

    A step in another number type, on another device, or in a debugger answers a different question.
    A run that cannot be written to is left unchanged.

    Args:
        run: folder of the run.
        found: result of the replay.
        asked: options that the user passed.
    """
    other = (asked.build, asked.eager, asked.device, asked.dtype, asked.debug, asked.command)
    if any(other) or not asked.narrow:
        return
    with suppress(OSError, DamagedDataError):
        if read_end(attempt_folder(run, attempts(run)[-1])) is not None:
            keep(run, found)
