"""Upload a run to its object store from a thread of the job, until everything is stored."""

from __future__ import annotations

import fcntl
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from mothtrap.core.config import Config
from mothtrap.core.errors import (
    ConfigError,
    MothtrapError,
    ObjectExistsError,
    RunExistsError,
    RunNotFoundError,
    StoreError,
    StoreRefusedError,
)
from mothtrap.store import control_inbox, layout
from mothtrap.store.manifests import Node
from mothtrap.store.mirror import open_mirror
from mothtrap.store.objects import Store, is_slip, is_url, join, open_store, split
from mothtrap.store.remote import Remote, read_remote, spool_folder, write_remote
from mothtrap.store.upload_queue import CollisionError, UploadQueue

MAX_PAUSE_S = 30.0
"""Maximum pause between two attempts while the store does not answer; chosen by hand."""
ALIVE_EVERY_S = 20.0
"""Interval at which a job without new data sends a sign of life; chosen by hand, well below the
`QUIET_S` after which readers on other hosts consider it dead.
"""
REQUESTS_EVERY_S = 5.0
"""Interval between searches for requests to the job; chosen by hand: a list request every five
seconds costs less than a tenth of a dollar a day.
"""
GIVE_UP_S = 30.0
"""Time without a successful upload at the end of a job after which the rest stays on this machine;
chosen by hand: most short failures have ended by then.
"""
ANSWER_S = 10.0
"""Maximum wait for the store at the start of a job; chosen by hand."""
SILENT_S = 2.0
"""Time after which a job that is ending reports why it waits; chosen by hand."""
NUMBERS = 1000
"""Maximum number of names that are tried if a name is taken; chosen by hand."""


class RunBusyError(MothtrapError):
    """Another process is working on a run."""


def folder_for(runs_dir: str) -> Path:
    """Return the local folder in which runs are written.

    Raises:
        ConfigError: `runs_dir` is a URL that cannot be used.
        MissingExtraError: a required package is not installed.
    """
    if is_slip(runs_dir):
        scheme, _, place = runs_dir.partition(":")
        meant = f"{scheme}://{place}" if scheme == "file" else f"{scheme}:/{place}"
        raise ConfigError(f"cannot store runs in {runs_dir!r}: a URL has two slashes: {meant}")
    if not is_url(runs_dir):
        return Path(runs_dir)
    open_store(runs_dir)
    return spool_folder(runs_dir)


def bring_back(runs_dir: str, name: str) -> Path:
    """Return the folder of a run to resume, restored from the store.

    Args:
        runs_dir: location of the runs; runs on disk need no upload.
        name: name of the run.

    Raises:
        StoreError: the store cannot be reached, or rejects the request.
    """
    run = folder_for(runs_dir) / name
    if not is_url(runs_dir) or layout.attempts(run):
        return run
    url = join(runs_dir, name)
    try:
        mirror = open_mirror(url)
    except RunNotFoundError:
        return run
    draft = run.with_name(f".draft-{os.getpid()}-{name}")
    shutil.copytree(mirror.folder, draft, ignore=shutil.ignore_patterns(".*", "alive.json"))
    UploadQueue(draft, url).has_all()
    write_remote(draft, Remote(url=url, role="spool"))
    os.rename(draft, run)
    return run


def begin(
    run: Path,
    config: Config,
    say: Callable[[str], None],
    *,
    numbered: bool,
    ask: bool,
    node: Node | None = None,
) -> Uploader | None:
    """Start uploading a new run to the configured store.

    Args:
        run: folder of the run.
        config: settings.
        say: prints one line for the user.
        numbered: append a number to the name if the store already has a run of this name.
        ask: wait until the store confirms that the name is free.
        node: node whose workers are merged; see `UploadQueue`.

    Returns:
        The uploader; None if runs are stored on disk.

    Raises:
        RunExistsError: `ask`, and the store has a run of that name; `run` is removed.
        CollisionError: `ask`, and another launcher has opened the same attempt.
        RunBusyError: another process uploads it.
    """
    if not is_url(config.runs_dir):
        return None
    kept = read_remote(run)
    url = kept.url if kept is not None else join(config.runs_dir, run.name)
    uploader = Uploader(run, url, say, every_s=config.upload_every_s, numbered=numbered, node=node)
    if ask:
        try:
            uploader.claim_soon()
        except RunExistsError:
            uploader.release()
            if kept is None:
                shutil.rmtree(run, ignore_errors=True)
            raise
        except StoreError as err:
            uploader.complain(err)
    uploader.start()
    return uploader


class Uploader:
    """Uploads one run; every method except the constructor may wait for the network.

    Args:
        run: the run's folder on this machine.
        url: URL of the run.
        say: prints one line for the user.
        every_s: seconds between two checks for new data.
        numbered: append a number to the name if the store already has a run of this name.
        node: node whose workers are merged; see `UploadQueue`.
    """

    def __init__(
        self,
        run: Path,
        url: str,
        say: Callable[[str], None],
        *,
        every_s: float,
        numbered: bool = False,
        node: Node | None = None,
    ) -> None:
        self.run, self.url, self._node = run, url, node
        self._say, self._every_s, self._numbered = say, every_s, numbered
        self._claimed = False
        self._claiming: threading.Thread | None = None
        self._ended = threading.Event()
        self._trouble: Exception | None = None
        self._done = self._left = False
        self._alive_s = self._looked_s = float("-inf")
        self._sent_s = time.monotonic()
        self._hold = hold(run)
        self._open()
        self._thread = threading.Thread(target=self._work, name="mothtrap-upload", daemon=True)

    def claim_soon(self) -> None:
        """Claim the run's name, on a thread if the store takes longer than `ANSWER_S`.

        Raises:
            StoreError: the run exists; or as for `claim`.
        """
        failed: list[Exception] = []

        def claim() -> None:
            try:
                self.claim()
            except Exception as err:  # passed to the waiting caller; it is tried again later
                failed.append(err)

        self._claiming = threading.Thread(target=claim, name="mothtrap-claim", daemon=True)
        self._claiming.start()
        self._claiming.join(ANSWER_S)
        if self._claiming.is_alive():
            raise StoreError(f"{self.url} has not answered for {ANSWER_S:.0f} seconds")
        if failed:
            raise failed[0]

    def claim(self) -> None:
        """Create the run in the store, so that no other job takes its name.

        Raises:
            RunExistsError: the store has a run of that name.
            CollisionError: another launcher has opened the same attempt.
            StoreError: the store cannot be reached, or rejects the request.
        """
        name = split(self.url)[1]
        for number in range(2, NUMBERS):
            try:
                self._queue.send_description(layout.attempt_folder(self.run, self._first()))
            except CollisionError as err:
                if not self._numbered:
                    raise RunExistsError(
                        f"cannot create the run {name!r}: {self.url} already exists; choose "
                        "another name with --name, or continue the run with --resume"
                    ) from err
                self._rename(f"{name}-{number}")
            else:
                latest = max(layout.attempts(self.run))
                self._queue.send_description(layout.attempt_folder(self.run, latest))
                self._claimed = True
                return
        raise RunExistsError(f"cannot create the run {name!r}: {self.url} also exists")

    def step(self, *, final: bool) -> None:
        """Upload new data once; `final`: no more data will follow.

        Raises:
            StoreError: some data could not be uploaded.
            RunExistsError, CollisionError: another run has its location.
        """
        if not self._claimed:
            self.claim()
        if self._queue.send(final=final):
            self._sent_s = time.monotonic()
        elif not final:
            self._signal_alive()
        if self._trouble is not None:
            self._say(
                f"mothtrap: {self.url} answers again; now sending what was captured in the meantime"
            )
            self._trouble = None
        if not final:
            self._fetch_requests()
        self._done = final

    def start(self) -> None:
        """Start uploading written data."""
        self._thread.start()

    def complain(self, err: OSError) -> None:
        """Report that the store refuses data, once for each kind of reason."""
        if self._trouble is None or type(self._trouble) is not type(err):
            self._say(
                f"mothtrap: {err}; the job continues; its data is stored in {self.run} and sent "
                "when the store accepts it"
            )
        self._trouble = err

    def finish(self) -> bool:
        """Upload the rest, and report failures. The run must not be written to anymore.

        Returns:
            Whether everything is in the store; the copy on this machine is then removed, unless it
        has details of workers that are not uploaded.
        """
        self._sent_s = time.monotonic()
        self._ended.set()
        try:
            self._thread.join(SILENT_S)
            if self._thread.is_alive():
                self._say(
                    f"mothtrap: sending the rest to {self.url}; Ctrl-C keeps it on this machine"
                )
            while self._thread.is_alive():
                self._thread.join(0.2)  # in pieces, so that Ctrl-C takes effect immediately
        except KeyboardInterrupt:
            self._trouble = StoreError("interrupted")
        self.release()
        if self._done and self._queue.keeps_details:
            self._say(
                f"mothtrap: details of single workers stay in {self.run}; "
                f"`mothtrap upload {self.run}` sends them"
            )
        elif self._done:
            shutil.rmtree(self.run, ignore_errors=True)
        else:
            self._say(_kept(self._queue.left(), self.run, self.url, self._trouble))
        return self._done

    def leave(self) -> None:
        """Leave the remaining data on this machine, because others still write to the run."""
        self._left = True
        self.release()
        why = StoreError("workers still write to it")
        self._say(_kept(self._queue.left(), self.run, self.url, why))

    def release(self) -> None:
        """Let other processes upload the run."""
        os.close(self._hold)

    def _open(self) -> None:
        self._store: Store = open_store(self.url)
        self._queue = UploadQueue(self.run, self.url, node=self._node)
        write_remote(self.run, Remote(url=self.url, role="spool"))

    def _first(self) -> int:
        return min(layout.attempts(self.run))

    def _rename(self, name: str) -> None:
        self.url = join(split(self.url)[0], name)
        attempt = layout.attempt_folder(self.run, self._first())
        info = layout.read_info(attempt)
        if info is not None:
            layout.write_info(attempt, msgspec.structs.replace(info, id=name))
        self._open()

    def _work(self) -> None:
        pause_s = self._every_s
        if self._claiming is not None:
            self._claiming.join()
            if self._ended.is_set() and not self._claimed and self._is_long():
                return
        while True:
            final = self._ended.wait(pause_s)
            if self._left:
                return
            try:
                self.step(final=final)
                pause_s = self._every_s
            except OSError as err:  # errors of the store or the disk, which may go away
                if isinstance(err, RunExistsError):
                    self._stop(err)
                    return
                self.complain(err)
                pause_s = min(2 * pause_s, MAX_PAUSE_S)
                if self._ended.is_set() and self._must_give_up(err):
                    return
                if final:
                    time.sleep(min(pause_s, 1.0))
            except Exception as err:  # after any other error, the run stays on this machine
                self._stop(err)
                return
            if self._done:
                return

    def _stop(self, err: Exception) -> None:
        self._trouble = err
        self._say(f"mothtrap: nothing more is sent to {self.url}: {err}")

    def _fetch_requests(self) -> None:
        now_s = time.monotonic()
        if now_s - self._looked_s < REQUESTS_EVERY_S:
            return
        self._looked_s = now_s
        try:
            control_inbox.fetch(self._store, self.run)
        except StoreRefusedError as err:  # without permission to read, uploads still work
            self._looked_s = float("inf")
            self._say(f"mothtrap: this job cannot be controlled through its URL: {err}")

    def _signal_alive(self) -> None:
        now_s = time.monotonic()
        if now_s - max(self._alive_s, self._sent_s) < ALIVE_EVERY_S:
            return
        self._alive_s = now_s
        key = f"{max(layout.attempts(self.run))}/alive.json"
        self._store.delete(key)
        try:
            self._store.put_if_absent(key, b'{"alive_s":%d}' % time.time())
        except ObjectExistsError:
            return  # another launcher of the same run has just done so

    def _must_give_up(self, err: OSError) -> bool:
        return isinstance(err, StoreRefusedError) or self._is_long()

    def _is_long(self) -> bool:
        return time.monotonic() - self._sent_s > GIVE_UP_S


def hold(run: Path) -> int:
    """Acquire the exclusive right to upload a run, until the returned file is closed.

    Raises:
        RunBusyError: another process uploads it.
    """
    file = os.open(run / ".upload-lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as err:
        os.close(file)
        raise RunBusyError(
            f"another process is uploading {run}; wait until its job has ended"
        ) from err
    return file


def _kept(left: list[Path], run: Path, url: str, why: Exception | None) -> str:
    size_mb = sum(path.stat().st_size for path in left) / 1e6
    reason = f" ({why})" if why is not None else ""
    return (
        f"mothtrap: {len(left)} files ({size_mb:.1f} MB) of this run are not in {url} yet"
        f"{reason}; they are kept in {run}; `mothtrap upload {run}` sends them"
    )
