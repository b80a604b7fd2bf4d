"""Dask workers, in an existing or a local cluster."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager

from mothtrap.core.errors import MissingExtraError


@contextmanager
def open_executor(address: str, workers: int | None) -> Iterator[Executor]:
    """Connect to the scheduler at `HOST:PORT`, or start a local cluster of processes.

    Raises:
        MissingExtraError: `distributed` is not installed.
        OSError: the scheduler cannot be reached.
    """
    try:
        from distributed import Client, LocalCluster
    except ImportError as err:
        raise MissingExtraError("the executor 'dask'", "distributed", "dask") from err
    if address:
        with Client(f"tcp://{address}", set_as_default=False) as client:
            yield client.get_executor()
        return
    with (
        LocalCluster(  # without Dask's dashboard, which opens a port
            n_workers=workers, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client.get_executor()
