"""Write snapshots during training, and keep as many as the limits allow."""

from __future__ import annotations

import errno
import platform
import queue
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import numpy as np

from mothtrap.core.adapters import SnapshotTaker
from mothtrap.core.config import Config
from mothtrap.core.control_requests import CaptureRequest, Request
from mothtrap.core.errors import DamagedDataError
from mothtrap.core.facts.snapshots import SnapshotKept
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.masking import arguments_without_secrets
from mothtrap.core.needs import Need
from mothtrap.core.own_version import own_version
from mothtrap.core.runs import RunInfo, has_script
from mothtrap.core.snapshot_orders import SnapshotDraft, SnapshotOrder
from mothtrap.core.snapshots import BASE, BUILD, Array, LineDigests, Snapshot, Tree
from mothtrap.core.working_folder import shown, working_folder
from mothtrap.snapshot import format as files
from mothtrap.snapshot.choosing import is_offered
from mothtrap.snapshot.code_locations import files_of, line_digests, sites_of
from mothtrap.snapshot.retention import Kept, superfluous
from mothtrap.store.layout import read_info

WAITING = 2
"""Maximum number of snapshots in memory, including the snapshot being written."""
SAID = 3
"""Maximum number of snapshots reported on stderr; `mothtrap snapshot RUN --list` lists all."""
ONSETS = Need(kinds=("gradient",), statistics=("nan", "inf"))
"""The same need as in rules about non-finite gradients, so it adds no cost to them."""
CLOSE_S = 60.0
"""Maximum wait at the end of a job for pending writes."""


def onset_needs(config: Config) -> tuple[Need, ...]:
    """Return the data needed to detect a bad step, regardless of the active rules."""
    return (ONSETS,) if config.snapshots > 0 and config.ring_mb > 0 else ()


Taker = tuple[SnapshotTaker, str, Mapping[str, str]]
"""Snapshot taker, name of its framework, and versions that matter for a replay."""


class Snapshots:
    """The snapshots of one worker: requests, and where they are written.

    Args:
        config: settings of the snapshots.
        report: records a fact in the run; may be called on any thread.
        say: prints one line for the user.
        on_error: called with internal errors.

    Attributes:
        taking: snapshot taker; None if the adapter takes no snapshots, or watches no objects yet.
    """

    def __init__(
        self,
        config: Config,
        report: Callable[[SnapshotKept], None],
        say: Callable[[str], None],
        on_error: Callable[[BaseException], None],
    ) -> None:
        self.taking: SnapshotTaker | None = None
        self._config = config
        self._report, self._say, self._on_error = report, say, on_error
        self._codes: set[str] = set()
        self._writer: SnapshotWriter | None = None

    def found(self, finding: Finding) -> None:
        """Handle a new or worse finding: the first error triggers a snapshot."""
        if finding.severity is Severity.ERROR and finding.code not in self._codes:
            self._codes.add(finding.code)
            self._order(SnapshotOrder(reason=f"finding {finding.code}", step=finding.step))

    def ask(self, request: Request, otherwise: Callable[[CaptureRequest], None]) -> None:
        """Accept a snapshot request; other requests are passed to `otherwise`."""
        if isinstance(request, CaptureRequest):
            otherwise(request)
        elif not self._order(SnapshotOrder(reason="request", request=request.id)):
            why = (
                "this job takes no snapshots (`snapshots`, `ring_mb` or `capture` is off, or "
                "`redact` is set outside of PyTorch), or too many snapshots are already requested"
            )
            self._report(SnapshotKept(step=0, reason="request", request=request.id, error=why))

    def _order(self, order: SnapshotOrder) -> bool:
        return self.taking is not None and self.taking.order(order)

    def open(self, attempt: Path, rank: int, found: Taker | None) -> None:
        """Start writing once a folder and an adapter that may take snapshots exist."""
        if found is None:
            return
        taker, framework, versions = found
        self.taking = taker
        if taker.active:
            self._writer = SnapshotWriter(
                attempt,
                rank,
                self._config,
                framework,
                versions,
                self._say if rank == 0 and not self._config.quiet else None,
                self._report,
                self._on_error,
            )
            taker.connect(self._writer)

    def close(self) -> None:
        """Write the remaining snapshots."""
        if self._writer is not None and not self._writer.close():
            self._say("mothtrap: snapshots: the disk is too slow; the last one may be missing")


class SnapshotWriter:
    """A thread that writes snapshots; see `core.snapshot_orders.SnapshotSink`.

    Args:
        attempt: folder of the attempt.
        worker: number of this worker.
        config: number and size limits of snapshots.
        framework: name of the adapter.
        versions: versions of packages.
        say: prints one line for the user; None = print nothing.
        report: records a fact in the run; called on the thread.
        on_error: called once with internal errors.
    """

    def __init__(
        self,
        attempt: Path,
        worker: int,
        config: Config,
        framework: str,
        versions: Mapping[str, str],
        say: Callable[[str], None] | None,
        report: Callable[[SnapshotKept], None],
        on_error: Callable[[BaseException], None],
    ) -> None:
        self._run, self._attempt, self._worker = attempt.parent, attempt, worker
        self._config, self._framework = config, framework
        self._versions = {**versions, "numpy": np.__version__, "mothtrap": own_version()}
        self._say, self._report, self._on_error = say, report, on_error
        self._said = self._pending = 0
        self._complained, self._said_of = False, -1
        self._bases: tuple[int, ...] = ()
        self._there: dict[Path, Kept] | None = None
        self._lines: dict[str, LineDigests] = {}
        self._lock = threading.Lock()
        self._queue: queue.SimpleQueue[SnapshotDraft | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="mothtrap-snapshots", daemon=True)
        self._thread.start()

    @property
    def base_steps(self) -> tuple[int, ...]:
        """Steps of the stored base snapshots, ascending."""
        return self._bases

    def has_room(self, spare: int = 0) -> bool:
        """Return whether the queue has room for one more snapshot of this size."""
        return self._pending + spare < WAITING

    def put(self, taken: SnapshotDraft) -> None:
        """Queue a snapshot, and return immediately."""
        with self._lock:
            self._pending += 1
        self._queue.put(taken)

    def refused(self, order: SnapshotOrder, step: int, why: str) -> None:
        """Record that a snapshot could not be taken; report it once if the settings ask for it."""
        self._report(SnapshotKept(step=step, reason=order.reason, request=order.request, error=why))
        asked = order.reason.startswith("step") or (
            order.reason == BASE and self._config.snapshot_every
        )
        if asked and not order.request and not self._complained:
            self._complained = True
            self._speak(f"no snapshot of step {step} ({order.reason}): {why}")

    def close(self) -> bool:
        """Write the remaining snapshots; return whether all were written."""
        self._queue.put(None)
        self._thread.join(CLOSE_S)
        return not self._thread.is_alive()

    def _work(self) -> None:
        # The priority is not lower: on a busy machine, the training would wait for the interpreter
        # lock while this thread, which holds it, does not get a processor.
        while (taken := self._queue.get()) is not None:
            try:
                self._write(taken)
            except OSError as err:
                self._failed(taken, err)
            except BaseException as err:  # after any error, the thread continues
                self._on_error(err)
            finally:
                if taken.state is not None:
                    taken.state.give_back()
                with self._lock:
                    self._pending -= 1
                del taken  # not kept alive while waiting for the next one

    def _failed(self, taken: SnapshotDraft, err: OSError) -> None:
        why = f"{err.strerror or err}; training continues"
        self.refused(taken.order, taken.step, why)

    def _write(self, taken: SnapshotDraft) -> None:
        folder = files.folder_of(self._run, taken.step, self._worker)
        steps: dict[str, Array] = {}
        for kept in taken.steps:
            steps |= kept.arrays
        size = sum(array.data.nbytes for array in steps.values())
        base: Path | None = None
        if taken.state is None:
            base = files.folder_of(self._run, taken.state_step, self._worker)
            if not self._is_stored(taken.state_step):
                why = f"the state of step {taken.state_step}, from which its replay starts, is gone"
                raise FileNotFoundError(errno.ENOENT, why)
            size += (base / files.STATE).stat().st_size
        else:
            size += taken.state.size_bytes
        coming = Kept(
            name=str(folder), reason=taken.order.reason, size_bytes=size, created_s=time.time()
        )
        replaced = self._make_room(coming, base)
        snapshot = self._snapshot(taken, base)
        arrays = taken.state.arrays if taken.state is not None else base
        files.write(folder, snapshot, arrays if arrays is not None else {}, steps)
        self._lying()[folder] = coming
        for path in replaced:
            files.remove(path)
        added = (taken.step,) if taken.order.reason == BASE else ()
        self._bases = tuple(step for step in (*self._bases, *added) if self._is_stored(step))
        self._report(
            SnapshotKept(
                step=taken.step,
                state_step=taken.state_step,
                reason=taken.order.reason,
                note=snapshot.note,
                folder=str(folder.relative_to(self._run)),
                size_bytes=size,
                request=taken.order.request,
            )
        )
        offered = is_offered(taken.order.reason, exact=taken.state_step <= taken.step)
        if offered and self._said < SAID and taken.step != self._said_of:
            self._said, self._said_of = self._said + 1, taken.step
            command = f"mothtrap replay {self._name} --step {taken.step}"
            if not has_script(snapshot.command):
                command += BUILD
            self._speak(f"step {taken.step} kept{_limits(taken)}: {command}")

    def _snapshot(self, taken: SnapshotDraft, base: Path | None) -> Snapshot:
        info = self._info()
        state: Tree = None
        missing: tuple[str, ...] = ()
        of_base = ""
        if base is not None:
            head = files.read_head(base)
            state, of_base = head.state, head.note
        elif taken.state is not None:
            state, missing = taken.state.make()
            missing = (*taken.state.missing, *missing)
        not_kept = (f"not kept: {what}" for what in (*missing, *_missing_inputs(taken)))
        notes = dict.fromkeys((taken.note, *of_base.split("; "), *not_kept))
        snapshot = Snapshot(
            run=self._run.name,
            attempt=int(self._attempt.name),
            worker=self._worker,
            step=taken.step,
            state_step=taken.state_step,
            reason=taken.order.reason,
            note="; ".join(filter(None, notes)),
            created_s=time.time(),
            command=arguments_without_secrets(
                info.command if info else (sys.executable, *sys.argv)
            ),
            cwd=info.cwd if info is not None else str(working_folder()),
            python=platform.python_version(),
            framework=self._framework,
            versions=self._versions,
            steps=tuple(kept.recorded for kept in taken.steps),
            truth=taken.truth,
            state=state,
        )
        return msgspec.structs.replace(snapshot, lines=self._lines_of(snapshot, info))

    def _lines_of(self, snapshot: Snapshot, info: RunInfo | None) -> dict[str, LineDigests]:
        """Return digests of the lines of the named sources as of the start of the run."""
        named = files_of(sites_of(snapshot))
        for file in named if info is not None else ():
            if info is not None and file not in self._lines:
                path = Path(info.cwd) / file
                self._lines[file] = line_digests(path) if _is_unchanged(path, info) else ()
        return {file: lines for file in named if (lines := self._lines.get(file))}

    def _info(self) -> RunInfo | None:
        try:
            return read_info(self._attempt)
        except (OSError, DamagedDataError):
            return None

    def _is_stored(self, step: int) -> bool:
        return (files.folder_of(self._run, step, self._worker) / files.STATE).exists()

    def _lying(self) -> dict[Path, Kept]:
        """Return the stored snapshots of this worker.

        Heads are read once, since they may be large.
        """
        if self._there is None:
            self._there = {
                found.folder: Kept(
                    name=str(found.folder),
                    reason=found.snapshot.reason if found.snapshot is not None else "damaged",
                    size_bytes=found.size_bytes,
                    created_s=found.snapshot.created_s if found.snapshot is not None else 0.0,
                )
                for found in files.stored(self._run)
                if found.worker == self._worker
            }
        for folder in [path for path in self._there if not path.exists()]:
            del self._there[folder]
        return self._there

    def _make_room(self, coming: Kept, base: Path | None) -> list[Path]:
        """Remove snapshots over the limit; return those to remove after the new one is stored."""
        gone = superfluous(
            list(self._lying().values()),
            coming,
            most=self._config.snapshots,
            most_bytes=self._config.snapshot_mb * 2**20,
        )
        needed = [k for k in gone if k.reason == BASE or Path(k.name) == base]
        for kept in gone:
            if kept not in needed:
                files.remove(Path(kept.name))
        return [Path(kept.name) for kept in needed]

    @property
    def _name(self) -> str:
        """Return the name of the run as a user would write it here."""
        return shown(str(self._run))

    def _speak(self, line: str) -> None:
        if self._say is not None:
            self._say(f"mothtrap: {line}")


def _is_unchanged(path: Path, info: RunInfo) -> bool:
    """Return whether a file is unchanged since the run began."""
    try:
        return path.stat().st_mtime <= info.created_s
    except (OSError, ValueError):  # ValueError: a NUL in the path
        return False


def _limits(taken: SnapshotDraft) -> str:
    """Return the limits of replaying this snapshot."""
    lost = f", but not {not_fed[0]}" if (not_fed := _missing_inputs(taken)) else ""
    if taken.state_step <= taken.step:
        return lost
    return (
        f"{lost}, with the state of step {taken.state_step} (a replay has nothing to compare with)"
    )


def _missing_inputs(taken: SnapshotDraft) -> list[str]:
    """Return the inputs of the step that were not stored, apart from the script's other state."""
    recorded = taken.steps[-1].recorded
    return [what for what in recorded.missing if not what.startswith("the variable")]
