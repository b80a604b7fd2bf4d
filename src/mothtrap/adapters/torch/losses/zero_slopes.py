"""Parameters that a loss reaches only through operations whose derivative is 0 everywhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from mothtrap.adapters.torch.job import graph
from mothtrap.adapters.torch.job.graph import Node, operation
from mothtrap.adapters.torch.losses.line_looks import Line, LineObserver
from mothtrap.core.facts.modules import ZeroSlope
from mothtrap.tracing.source.mentions import only_call

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

FLAT = frozenset({"sign", "sgn", "round", "floor", "ceil", "trunc"})
"""Operations whose derivative is 0."""
MAX_NAMED = 10
"""Maximum number of layers that are reported by name."""


@dataclass(slots=True)
class _Line(Line):
    """Backward passes of one line, and the inspected ones with parameters of zero slope."""

    found: int = 0
    operations: set[str] = field(default_factory=set)
    numbers: tuple[int, int] = (0, 0)
    names: tuple[str, ...] = ()


class ZeroSlopeObserver(LineObserver[_Line]):
    """Compares the parameters behind a loss with those that it reaches with a slope."""

    def __init__(self, job: Job) -> None:
        super().__init__(job, _Line)

    def _inspect(self, line: _Line, root: Node, place: str | None) -> None:
        line.looks += 1
        every = list(graph.nodes([root]))
        flat = {operation(node) for node in every} & FLAT
        if flat and len(every) < graph.MAX_NODES:
            self._add(line, root, every, flat)
        if line.is_complete and line.found:
            names = " and ".join(sorted(line.operations))
            behind, total = line.numbers
            self._job.recorder.notes.observe(
                ZeroSlope(
                    step=self._job.grouper.step,
                    looks=line.looks,
                    found=line.found,
                    operation=names,
                    parameters=behind,
                    of=total,
                    layers=line.names,
                    location=only_call(*line.operations) or place,
                )
            )

    def _add(self, line: _Line, root: Node, every: list[Node], flat: set[str]) -> None:
        reached = _leaves_with_slope(root)
        leaves = [node.variable for node in every if hasattr(node, "variable")]
        parameters = [leaf for leaf in leaves if isinstance(leaf, torch.nn.Parameter)]
        behind = [leaf for leaf in parameters if id(leaf) not in reached]
        if not behind:
            return
        line.found += 1
        line.operations |= flat
        line.numbers = _numbers(behind), _numbers(parameters)
        named = [self._job.book.parameter_name(leaf) for leaf in behind]
        paths = dict.fromkeys(name[1] for name in named if name is not None and name[1])
        line.names = tuple(paths)[:MAX_NAMED]


def _numbers(parameters: list[torch.nn.Parameter]) -> int:
    return sum(parameter.numel() for parameter in parameters)


def _leaves_with_slope(root: Node) -> set[int]:
    """Return the identities of the tensors that a loss reaches without a flat operation."""
    found: set[int] = set()
    waiting, known = [root], {root}
    while waiting:
        node = waiting.pop()
        if operation(node) in FLAT:
            continue
        variable = getattr(node, "variable", None)
        if variable is not None:
            found.add(id(variable))
        for child, _ in node.next_functions:
            if child is not None and child not in known:
                known.add(child)
                waiting.append(child)
    return found
