"""The parameters of an optimizer, with what is asked of them at every step."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import torch
from torch.optim import Optimizer

from mothtrap.statistics.torch.in_place import PLAIN
from mothtrap.statistics.torch.plain import has_own_dispatch
from mothtrap.statistics.torch.team import TEAM


class OptimizerParameters:
    """Parameters in order, and what was found out of them: for as long as they are these.

    Attributes:
        parameters: held strongly, as the optimizer does.
        readable: places and parameters whose values and gradients can be read.
        gradient_ids: numbers of their gradients; None of one that was not asked for yet.
        values: by kind, numbers of their values, and those that are of the kind.
        names: of all, once they are final.
    """

    def __init__(self, own: Sequence[torch.Tensor]) -> None:
        self.parameters = own
        self.readable = [(i, p) for i, p in enumerate(own) if not has_own_dispatch(p)]
        self.gradient_ids: list[int | None] = [None] * len(own)
        self.values: dict[str, tuple[list[int], list[torch.Tensor]]] = {}
        self.names: list[tuple[str, torch.Tensor]] | None = None
        plain = (parameter for parameter in own if type(parameter) in PLAIN)
        self._largest = max(plain, key=torch.Tensor.numel, default=None)

    def is_of(self, optimizer: Optimizer) -> bool:
        """Return whether an optimizer holds just these parameters, in this order."""
        own: list[torch.Tensor] = []
        for group in optimizer.param_groups:
            own += group["params"]
        return len(own) == len(self.parameters) and all(map(operator.is_, own, self.parameters))

    def stepped(self, optimizer: Optimizer) -> None:
        """An optimizer has changed these: with all threads of torch's, where one is large."""
        largest = self._largest
        is_torchs = type(optimizer).__module__.startswith("torch.optim.")
        if is_torchs and largest is not None and largest.grad is not None:
            TEAM.met(largest)


def parameters(optimizer: Optimizer) -> Iterator[torch.Tensor]:
    """Every parameter that an optimizer holds."""
    groups: Iterable[Iterable[torch.Tensor]] = (g["params"] for g in optimizer.param_groups)
    return chain.from_iterable(groups)
