"""Ray workers, in an existing or a local cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from typing import Any

from mothtrap.core.errors import MissingExtraError


class RayExecutor(Executor):
    """`concurrent.futures.Executor` that runs Ray tasks.

    Args:
        ray: the module, connected to a cluster.
    """

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._tasks: dict[Callable[..., Any], Any] = {}

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Start a task; its future cannot be cancelled."""
        if fn not in self._tasks:
            self._tasks[fn] = self._ray.remote(num_cpus=1, max_retries=2)(fn)
        future: Future[Any] = self._tasks[fn].remote(*args, **kwargs).future()
        return future


@contextmanager
def open_executor(address: str, workers: int | None) -> Iterator[Executor]:
    """Connect to the cluster at `HOST:PORT`, or without an address start a local cluster.

    Raises:
        MissingExtraError: `ray` is not installed.
        ConnectionError: the cluster cannot be reached.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as err:
        raise MissingExtraError("the executor 'ray'", "ray", "ray") from err
    where: dict[str, Any] = {"address": f"ray://{address}"} if address else {"num_cpus": workers}
    was_connected = ray.is_initialized()
    if not was_connected:
        own = {} if address else {"include_dashboard": False}
        ray.init(log_to_driver=False, configure_logging=False, **where, **own)
    try:
        yield RayExecutor(ray)
    finally:
        if not was_connected:
            ray.shutdown()
