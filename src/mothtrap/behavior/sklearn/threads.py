"""Number of threads for fitting small models."""

from __future__ import annotations

from contextlib import AbstractContextManager


def one_thread() -> AbstractContextManager[object]:
    """Return a context in which the numerical libraries use one thread.

    Measured on two busy cores: the fits of a probe run on 2,000 rows take 3 s with one thread, and
    60 to 100 s with two, because the threads wait for each other.
    """
    from threadpoolctl import threadpool_limits

    limits: AbstractContextManager[object] = threadpool_limits(1)
    return limits
