"""Losses of evaluations, by the call site that computes them."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field
from types import CodeType, FrameType

import torch

from mothtrap.adapters.torch.losses.constant_baseline import add_targets
from mothtrap.adapters.torch.losses.loss_arguments import SYMMETRIC, LossArgumentsObserver
from mothtrap.adapters.torch.losses.loss_calls import LossInputs
from mothtrap.core.facts.evaluations import Evaluation
from mothtrap.core.steps import Mode
from mothtrap.tracing.describe.constant_baseline import ConstantBaseline
from mothtrap.tracing.jobs.evaluations import TrainingMeans
from mothtrap.tracing.source import frames

GUESSED = 3
"""Number of evaluations of a site whose targets are inspected; they are the same every time."""
GUESSED_CALLS = 64
"""Maximum number of calls in an evaluation whose targets are inspected."""
MAX_SITES = 64
MAX_FRAMES = 8

Site = tuple[tuple[str, int, int], ...]
"""File, line and instruction of every user frame, innermost first, because two calls can be on one
line.
"""


@dataclass(slots=True)
class _Collected:
    """Values that one site has computed in the current evaluation."""

    operation: str
    values: list[torch.Tensor] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    total: float = 0.0
    weight: int = 0
    calls: int = 0

    def fold(self) -> None:
        """Add the collected losses to the sums, with one transfer from a device."""
        if self.values:
            host = torch.stack([value.double() for value in self.values]).tolist()
            self.total += sum(v * n for v, n in zip(host, self.rows, strict=True))
            self.weight += sum(self.rows)
            self.values, self.rows = [], []


@dataclass(slots=True)
class _Known:
    """State of one site of evaluation losses."""

    label: str
    location: str | None
    number: int = 0
    first: float = math.nan
    best: float = math.inf
    best_step: int = 0
    guess: ConstantBaseline = field(default_factory=ConstantBaseline)
    trained: dict[str, tuple[float, int]] = field(default_factory=dict)


class EvaluatedLosses:
    """Combines the losses of an evaluation, with one value per call site.

    Attributes:
        arguments: the order of the arguments in training.
    """

    arguments: LossArgumentsObserver | None = None

    def __init__(self) -> None:
        self._known: dict[Site, _Known] = {}
        self._collected: dict[Site, _Collected] = {}
        self._latest: _Collected | None = None
        self._trained = TrainingMeans()
        self.trained = self._trained.add

    def add(self, value: torch.Tensor, inputs: LossInputs, site: Site) -> None:
        """Record a loss computed in an evaluation.

        Args:
            value: mean loss per row.
            inputs: inputs of the loss; the target may be without values.
            site: site of the call.
        """
        if site not in self._known and len(self._known) >= MAX_SITES:
            return
        known = self._known.get(site) or self._new(site)
        collected = self._collected.get(site)
        if collected is None:
            collected = self._collected[site] = _Collected(inputs.name)
        if len(collected.values) >= GUESSED_CALLS:
            collected.fold()
        collected.values.append(value)
        collected.rows.append(inputs.rows)
        collected.calls += 1
        self._latest = collected
        has_values = inputs.target is None or not inputs.target.is_meta
        if self._are_swapped(inputs):
            known.guess.set_unknown()
        elif known.number < GUESSED and collected.calls <= GUESSED_CALLS and has_values:
            add_targets(known.guess, inputs)

    def replace_latest(self, value: torch.Tensor) -> None:
        """Replace the latest computed loss with the loss that the model returned."""
        if self._latest is not None and self._latest.values:
            self._latest.values[-1] = value.detach().reshape(()).clone()

    def told(self, step: int) -> list[Evaluation]:
        """Close the evaluation; return the result of each call site."""
        collected, self._collected, self._latest = self._collected, {}, None
        return [self._report(self._known[site], what, step) for site, what in collected.items()]

    def _are_swapped(self, inputs: LossInputs) -> bool:
        """Return whether the second argument is probably the prediction, as in training."""
        swapped = self.arguments is not None and self.arguments.symmetric_swapped
        return swapped and inputs.name in SYMMETRIC

    def _new(self, site: Site) -> _Known:
        places = [frames._place(filename, line) for filename, line, _ in site]
        taken = {known.label for known in self._known.values()}
        names = [" from ".join(places[:count]) for count in range(min(2, len(places)), 9)]
        numbered = [f"{names[-1]} ({number})" for number in range(2, MAX_SITES + 2)]
        label = next(name for name in (*names, *numbered) if name not in taken)
        known = self._known[site] = _Known(label, places[0] if places else None)
        return known

    def _report(self, known: _Known, collected: _Collected, step: int) -> Evaluation:
        collected.fold()
        value = collected.total / max(1, collected.weight)
        if not known.number:
            known.first = value
        if value < known.best:
            known.best, known.best_step = value, step
        target_mean, target_std = known.guess.moments()
        told = Evaluation(
            step=step,
            mode=Mode.EVAL,
            site=known.label,
            operation=collected.operation,
            value=value,
            calls=collected.calls,
            rows=collected.weight,
            number=known.number,
            first=known.first,
            best=known.best,
            best_step=known.best_step,
            location=known.location,
            guess=known.guess.loss(),
            label_counts=known.guess.label_counts() if known.number < GUESSED else None,
            target_mean=target_mean,
            target_std=target_std,
            train_losses=self._trained.since(known.trained),
        )
        known.number += 1
        if known.number < GUESSED:
            known.guess = ConstantBaseline()
        known.trained = self._trained.mark()
        return told


def user_site() -> Site:
    """Return the running line and its callers, as far as they are user code."""
    found: list[tuple[str, int, int]] = []
    frame: FrameType | None = frames.user_frame()
    while frame is not None and len(found) < MAX_FRAMES:
        if not found or frames.is_users(frame):
            code = frame.f_code
            found.append((code.co_filename, frame.f_lineno, _expression(code, frame.f_lasti)))
        frame = frame.f_back
    return tuple(found)


@functools.lru_cache(maxsize=4096)
def _expression(code: CodeType, place: int) -> int:
    """Return the first of the adjacent instructions that compute the running expression.

    Python replaces the instructions of a call after some calls. Then `f_lasti` points to another
    part of the same call.
    """
    positions, first = list(code.co_positions()), place // 2
    while first > 0 and positions[first - 1] == positions[first]:
        first -= 1
    return first
