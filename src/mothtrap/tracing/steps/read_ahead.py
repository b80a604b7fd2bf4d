"""Loaders that read ahead: a batch counts as loaded when the script receives it.

The loaders of Accelerate, with which the Hugging Face Trainer wraps its own loaders, request the
next batch from the inner loader before they return a batch, to find out whether it is the last.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from mothtrap.tracing.replacements import drop_own_frame

Iterate = Callable[[Any], Iterator[Any]]
Intercept = Callable[[Any, Iterate], Iterator[Any]]

intercepts: list[Intercept] = []
"""Function that, in a replay, creates the iterator of such a loader, which returns recorded
batches.
"""


class _Running(threading.local):
    """Loaders whose next batch is being prepared in a thread, innermost last."""

    def __init__(self) -> None:
        self.loaders: list[_Waiting] = []


_running = _Running()


class _Waiting:
    """Reports of batches that a loader has read but not returned yet."""

    def __init__(self) -> None:
        self._reports: deque[tuple[bool, Callable[[], None]]] = deque()

    def add(self, report: Callable[[], None], *, of_batch: bool) -> None:
        self._reports.append((of_batch, report))

    def hand_on(self, *, is_last: bool) -> None:
        """Report batches up to the returned batch: the last batch read, or the batch before it."""
        batches = sum(of_batch for of_batch, _ in self._reports)
        left = batches if is_last else batches - 1
        while left > 0:
            of_batch, report = self._reports.popleft()
            left -= of_batch
            report()

    def end(self) -> None:
        """Report the remaining batches."""
        while self._reports:
            self._reports.popleft()[1]()


def is_running() -> bool:
    """Return whether a prefetching loader is calling the loader inside it."""
    return bool(_running.loaders)


def when_handed(report: Callable[[], None], *, of_batch: bool) -> None:
    """Report a batch, or the end of a loader, when the script receives it.

    Args:
        report: called immediately if there is no loader in between.
        of_batch: it is a batch, rather than the end.
    """
    if _running.loaders:
        _running.loaders[-1].add(report, of_batch=of_batch)
    else:
        report()


def observed(original: Iterate) -> Iterate:
    """Return the `__iter__` of a prefetching loader that reports what it returns."""

    def iterate(loader: Any) -> Iterator[Any]:
        waiting, iterator = _Waiting(), original(loader)
        while True:
            _running.loaders.append(waiting)
            try:
                batch = next(iterator)
            except StopIteration:
                break
            except BaseException as err:
                drop_own_frame(err)
                raise
            finally:
                _running.loaders.remove(waiting)
            waiting.hand_on(is_last=bool(loader.end_of_dataloader))
            yield batch
        waiting.end()

    return iterate


def replayed(original: Iterate) -> Iterate:
    """Return the `__iter__` of such a loader that returns recorded batches."""

    def iterate(loader: Any) -> Iterator[Any]:
        own = observed(original)
        return intercepts[-1](loader, own) if intercepts else own(loader)

    return iterate
