"""Upload of a complete run that has ended, for `mothtrap upload`."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from mothtrap.core.errors import ConfigError
from mothtrap.reader.run import open_run
from mothtrap.session.uploading import RunBusyError, hold
from mothtrap.store import layout
from mothtrap.store.objects import join, split
from mothtrap.store.remote import cache_folder, read_remote
from mothtrap.store.upload_queue import UploadQueue


def spooled() -> list[Path]:
    """Return this machine's runs that are not completely uploaded, latest start first."""
    places = sorted((cache_folder() / "spool").glob("*/"))
    return [run for place in places for run in layout.list_runs(place) if read_remote(run)]


def send(run: Path, to: str | None = None, name: str | None = None) -> str:
    """Upload a run to an object store; continues an interrupted upload.

    If a run was intended for a store, it is removed from this machine once it is completely
    uploaded; any other run stays.

    Args:
        run: folder of the run.
        to: URL of a location of runs; None = the location that the run was intended for.
        name: name of the run in the store; None = its current name.

    Returns:
        The URL of the run.

    Raises:
        ConfigError: no URL is known.
        RunBusyError: the run is still being written or uploaded.
        CollisionError: the store has another run of that name.
        StoreError: the store cannot be reached, or rejects the request; call again.
    """
    remote = read_remote(run)
    if to is None and remote is None:
        raise ConfigError(
            f"{run} belongs to no object store; pass one, e.g. mothtrap upload {run} --to "
            "s3://bucket/runs"
        )
    runs_url, own = split(remote.url) if remote is not None else ("", run.name)
    url = join(to or runs_url, name or own)
    held = hold(run)
    try:
        _refuse_written(run)
        UploadQueue(run, url, keep_raw=remote is None).send(final=True)
    finally:
        os.close(held)
    if remote is not None:
        shutil.rmtree(run)
    return url


def _refuse_written(run: Path) -> None:
    opened = open_run(run)
    if opened.state == "running":
        host = opened.info.host if opened.info else "an unknown machine"
        raise RunBusyError(
            f"the job on {host} still writes to {run}; wait until it has ended; a job on another "
            "machine counts as ended when it has written nothing for a minute"
        )
