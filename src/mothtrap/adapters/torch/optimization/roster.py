"""The parameters of an optimizer, with what is asked of them at every step."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import torch
from torch.optim import Optimizer

from mothtrap.core.tensors import Kind


class Roster:
    """Parameters in order, and what was found out of them: for as long as they are these.

    Attributes:
        parameters: held strongly, as the optimizer does.
        gradient_ids: numbers of their gradients; None of one that was not asked for yet.
        values: by kind, numbers of their values, and those that are of the kind.
        names: of all, once they are final.
    """

    def __init__(self, own: Sequence[torch.Tensor]) -> None:
        self.parameters = own
        self.gradient_ids: list[int | None] = [None] * len(own)
        self.values: dict[Kind, tuple[list[int], list[torch.Tensor]]] = {}
        self.names: list[tuple[str, torch.Tensor]] | None = None

    def is_of(self, optimizer: Optimizer) -> bool:
        """Whether an optimizer holds just these parameters, in this order."""
        own = [*parameters(optimizer)]
        return len(own) == len(self.parameters) and all(map(operator.is_, own, self.parameters))


def parameters(optimizer: Optimizer) -> Iterator[torch.Tensor]:
    """Every parameter that an optimizer holds."""
    groups: Iterable[Iterable[torch.Tensor]] = (g["params"] for g in optimizer.param_groups)
    return chain.from_iterable(groups)
