"""Join a run that the launcher of another machine creates: one launcher per machine."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

from mothtrap.core.errors import ObjectNotFoundError, RunNotFoundError
from mothtrap.session.uploading import folder_for
from mothtrap.store import layout
from mothtrap.store.objects import Store, is_url, join, open_store
from mothtrap.store.remote import Remote, write_remote
from mothtrap.store.upload_queue import UploadQueue

WAIT_S = 60.0
"""Maximum wait for the run to appear; chosen by hand: machines of a job rarely start further apart.
"""
LOOK_EVERY_S = 0.5


def join_run(runs_dir: str, name: str, wait_s: float = WAIT_S) -> Path:
    """Return the folder of the run's latest attempt, for the workers of this machine.

    For a run in an object store, it is a folder on this machine with only this machine's share.

    Args:
        runs_dir: location of the runs; a folder must be shared by the machines.
        name: name of the run.
        wait_s: seconds to wait for the run to appear.

    Raises:
        RunNotFoundError: it did not appear in time.
        StoreError: the store cannot be reached, or rejects the request.
    """
    folder = folder_for(runs_dir)
    deadline_s = time.monotonic() + wait_s
    while True:
        found = _share(runs_dir, name) if is_url(runs_dir) else _latest(folder / name)
        if found is not None:
            return found
        if time.monotonic() >= deadline_s:
            raise RunNotFoundError(
                f"no run {name!r} appeared in {runs_dir} within {wait_s:g} s; start it on one "
                "machine without --join, with the same name"
            )
        time.sleep(LOOK_EVERY_S)


def _latest(run: Path) -> Path | None:
    numbers = layout.attempts(run)
    return layout.attempt_folder(run, numbers[-1]) if numbers else None


def _share(runs_url: str, name: str) -> Path | None:
    """Create a spool for a part of the run, once the run exists in the store."""
    url = join(runs_url, name)
    store = open_store(url)
    description, number = _description(store)
    if description is None:
        return None
    run = folder_for(runs_url) / f"{name}@{socket.gethostname()}-{os.getpid()}"
    attempt = layout.attempt_folder(run, number)
    attempt.mkdir(parents=True)
    (attempt / "run.json").write_bytes(description)
    UploadQueue(run, url).has_all()
    write_remote(run, Remote(url=url, role="spool"))
    return attempt


def _description(store: Store) -> tuple[bytes | None, int]:
    numbers = sorted((int(n) for n in store.children("").folders if n.isdigit()), reverse=True)
    for number in numbers:
        try:
            return store.get(f"{number}/run.json"), number
        except ObjectNotFoundError:
            continue  # it is being created
    return None, 0
