"""Terms of a loss that train nothing: without a graph, or without updated parameters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch.optim import Optimizer

from mothtrap.adapters.torch.job import graph
from mothtrap.adapters.torch.job.readable import is_plain
from mothtrap.adapters.torch.losses.line_looks import Line, LineLooks
from mothtrap.adapters.torch.optimization.parameter_list import parameters
from mothtrap.adapters.torch.source.names import NOTHING
from mothtrap.adapters.torch.source.summands import Summand, summands
from mothtrap.core.facts.loss_terms import DetachedTerm
from mothtrap.tracing.source import frames

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job
    from mothtrap.adapters.torch.job.observers import BackwardRoot


@dataclass(slots=True)
class _Term:
    """A term that trained nothing in any inspection; `values` are its numeric values.

    `equal` are the names of the tensors that it compares, if they were equal in every inspection.
    """

    location: str
    equal: tuple[str, str] | None
    values: list[float] = field(default_factory=list)
    looks: int = 0
    without_graph: int = 0


@dataclass(slots=True)
class _Line(Line):
    """Backward passes of one line, and the terms of their losses."""

    terms: dict[str, _Term] = field(default_factory=dict)


@dataclass(slots=True)
class _Look:
    """The terms of the loss of the step in progress.

    `reached` contains the parameters that each term reaches; None if they are unknown. `whole`
    contains those that the loss reaches.
    """

    line: _Line
    terms: list[Summand]
    reached: list[frozenset[int] | None]
    whole: frozenset[int] | None


class DetachedTermObserver:
    """Finds the terms of a loss in the source, and the parameters of each in the graph."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._lines = LineLooks(_Line)
        self._look: _Look | None = None
        self._stepped: set[int] = set()
        self._names: list[str] = []

    def loss_began(self, loss: BackwardRoot) -> None:
        """Read the terms of a loss if due."""
        self._look = None
        line = self._lines.due(loss)
        if line is None:
            return
        frame = frames.user_frame()
        found = summands(frame) if frame is not None else []
        if found:
            reached = [_reached(one.value) for one in found]
            whole = _reached(loss.root) if any(one.value is NOTHING for one in found) else None
            self._look = _Look(line, found, reached, whole)
            self._stepped.clear()
            self._names.clear()

    def stepping(self, optimizer: Optimizer) -> None:
        """Record the parameters that an optimizer updates after the loss."""
        if self._look is not None:
            self._stepped.update(id(p) for p in parameters(optimizer))
            self._names.append(type(optimizer).__name__)

    def closed(self, step: int) -> None:
        """Compare the parameters that terms reach with the stepped parameters."""
        look, self._look = self._look, None
        if look is None or not self._stepped:
            return
        line = look.line
        idle = {
            one.code: (one, reached)
            for one, reached in zip(look.terms, look.reached, strict=True)
            if reached is not None and reached.isdisjoint(self._stepped)
        }
        every = (*look.reached, look.whole)
        trains = any(r is not None and not r.isdisjoint(self._stepped) for r in every)
        if not trains:
            return
        if line.looks:
            line.terms = {code: term for code, term in line.terms.items() if code in idle}
        else:
            line.terms = {code: _Term(one.location, one.equal) for code, (one, _) in idle.items()}
        line.looks += 1
        for code, term in line.terms.items():
            one, reached = idle[code]
            term.looks += 1
            term.without_graph += not reached
            term.values += _numbers(one.value)
            term.equal = term.equal if term.equal == one.equal else None
        if line.is_complete:
            self._report(step, line)

    def _report(self, step: int, line: _Line) -> None:
        for code, term in line.terms.items():
            self._job.recorder.notes.observe(
                DetachedTerm(
                    step=step,
                    term=code,
                    looks=term.looks,
                    without_graph=term.without_graph,
                    values=tuple(term.values),
                    optimizers=tuple(dict.fromkeys(self._names)),
                    equal=term.equal,
                    location=term.location,
                )
            )


def _reached(value: Any) -> frozenset[int] | None:
    """Return the identities of the parameters that a term trains; None if that is unknown."""
    if value is NOTHING:
        return None
    if not isinstance(value, torch.Tensor):
        return frozenset()
    if value.grad_fn is None:
        return frozenset({id(value)} if value.requires_grad else ())
    found, complete = graph.leaves_behind(value.grad_fn)
    return frozenset(id(leaf) for leaf in found) if complete else None


def _numbers(value: Any) -> Iterator[float]:
    if not isinstance(value, torch.Tensor):
        yield float(value)
    elif is_plain(value) and value.numel():
        yield float(value.detach().double().mean())
