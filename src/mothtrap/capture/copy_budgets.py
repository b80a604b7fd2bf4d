"""Size budgets of collections that store copies of tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from mothtrap.capture.raw import Copier, Wanted
from mothtrap.capture.selection import RAW, Selection, Stream
from mothtrap.core.facts.captures import Dropped

ArrayT = TypeVar("ArrayT")


class CopyBudgets:
    """Charges copies to the collections that store them, until their budget is used up.

    Attributes:
        exhausted: names of the streams whose budget is used up.

    Args:
        selection: the active streams, and the tensors that they match.
        report: called once per stream when its budget is used up.
    """

    def __init__(self, selection: Selection, report: Callable[[Dropped], None]) -> None:
        self._selection, self._report = selection, report
        self._used_bytes: dict[str, int] = {}
        self.exhausted: set[str] = set()

    def forget(self, name: str) -> None:
        """Reset the budget of a stream that is deactivated."""
        self.exhausted.discard(name)
        self._used_bytes.pop(name, None)

    def paid(
        self,
        purpose: frozenset[str],
        tensor_ids: Sequence[int],
        tensors: Sequence[ArrayT],
        copier: Copier[ArrayT],
        *,
        active: frozenset[str],
        step: int,
    ) -> list[Wanted[ArrayT]]:
        """Return the copies to make, with their purposes, and the copies that are over budget.

        Args:
            purpose: purpose of all copies.
            tensor_ids: ids of the tensors.
            tensors: tensors whose size is needed.
            copier: determines the size of a tensor.
            active: names of the streams that capture.
            step: step in progress.
        """
        found = []
        for number, tensor in zip(tensor_ids, tensors, strict=True):
            limited, free = self._asking(number, active) if RAW in purpose else ([], True)
            refused = False
            if limited:
                refused = not self._book(limited, copier.describe(tensor)[2], step) and not free
            if left := purpose - {RAW} if refused else purpose:
                found.append((number, tensor, left))
        return found

    def _asking(self, tensor_id: int, active: frozenset[str]) -> tuple[list[Stream], bool]:
        """Return the streams with a budget that store a whole tensor, and whether others do."""
        asking = [
            stream
            for stream in self._selection.matching(tensor_id)
            if RAW in stream.statistics and stream.name in active
        ]
        limited = [stream for stream in asking if stream.budget_bytes is not None]
        return limited, len(limited) < len(asking)

    def _book(self, limited: Sequence[Stream], size: int, step: int) -> bool:
        """Charge a copy to the budgets that have room for it; return whether any has."""
        has_room = False
        for stream in limited:
            budget, used = stream.budget_bytes or 0, self._used_bytes.get(stream.name, 0)
            if used + size <= budget:
                has_room = True
                self._used_bytes[stream.name] = used + size
            elif stream.name not in self.exhausted:
                self.exhausted.add(stream.name)
                reason = f"its budget of {budget / 2**20:g} MB is used up"
                self._report(Dropped(step=step, what=stream.name, count=1, reason=reason))
        return has_room
