"""Networks that predict noise, as in diffusion models: does their input contain the noise?

The graph of the loss shows which data enter the network. They must contain the noise, and the
timestep must vary.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import torch

from mothtrap.adapters.torch.job import graph
from mothtrap.adapters.torch.job.graph import LossTerm, Node, operation
from mothtrap.adapters.torch.job.readable import is_plain
from mothtrap.adapters.torch.losses import loss_values
from mothtrap.adapters.torch.losses.entering_data import entering_data
from mothtrap.adapters.torch.losses.line_looks import Line, LineObserver
from mothtrap.adapters.torch.losses.loss_targets import latest_forward
from mothtrap.core.facts.targets import NoisePrediction
from mothtrap.statistics import torch as arithmetic

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job
    from mothtrap.adapters.torch.losses.forwards_seen import ForwardsSeen

Tensor: TypeAlias = torch.Tensor
Condition: TypeAlias = tuple[int, ...]
"""Digests of the inputs other than the data, each with one value for all rows of a batch."""

LOOK_AT = (1, 3, 5, 8, 12, 20, 30, 45, 60, 80)
"""Backward passes of a line at which its loss is inspected: small batches need several."""
REPORT_AT = (12, 30, 80)
"""Numbers of backward passes of a line after which it is reported."""
MAX_VALUES = 65536
"""Maximum number of compared values of a batch. Chosen by hand: 0.3 ms."""
LEAST_WIDTH = 16
"""Minimum number of values in a row of a diffusion model. Chosen by hand: narrower targets may be
those of a regression on standardized numbers."""
DEVIATIONS = 5.0
"""Number of standard errors within which moments equal those of standard normal noise. Chosen by
hand."""


@dataclass(slots=True)
class _Moments:
    """Sums of the first, second, and fourth powers of values."""

    count: int = 0
    sums: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])

    def add(self, values: Tensor) -> None:
        self.count += values.numel()
        for place, power in enumerate((1, 2, 4)):
            self.sums[place] += float(values.pow(power).sum())

    @property
    def are_normal(self) -> bool:
        """Return whether mean, variance, and kurtosis fit standard normal values."""
        if not self.count:
            return False
        first, second, fourth = (total / self.count for total in self.sums)
        error = DEVIATIONS / math.sqrt(self.count)
        return (
            abs(first) < error
            and abs(second - 1) < math.sqrt(2) * error
            and abs(fourth / second**2 - 3) < math.sqrt(24) * error
        )


@dataclass(slots=True)
class _Line(Line):
    """Backward passes of one line, and the results of their inspections.

    Attributes:
        noise: moments of the targets.
        data: moments of the compared parts of the input.
        products: sum over the passes of the correlation times the number of values.
        hidden: some data could not be compared.
        firsts: first target of each pass; repeated batches have equal ones.
        conditions: condition of each pass; None if its rows differ.
    """

    noise: _Moments = field(default_factory=_Moments)
    data: _Moments = field(default_factory=_Moments)
    products: float = 0.0
    hidden: bool = False
    firsts: set[float] = field(default_factory=set)
    conditions: set[Condition | None] = field(default_factory=set)

    @property
    def correlation(self) -> float | None:
        """Mean correlation of noise and input; None if it is unknown, or the data are noise."""
        is_unknown = self.hidden or self.data.are_normal
        return None if is_unknown else self.products / self.noise.count

    @property
    def has_constant_condition(self) -> bool:
        """Return whether there are other inputs, and all had one value in all passes."""
        return len(self.conditions) == 1 and self.conditions.isdisjoint({None, ()})


class DenoiserObserver(LineObserver[_Line]):
    """Compares the noise that a network should predict with the data that enter the network.

    Args:
        job: the job that trains the network.
        forwards: outputs of the latest forward passes.
    """

    def __init__(self, job: Job, forwards: ForwardsSeen) -> None:
        super().__init__(job, _Line, LOOK_AT)
        self._forwards = forwards

    def _inspect(self, line: _Line, root: Node, place: str | None) -> None:
        terms = graph.loss_terms(root)
        if len(terms) == 1 and terms[0].operation == "elementwise":
            with torch.no_grad():
                self._compare(line, terms[0])
        is_new = len(line.firsts) == line.looks  # otherwise batches are repeated
        if line.backwards in REPORT_AT and line.noise.are_normal and is_new:
            self._job.recorder.notes.observe(
                NoisePrediction(
                    step=self._job.grouper.step,
                    looks=line.looks,
                    values=line.noise.count,
                    correlation=line.correlation,
                    constant_condition=line.has_constant_condition,
                    location=place,
                )
            )

    def _compare(self, line: _Line, term: LossTerm) -> None:
        """Compare the target of a loss with each input of the network."""
        target = self._target(term)
        if target is None or target.ndim < 2 or not is_plain(target) or not target.numel():
            return
        if not target.is_floating_point() or target[0].numel() < LEAST_WIDTH:
            return
        noise = _some(target)
        line.looks += 1
        line.noise.add(noise)
        line.firsts.add(float(noise.reshape(-1)[0]))
        if not line.noise.are_normal:
            return
        conditions: list[int | None] = []
        has_data = False
        for place, values in enumerate(entering_data(term.node)):
            if _is_condition(values, target):
                conditions += _digests(place, values, len(target))
                continue
            parts = _parts_like(target, values)
            if not parts:
                line.hidden = True
                continue
            has_data = True
            line.data.add(_some(parts[0]))
            correlations = [_correlation(_some(part), noise) for part in parts]
            line.products += noise.numel() * max(correlations, key=abs)
        line.hidden |= not has_data
        known = tuple(one for one in conditions if one is not None)
        line.conditions.add(known if len(known) == len(conditions) else None)

    def _target(self, term: LossTerm) -> Tensor | None:
        """Return the target of a loss, also of a handwritten square of a difference."""
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


def _some(values: Tensor) -> Tensor:
    """Return the first rows of a batch, in single precision."""
    return values[: max(1, MAX_VALUES // max(1, values[0].numel()))].detach().float()


def _correlation(values: Tensor, noise: Tensor) -> float:
    left, right = (one.reshape(-1) - one.mean() for one in (values, noise))
    norms = float(left.norm() * right.norm())
    return float(left @ right) / norms if norms > 0 else 0.0


def _is_condition(values: Tensor, target: Tensor) -> bool:
    """Return whether an input, such as a timestep, has too few values to contain the noise."""
    if not values.numel() or values.ndim == 0:
        return False
    if not values.is_floating_point():
        return True
    width = values[0].numel()
    return width < target[0].numel() or _are_waves(values)


def _are_waves(values: Tensor) -> bool:
    """Return whether rows are sines and cosines of equal angles, as in a timestep embedding."""
    if values.ndim != 2 or values.shape[1] % 2:
        return False
    squares = values.float().square().sum(1)
    return bool((squares - values.shape[1] / 2).abs().max() < 1e-3 * values.shape[1])


def _digests(place: int, values: Tensor, rows: int) -> list[int | None]:
    """Return a list with the digest of a condition that is equal in all rows of a batch.

    The list contains None if the rows differ. It is empty for inputs without a value or a row for
    each example, such as the position numbers 0, 1, 2, ...
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


def _parts_like(target: Tensor, values: Tensor) -> list[Tensor]:
    """Return the parts of an input that have the shape of the target; empty if there is none.

    The noisy data may be the first or the last channels, with at most as many other channels.
    Inputs of another shape, such as patches of an image, may have another order.
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
