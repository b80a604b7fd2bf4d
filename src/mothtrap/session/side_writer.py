"""A separate process that writes the records of the training process, and outlives it.

It is not a child of the training process, so a script that waits for its children does not wait
for it. It has its own session, so Ctrl-C and a closing terminal do not reach it. It inherits only
the shared memory, and ends after the training process, however that ends.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil

from mothtrap.capture.ring import Bytes, ReaderState, Ring
from mothtrap.core.error_texts import in_one_line
from mothtrap.core.facts.workers import WorkerEnded, WorkerLost
from mothtrap.core.records import StepRecord
from mothtrap.core.steps import Mode, StepKey
from mothtrap.statistics.summary import WIDTH
from mothtrap.store.durability import Durability
from mothtrap.store.wire import decode

MIN_RING_BYTES = 4 << 20
"""Minimum size of the memory; chosen by hand: the definitions of about 10,000 tensors fit."""
START_TIMEOUT_S = 30.0
START_WAIT_S = 0.005
POLL_S = 0.05
FIRST_WAIT_S = 0.001
CHUNK_BYTES = 32 << 20
"""Number of bytes read and written at once; limits the memory of the writer process."""
_IGNORED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")
_SINGLE_THREADED = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def start(
    folder: Path,
    *,
    queue_bytes: float,
    durability: Durability,
    roll_s: float | None = None,
    limit_bytes: float | None = None,
) -> tuple[Ring, Callable[[], bool]]:
    """Start a writer for this process, and wait until it is ready.

    Args:
        folder: existing folder of the worker.
        queue_bytes: maximum size of waiting data; twice that for steps with fewer statistics.
        durability: as in the configuration.
        roll_s: as in the configuration.
        limit_bytes: bytes after which less is written; None = no limit.

    Returns:
        The memory to write to, and whether the process lives.

    Raises:
        OSError: the writer cannot be started.
    """
    file, size = Ring.create(max(MIN_RING_BYTES, int(2 * queue_bytes)))
    try:
        ring = Ring(file, size)
        how = [durability, roll_s, limit_bytes]
        order = json.dumps([file, size, os.getpid(), str(folder.absolute()), *how])
        _spawn([sys.executable, "-P", "-W", "ignore", "-m", __name__, order], file)
    finally:
        os.close(file)
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while ring.state != ReaderState.READY:
        if ring.state == ReaderState.FAILED:
            raise OSError(ring.words)
        if ring.reader_pid and not _watch(ring.reader_pid)() and not ring.state:
            raise OSError("it was killed as soon as it started")
        if time.monotonic() >= deadline_s:
            ring.finish()  # so that it ends if it starts after all
            raise OSError(f"it was not ready within {START_TIMEOUT_S:g} s")
        time.sleep(START_WAIT_S)
    return ring, _watch(ring.reader_pid)


def _spawn(command: list[str], file: int) -> None:
    """Run the command until it has forked the writer and ended."""
    own = {"MOTHTRAP_DISABLE": "1", **dict.fromkeys(_SINGLE_THREADED, "1")}
    process = subprocess.Popen(
        command,
        env={**os.environ, **own},
        pass_fds=(file,),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    try:
        _, said = process.communicate(timeout=START_TIMEOUT_S)
    except subprocess.TimeoutExpired as err:
        process.kill()
        process.communicate()
        raise OSError(f"it did not start within {START_TIMEOUT_S:g} s") from err
    if process.returncode:
        raise OSError(said.strip().rpartition("\n")[2] or f"exit code {process.returncode}")


def _watch(pid: int) -> Callable[[], bool]:
    """Return a function that checks whether the current process `pid` is still alive."""
    try:
        process = psutil.Process(pid)
    except psutil.Error:
        return lambda: False

    def alive() -> bool:
        try:
            return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
        except psutil.Error:
            return False

    return alive


def write_from(
    ring: Ring,
    folder: Path,
    peer: int,
    durability: Durability = "crash",
    sleep: Callable[[float], None] = time.sleep,
    *,
    roll_s: float | None = None,
    limit_bytes: float | None = None,
) -> None:
    """Write incoming data until the peer closes or dies, then seal the files.

    Args:
        ring: memory to which the peer writes.
        folder: folder of the worker.
        peer: pid of the process that writes to the ring.
        durability: as in the configuration.
        sleep: waits for this many seconds.
        roll_s: as in the configuration.
        limit_bytes: as in `start`.

    Raises:
        OSError: the disk rejected writes until the end; earlier data can be read.
    """
    from mothtrap.store.patient_log import PatientLog
    from mothtrap.store.worker_log import WorkerLog
    from mothtrap.store.writers import marked

    with marked(folder):
        log = WorkerLog(folder, durability=durability, roll_s=roll_s, limit_bytes=limit_bytes)
        ring.enter(ReaderState.READY)
        inbox, alive = _Inbox(ring), _watch(peer)

        def rest(seconds: float) -> bool:
            for _ in range(round(seconds / POLL_S)):
                if ring.closing or not alive():
                    return True
                sleep(POLL_S)
            return False

        patient = PatientLog(log, rest, _ignore_line)
        wait_s, ended, step = POLL_S, False, 0
        while True:
            over = ring.closing or not alive()  # before reading, so that all data has arrived
            records = inbox.take()
            patient.append(records)
            for record in records:
                step = max(step, record.key.step + bool(record.optimizers))
                ended = ended or any(isinstance(o, WorkerEnded) for o in record.observations)
            if over and not records:
                break
            wait_s = FIRST_WAIT_S if records else min(2 * wait_s, POLL_S)
            if not inbox.was_full:
                sleep(wait_s)
        if not ended and not ring.closing:
            patient.append([_loss(step, peer)])
        log.close()


def _ignore_line(line: str) -> None:
    """Discard messages of this process, because the queue reports its losses."""


class _Inbox:
    """Reader of the records in a ring."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._begun: list[Bytes] = []
        self.was_full = False

    def take(self) -> list[StepRecord]:
        """Return whole records; with `was_full`, more are waiting."""
        records, size = [], 0
        for data, last in self._ring.read(CHUNK_BYTES):
            size += len(data)
            self._begun.append(data)
            if last:
                whole = data if len(self._begun) == 1 else np.concatenate(self._begun)
                self._begun = []
                records.append(decode(whole))
        self.was_full = size >= CHUNK_BYTES
        return records


def _loss(step: int, pid: int) -> StepRecord:
    """Return the record that reports the end of a worker."""
    return StepRecord(
        key=StepKey(step=step, mode=Mode.PREDICT),
        wall_s=time.time(),
        tensor_T=np.empty(0, np.uint32),
        summary_TF=np.empty((0, WIDTH)),
        observations=(WorkerLost(step=step, pid=pid),),
    )


def _leave() -> None:
    """Release everything that was inherited."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    os.chdir("/")
    for name in _IGNORED:
        signal.signal(getattr(signal, name), signal.SIG_IGN)


def main() -> None:
    """Fork the writer and exit, so that no parent has to wait for it."""
    file, size, peer, folder, durability, roll_s, limit_bytes = json.loads(sys.argv[1])
    ring = Ring(file, size)
    os.close(file)
    if os.fork():
        os._exit(0)
    ring.begin(os.getpid())
    _leave()
    try:
        how = {"roll_s": roll_s, "limit_bytes": limit_bytes}
        write_from(ring, Path(folder), peer, durability, **how)
        ring.enter(ReaderState.DONE)
    except BaseException as err:  # any error, which the peer reports
        ring.enter(ReaderState.FAILED, in_one_line(err))


if __name__ == "__main__":
    main()
