"""Executors that evaluate stored runs: one engine per file, which has the engine's name.

Each module has `open_executor(address, workers)`, a context manager that yields a
`concurrent.futures.Executor` (PEP 3148). Other distributions add engines by entry points.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager

from mothtrap.core import registry
from mothtrap.core.errors import ConfigError, nearest

PACKAGE = "mothtrap.monitor.executors"


@contextmanager
def open_executor(name: str, workers: int | None = None) -> Iterator[Executor]:
    """Open an executor by name, and close it afterwards.

    Args:
        name: `processes`, `dask`, `dask://HOST:PORT`, `ray`, `ray://HOST:PORT`, or the name of an
            engine of another distribution.
        workers: number of processes to start here; None: one per core.

    Raises:
        ConfigError: there is no such executor; the message suggests one.
        MissingExtraError: the engine is not installed.
    """
    engine, _, address = name.partition("://")
    known = registry.names(PACKAGE)
    if engine not in known:
        raise ConfigError(
            f"there is no executor {engine!r}{nearest(engine, known)}; executors: "
            + ", ".join(known)
        )
    with registry.load(PACKAGE, engine).open_executor(address, workers) as executor:
        yield executor
