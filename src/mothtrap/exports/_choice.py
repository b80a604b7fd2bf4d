"""Selection of a run's data for an export, and the export's result."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

from mothtrap.core.tensors import TensorInfo
from mothtrap.reader.tensors.choosing import matching

_matcher = functools.lru_cache(matching)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The part of a run that is exported; by default all of it.

    Attributes:
        tensors: as in `Run.tensors`: a glob over names and module paths (`blocks.0.*`), with
            a kind before it (`gradients:*`), or `re:` and a regular expression.
        begin: the first step.
        end: the step behind the last one; None = no end.
    """

    tensors: str = "*"
    begin: int = 0
    end: int | None = None

    def has_step(self, step: int) -> bool:
        """Return whether a step is chosen."""
        return step >= self.begin and (self.end is None or step < self.end)

    def has_tensor(self, tensor: TensorInfo) -> bool:
        """Return whether a tensor is chosen."""
        return self.tensors == "*" or _matcher(self.tensors)(tensor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Result of an export.

    Attributes:
        counts: how many of what, e.g. `{"scalars": 120}`; all zero = nothing was chosen.
        left_out: sentences on what the format cannot hold.
    """

    counts: dict[str, int]
    left_out: tuple[str, ...] = field(default=())
