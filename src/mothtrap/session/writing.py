"""Writers of a worker's finished steps: a thread of the worker, or another process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from mothtrap.capture.side_channel import SideChannel
from mothtrap.core.config import Config
from mothtrap.core.records import StepRecord
from mothtrap.session import side_writer
from mothtrap.store.patient_log import PatientLog
from mothtrap.store.retention import measure
from mothtrap.store.worker_log import WorkerLog


def open_log(
    folder: Path,
    config: Config,
    limit_bytes: float | None,
    rest: Callable[[float], bool],
    say: Callable[[str], None],
) -> PatientLog:
    """Open the log of a worker for a writer thread.

    Args:
        folder: existing folder of the worker.
        config: writing settings.
        limit_bytes: size of the folder at which less is written; None = no limit.
        rest: see `PatientLog`.
        say: prints one line for the user.
    """
    if limit_bytes is not None:
        limit_bytes = max(0.0, limit_bytes - measure(folder).size_bytes)
    log = WorkerLog(
        folder, durability=config.durability, roll_s=config.roll_s, limit_bytes=limit_bytes
    )
    return PatientLog(log, rest, say)


def start_beside(
    folder: Path,
    config: Config,
    limit_bytes: float | None,
    on_error: Callable[[BaseException], None],
    say: Callable[[str], None],
) -> SideChannel | None:
    """Start a writer process; None, with a message, if that is not possible.

    Args:
        folder: existing folder of the worker.
        config: writing settings.
        limit_bytes: bytes after which less is written; None = no limit.
        on_error: called with the reason if the process fails.
        say: prints one line for the user.
    """
    try:
        ring, alive = side_writer.start(
            folder,
            queue_bytes=config.queue_mb * 2**20,
            durability=config.durability,
            roll_s=config.roll_s,
            limit_bytes=limit_bytes,
        )
    except OSError as err:
        say(
            f"mothtrap: no writer process could be started ({err}); a thread of this process "
            "writes instead"
        )
        return None
    return SideChannel(ring, alive, on_error, on_full=config.on_full)


class LateLog:
    """A log that is opened with the first records, on the writing thread.

    Args:
        opened: opens the log.
    """

    def __init__(self, opened: Callable[[], PatientLog]) -> None:
        self._opened = opened
        self._log: PatientLog | None = None

    def append(self, records: Sequence[StepRecord]) -> None:
        """Write records; see `PatientLog.append`."""
        if self._log is None:
            self._log = self._opened()
        self._log.append(records)

    def tend(self) -> None:
        """Seal and sync segments that are due."""
        if self._log is not None:
            self._log.tend()

    def close(self) -> None:
        """Seal all segments, if there are any."""
        if self._log is not None:
            self._log.close()
