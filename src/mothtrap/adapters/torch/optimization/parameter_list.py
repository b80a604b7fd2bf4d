"""Parameters of an optimizer, with the properties that are needed at every step."""

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
    """An optimizer's parameters in order, with data that is valid while they are unchanged.

    Attributes:
        parameters: strong references, as in the optimizer.
        readable: positions and parameters whose values and gradients can be read.
        gradient_ids: tensor ids of their gradients; None if not queried yet.
        values: by kind of tensor, the tensor ids of all parameters, and the parameters of this
            kind.
        names: names of all parameters, once they are final.
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
        """Return whether an optimizer holds exactly these parameters, in this order."""
        own: list[torch.Tensor] = []
        for group in optimizer.param_groups:
            own += group["params"]
        return len(own) == len(self.parameters) and all(map(operator.is_, own, self.parameters))

    def stepped(self, optimizer: Optimizer) -> None:
        """Record that an optimizer has changed these parameters, using torch's threads."""
        largest = self._largest
        is_torchs = type(optimizer).__module__.startswith("torch.optim.")
        if is_torchs and largest is not None and largest.grad is not None:
            TEAM.met(largest)


def parameters(optimizer: Optimizer) -> Iterator[torch.Tensor]:
    """Return every parameter of an optimizer."""
    groups: Iterable[Iterable[torch.Tensor]] = (g["params"] for g in optimizer.param_groups)
    return chain.from_iterable(groups)
