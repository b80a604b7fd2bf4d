"""Replace the batches of a script's data loaders with recorded ones.

A loader that returns recorded batches never loads its own: its data set is not read, and no worker
process is started. A loader that is iterated elsewhere works as usual.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader

from mothtrap.adapters.torch.replaying import fitting
from mothtrap.tracing.jobs.identity import ByIdentity
from mothtrap.tracing.source import frames

Ask = Callable[[int, str, Callable[[], Any]], "Handed | None"]
"""Function that receives the number of a loader, the location in the user's code, and a function
that returns the loader's own next batch, for values that were not kept. It returns None if the
loader should return its own batch.
"""


class Handed:
    """A recorded batch, already created."""

    def __init__(self, batch: Any) -> None:
        self.batch = batch


def completed(batch: Any, own: Callable[[], Any]) -> tuple[Any, str]:
    """Fill the missing values of a recorded batch with a loader's own values.

    Args:
        batch: recorded batch.
        own: returns the loader's own next batch; called if something was not kept.

    Returns:
        The batch, and a description of parts that are not recorded.
    """
    lacking = fitting.lacking(batch)
    if not lacking:
        return batch, ""
    with torch._C._EnableTorchFunction():  # the script's own code
        found = own()
    more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
    return fitting.fitted(
        found, batch
    ), f"instead of values that were not kept: {lacking[0].text}{more}"


class LoaderNumbers:
    """Indices of loaders, in order of first iteration, from 0."""

    def __init__(self) -> None:
        self._numbers: ByIdentity[DataLoader[Any], int] = ByIdentity()
        self._next = 0

    def of(self, loader: DataLoader[Any]) -> int:
        """Return the number of a loader, assigning the next one to a new loader."""
        number = self._numbers.get(loader)
        if number is None:
            number = self._numbers[loader] = self._next
            self._next += 1
        return number


class HandingIterator:
    """Iterator of a loader in a replay, which returns recorded batches at recorded locations.

    Args:
        loader: iterated loader.
        begin: creates its own iterator when it is needed.
        number: index of the loader, in order of first iteration, from 0.
        ask: returns the recorded data for a location.
    """

    def __init__(
        self,
        loader: DataLoader[Any],
        begin: Callable[[DataLoader[Any]], Iterator[Any]],
        number: int,
        ask: Ask,
    ) -> None:
        self._loader, self._begin, self._number, self._ask = loader, begin, number, ask
        self._own: Iterator[Any] | None = None

    def __iter__(self) -> HandingIterator:
        return self

    def __len__(self) -> int:
        return len(self._loader)

    def __next__(self) -> Any:
        site = frames.user_location() or ""
        handed = self._ask(self._number, site, lambda: next(self._iterator()))
        return handed.batch if handed is not None else next(self._iterator())

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._iterator(), name)

    def _iterator(self) -> Iterator[Any]:
        if self._own is None:
            self._own = self._begin(self._loader)
        return self._own
