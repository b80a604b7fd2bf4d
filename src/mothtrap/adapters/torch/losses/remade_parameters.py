"""Layers that are created anew in each step, such as inside a `forward`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import nn

from mothtrap.adapters.torch.job import graph
from mothtrap.adapters.torch.job.graph import Node
from mothtrap.adapters.torch.losses.line_looks import Line, LineObserver
from mothtrap.core.facts.optimizers import UnownedParameter
from mothtrap.tracing.jobs.identity import ByIdentity

if TYPE_CHECKING:
    from collections.abc import Callable

    from mothtrap.adapters.torch.job.job import Job

LOOK_AT = (1, 2, 3, 5, 8, 12, 20)
"""Backward passes of a line at which the parameters behind its loss are compared."""

MATRIX = 2
"""Number of axes of the weight of a linear layer."""


@dataclass(slots=True)
class _Line(Line):
    """Backward passes of one line, the parameters behind it, and modules built so far."""

    births: int = 0
    ended: bool = False
    known: ByIdentity[torch.Tensor, bool] = field(default_factory=ByIdentity)


class RemadeParameterObserver(LineObserver[_Line]):
    """Finds parameters that a loss reaches in one step only, beside others that stay.

    Args:
        job: the job that computes the losses.
        is_owned: returns whether an optimizer has a parameter.
    """

    def __init__(self, job: Job, is_owned: Callable[[torch.Tensor], bool]) -> None:
        super().__init__(job, _Line, LOOK_AT)
        self._is_owned = is_owned

    def _inspect(self, line: _Line, root: Node, place: str | None) -> None:
        book = self._job.book
        line.looks += 1
        built, line.births = book.births - line.births, book.births
        if line.ended or (line.looks > 1 and not built):
            line.ended = True  # most models are built once
            return
        leaves, complete = graph.leaves_behind(root)
        parameters = [leaf for leaf in leaves if isinstance(leaf, nn.Parameter)]
        new = [one for one in parameters if one not in line.known]
        for one in new:
            line.known[one] = True
        if line.looks == 1:
            return
        stays = len(new) < len(parameters)
        line.ended = not (complete and new and stays) or any(map(self._is_owned, new))
        if not line.ended and line.backwards == LOOK_AT[-1]:
            self._report(line, new, built, place)

    def _report(self, line: _Line, new: list[nn.Parameter], built: int, place: str | None) -> None:
        births = list(self._job.book.latest_births)[-built:]
        kinds = {kind: place for place, kind in births}
        weight = max(new, key=lambda one: one.ndim)
        usual = "Conv" if weight.ndim > MATRIX else "Linear"
        fitting = [kind for kind in kinds if kind.startswith(usual)]
        kind = next(iter(fitting or kinds), "layer")
        self._job.recorder.notes.observe(
            UnownedParameter(
                step=self._job.grouper.step,
                name=f"{kind}.weight",
                module=kind,
                shape=tuple(weight.shape),
                reached_steps=line.backwards,
                changed=False,
                made_anew=line.backwards,
                location=kinds.get(kind) or place,
            )
        )
