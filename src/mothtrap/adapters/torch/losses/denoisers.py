"""Networks that predict noise, as in diffusion models: their noise and data, and the timestep.

The graph of the loss shows which data enter the network.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import torch

from mothtrap.adapters.torch.job import graph
from mothtrap.adapters.torch.job.graph import LossTerm, operation
from mothtrap.adapters.torch.job.readable import is_plain
from mothtrap.adapters.torch.losses import loss_values
from mothtrap.adapters.torch.losses.entering_data import entering_data
from mothtrap.adapters.torch.losses.line_looks import Line, LineLooks
from mothtrap.adapters.torch.losses.loss_targets import latest_forward
from mothtrap.core.facts.losses import NoisePrediction
from mothtrap.statistics import torch as arithmetic

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job
    from mothtrap.adapters.torch.job.observers import BackwardRoot
    from mothtrap.adapters.torch.losses.forwards_seen import ForwardsSeen

Tensor: TypeAlias = torch.Tensor

LOOK_AT = (1, 3, 5, 8, 12, 20, 30, 45, 60, 80)
"""Backward passes of a line at which its loss is inspected: small batches need several."""
REPORT_AT = (12, 30, 80)
"""Numbers of backward passes of a line after which it is reported."""
MAX_VALUES = 65536
"""Maximum number of compared values of a batch. Chosen by hand: 0.3 ms."""
LEAST_WIDTH = 16
"""Values of a row below which it is no data of a diffusion model: targets of a regression may be
normal, too."""
DEVIATIONS = 5.0
"""Standard errors within which numbers are those of standard normal noise. Chosen by hand."""


@dataclass(slots=True)
class _Moments:
    """Sums of the powers of values."""

    count: int = 0
    sums: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])

    def add(self, values: Tensor) -> None:
        self.count += values.numel()
        for place, power in enumerate((1, 2, 4)):
            self.sums[place] += float(values.pow(power).sum())

    @property
    def are_normal(self) -> bool:
        """Return whether mean, variance, and kurtosis are those of standard normal values."""
        first, second, fourth = (total / self.count for total in self.sums)
        error = DEVIATIONS / math.sqrt(self.count)
        return (
            abs(first) < error
            and abs(second - 1) < math.sqrt(2) * error
            and abs(fourth / second**2 - 3) < math.sqrt(24) * error
        )


@dataclass(slots=True)
class _Line(Line):
    """Backward passes of one line, and what the inspected ones showed.

    `targets` and `data` are the moments of the compared values; `products` is the sum of the
    correlations, each times its number of values. `hidden`: some data could not be compared.
    `conditions` has a digest of the other inputs of each pass; None if their rows differ.
    """

    targets: _Moments = field(default_factory=_Moments)
    data: _Moments = field(default_factory=_Moments)
    products: float = 0.0
    hidden: bool = False
    firsts: set[float] = field(default_factory=set)
    conditions: set[tuple[int, ...] | None] = field(default_factory=set)


class DenoiserObserver:
    """Compares the noise that a network should predict with the data that it gets.

    Args:
        job: the job that trains the network.
        forwards: outputs of the latest forward passes.
    """

    def __init__(self, job: Job, forwards: ForwardsSeen) -> None:
        self._job, self._forwards = job, forwards
        self._lines = LineLooks(_Line, LOOK_AT)

    def loss_began(self, loss: BackwardRoot) -> None:
        """Inspect the graph of a loss if due."""
        line = self._lines.due(loss)
        if line is None or loss.root.grad_fn is None:
            return
        terms = graph.loss_terms(loss.root.grad_fn)
        if len(terms) == 1 and terms[0].operation == "elementwise":
            with torch.no_grad():
                self._look(line, terms[0])
        if line.backwards in REPORT_AT and line.targets.count and line.targets.are_normal:
            self._report(line, loss.place)

    def _look(self, line: _Line, term: LossTerm) -> None:
        target = self._target(term)
        if target is None or target.ndim < 2 or not is_plain(target) or not target.numel():
            return
        if not target.is_floating_point() or target[0].numel() < LEAST_WIDTH:
            return
        noise = _some(target)
        line.looks += 1
        line.targets.add(noise)
        line.firsts.add(float(noise.reshape(-1)[0]))
        if not line.targets.are_normal:
            return
        conditions: list[int | None] = []
        judged = False
        for place, values in enumerate(entering_data(term.node)):
            if _is_smaller(values, target):
                conditions += _condition(place, values, len(target))
                continue
            compared = _aligned(values, target)
            line.hidden |= not compared
            if compared:
                judged = True
                line.data.add(_some(compared[0]))
                every = [_correlation(_some(one), noise) for one in compared]
                line.products += noise.numel() * max(every, key=abs)
        line.hidden |= not judged
        known = tuple(one for one in conditions if one is not None)
        line.conditions.add(known if len(known) == len(conditions) else None)

    def _target(self, term: LossTerm) -> Tensor | None:
        """Return the target of a loss, also of a hand-written square of a difference."""
        checkpointed = self._forwards.recomputes
        saved = loss_values.target(term, checkpointed=checkpointed)
        if saved is not None or checkpointed or operation(term.node) != "pow":
            return saved
        difference = loss_values.saved_prediction(term)
        output = latest_forward(self._forwards.retained, term.node).output
        if difference is None or output is None or output.shape != difference.shape:
            return None
        if output.device != difference.device:
            return None
        return output + difference if term.target_first else output - difference

    def _report(self, line: _Line, place: str | None) -> None:
        if len(line.firsts) < line.looks:
            return  # the same targets come again
        dummy = line.data.count > 0 and line.data.are_normal
        constant = len(line.conditions) == 1 and line.conditions.isdisjoint({None, ()})
        self._job.recorder.notes.observe(
            NoisePrediction(
                step=self._job.grouper.step,
                looks=line.looks,
                values=line.targets.count,
                correlation=(None if line.hidden or dummy else line.products / line.targets.count),
                constant_condition=constant,
                location=place,
            )
        )


def _some(values: Tensor) -> Tensor:
    """Return the first rows of a batch, in single precision."""
    return values[: max(1, MAX_VALUES // max(1, values[0].numel()))].detach().float()


def _correlation(values: Tensor, noise: Tensor) -> float:
    left, right = (one.reshape(-1) - one.mean() for one in (values, noise))
    norms = float(left.norm() * right.norm())
    return float(left @ right) / norms if norms > 0 else 0.0


def _is_smaller(values: Tensor, target: Tensor) -> bool:
    """Return whether an input is a condition, with too few values to contain the noise."""
    if not values.numel() or values.ndim == 0:
        return False
    if not values.is_floating_point():
        return True
    width = values[0].numel()
    return width < target[0].numel() or _are_waves(values)


def _are_waves(values: Tensor) -> bool:
    """Return whether rows are sines and cosines of the same angles, as of a timestep."""
    if values.ndim != 2 or values.shape[1] % 2:
        return False
    squares = values.float().square().sum(1)
    return bool((squares - values.shape[1] / 2).abs().max() < 1e-3 * values.shape[1])


def _condition(place: int, values: Tensor, rows: int) -> list[int | None]:
    """Return a digest of an input with one value for all rows of a batch.

    It contains None if the rows differ. Empty for tables of positions and other inputs that are not
    one value, or one row, per example.
    """
    if not values.is_floating_point():
        flat = values.reshape(-1)
        values = flat[:, None]
        if len(flat) > 1 and torch.equal(flat, torch.arange(len(flat), device=flat.device)):
            return []
    if len(values) not in (1, rows):
        return []
    if not bool((values == values[:1]).all()):
        return [None]
    return [hash((place, arithmetic.digest(values[:1].contiguous())))]


def _aligned(values: Tensor, target: Tensor) -> list[Tensor]:
    """Return the parts of an input that have the shape of the target; empty if there is none.

    Other data may be joined to them along the second axis, if they are not more. Data of another
    shape may be in another order, such as patches of an image.
    """
    if values.shape == target.shape:
        return [values]
    if values.ndim != target.ndim or len(values) != len(target) or not values.numel():
        return []
    size, whole = target.shape[1], values.shape[1]
    most = 2 * size if values.ndim > 2 else size + size // 2
    if not size < whole <= most or values.shape[2:] != target.shape[2:]:
        return []
    return [values[:, :size], values[:, whole - size :]]
