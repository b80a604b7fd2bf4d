"""Run of a watched model: of one process, or of all processes of a job.

The first rank creates the run and publishes it in the job's store. The other ranks read this
message at their first step, and write to their own folders in the same run. The first rank also
does the work of a launcher: it compares the workers, and prints the verdict.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from mothtrap.core.adapters import JobStore
from mothtrap.core.config import Config
from mothtrap.core.errors import DamagedDataError
from mothtrap.core.facts.workers import Resumed
from mothtrap.reader.files.attempts import AttemptView
from mothtrap.session import launch, reacting, uploading
from mothtrap.session.resuming import Resumption, earlier_attempt
from mothtrap.session.supervision import Supervision
from mothtrap.session.verdict import print_verdict
from mothtrap.store import layout

WORD_S = 5.0
"""Maximum time that a process waits for the message of rank 0; chosen by hand: in a job that
averages gradients, all ranks run their first step together.
"""
LOOK_EVERY_S = 0.01
OTHERS_S = 5.0
"""Maximum wait of the first process at its end for the records of others; chosen by hand: they end
together.
"""


class Word(msgspec.Struct, frozen=True, kw_only=True):
    """Message of the first process about the run that it created; `attempt` is a folder."""

    name: str
    attempt: str
    created_s: float


class WatchedRun:
    """Creates the run at the first step, or joins the run of the first process.

    Args:
        name: name chosen by the user; None = `default_name`, with a number if it is already used.
        default_name: default name of the run.
        command: command of this process.
        config: settings.
        job_store: queried at the first step; None in a job with one process.
        rank: rank of this process, queried at the first step.
        say: prints one line for the user.

    Attributes:
        is_shared: whether other processes may write to the run.
    """

    def __init__(
        self,
        name: str | None,
        default_name: str,
        command: Sequence[str],
        config: Config,
        job_store: Callable[[], JobStore | None],
        rank: Callable[[], int | None],
        say: Callable[[str], None],
    ) -> None:
        self._name, self._default_name, self._command = name, default_name, command
        self._config, self._say = config, say
        self._job_store, self._rank = job_store, rank
        self._uploader: uploading.Uploader | None = None
        self._supervision: Supervision | None = None
        self._executor: reacting.Executor | None = None
        self._is_whole = True
        self.is_shared = False

    @functools.cached_property
    def _earlier(self) -> Path | None:
        """The last attempt of this job before its restart."""
        return earlier_attempt(uploading.folder_for(self._config.runs_dir), self._name, os.environ)

    def open(self) -> Path:
        """Create or join the run; return the folder of the attempt.

        Raises:
            RunExistsError: the name is already used.
            OSError: nothing can be written.
        """
        store = self._job_store()
        if store is None:
            return self._make()
        key = f"run/{store.count('run')}"
        if self._rank():
            found = self._find(store, key)
            self.is_shared = found is not None
            return found or self._make()
        try:
            attempt = self._make()
        except Exception:
            store.leave(key, "")
            raise
        self.is_shared = True
        info = layout.read_info(attempt)
        word = Word(
            name=self._name or "",
            attempt=str(attempt.absolute()),
            created_s=info.created_s if info is not None else 0.0,
        )
        store.leave(key, msgspec.json.encode(word).decode())
        if self._config.workers != "rank0":
            self._supervision = Supervision(attempt, self._config)
            self._supervision.begin()
        return attempt

    def resume(self, digests: Mapping[str, str], own_steps: int | None) -> Resumed | None:
        """Set the step at which a restarted job continues; called before the first step.

        Args:
            digests: digests of the current weights, by root.
            own_steps: number of steps according to the optimizer, if it counts them.

        Returns:
            None if no earlier data of the job is found.
        """
        last = self._earlier
        if last is None:
            return None
        first = layout.attempt_folder(last.parent, layout.attempts(last.parent)[0])
        own = layout.attempt_folder(last.parent, int(last.name) + 1)
        return Resumption(first, own, self._rank)(digests, own_steps)

    def last_word(self, run: Path, config: Config) -> None:
        """Print the verdict once the other processes have closed their records."""
        if self.is_shared:
            attempt = layout.attempt_folder(run, layout.attempts(run)[-1])
            wait_s = uploading.GIVE_UP_S if self._uploader is not None else OTHERS_S
            self._is_whole = _all_closed(attempt, wait_s)
        if self._supervision is not None:
            self._supervision.close()
        if self._executor is not None:
            self._executor.close()
        print_verdict(run, config)

    def close(self) -> None:
        """Upload the rest of the run, if it belongs in an object store."""
        if self._uploader is not None and self._is_whole:
            self._uploader.finish()
        elif self._uploader is not None:
            self._uploader.leave()

    def _make(self) -> Path:
        numbered = self._name is None
        last = None if self._rank() else self._earlier
        if last is None:
            name = self._name or self._default_name
            attempt = launch.create(name, self._command, self._config, numbered=numbered)
        else:
            info = launch.run_info(last.parent.name, self._command, self._config)
            anew = msgspec.structs.replace(info, attempt=int(last.name) + 1)
            attempt = layout.create_attempt(last.parent, anew)
        self._uploader = uploading.begin(
            attempt.parent, self._config, self._say, numbered=numbered, ask=False
        )
        self._executor = reacting.begin(attempt, self._config, self._say)
        return attempt

    def _find(self, store: JobStore, key: str) -> Path | None:
        """Return the attempt of the first process; None if it belongs to another job."""
        until_s = time.monotonic() + WORD_S
        while (text := store.find(key)) is None:
            if time.monotonic() >= until_s:
                return None
            time.sleep(LOOK_EVERY_S)
        if not text:
            return None
        word = msgspec.json.decode(text, type=Word)
        attempt = Path(word.attempt)
        try:
            info = layout.read_info(attempt)
        except (DamagedDataError, OSError):
            return None
        # on a disk that both can access
        here = info is not None and info.created_s == word.created_s
        return attempt if here and self._name in (None, word.name) else None


def _all_closed(attempt: Path, timeout_s: float) -> bool:
    """Wait until no other process writes to an attempt; return False after the timeout."""
    view = AttemptView(attempt)
    until_s = time.monotonic() + timeout_s
    while True:
        view.refresh()
        if not view.workers.keys() - view.gone:
            return True
        if time.monotonic() >= until_s:
            return False
        time.sleep(LOOK_EVERY_S)
