"""Selection of a run's data for an export, and the export's result."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

from mothtrap.core.tensors import TensorInfo
from mothtrap.reader.tensors.choosing import matching

_matcher = functools.lru_cache(matching)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Part of a run to export; by default the whole run.

    Attributes:
        tensors: pattern as in `Run.tensors`: a glob over names and module paths (`blocks.0.*`),
            optionally after a kind (`gradients:*`), or `re:` and a regular expression.
        begin: first step.
        end: step after the last step; None means no limit.
    """

    tensors: str = "*"
    begin: int = 0
    end: int | None = None

    def has_step(self, step: int) -> bool:
        """Return True if a step is exported."""
        return step >= self.begin and (self.end is None or step < self.end)

    def has_tensor(self, tensor: TensorInfo) -> bool:
        """Return True if a tensor is exported."""
        return self.tensors == "*" or _matcher(self.tensors)(tensor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Result of an export.

    Attributes:
        counts: number of exported values by type, e.g. `{"scalars": 120}`; all 0 if nothing
            matched.
        left_out: one sentence for each type of data that the format cannot store, or that is
            damaged.
    """

    counts: dict[str, int]
    left_out: tuple[str, ...] = field(default=())
