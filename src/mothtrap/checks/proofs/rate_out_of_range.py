"""PRE207: the learning rate is far from the rates with which the loss falls."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from mothtrap.checks.check import Check
from mothtrap.checks.step import Array, Change, Step
from mothtrap.checks.subject import Subject
from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.found import Found
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold

FIRST, GROWTH, SWEPT = 1e-4, 1.2, 100
"""A sweep begins at this share of the script's learning rate, and multiplies it by the growth in
each of these steps. So it ends at 8,000 times the script's rate. Chosen by hand."""
ORDERS = (10, 7, 4)
"""Batches that a sweep repeats, each in a different order."""
WINDOW = 5
"""Steps whose median is compared, since batches differ; chosen by hand."""


@frozen
class RateOutOfRange(Check):
    """The learning rate is far from the rates at which the loss falls.

    What it detects:
        A learning rate at which the loss does not fall, or hardly falls, although it falls at a
        much lower or a much higher rate. The check also measures the band of rates that work.

    Why it matters:
        The learning rate is the option that most often decides whether training succeeds. If its
        order of magnitude is wrong, the whole run is wasted.

    Fires:
        Warning when, after `steps` steps on the recorded batches, the loss is above `stays` times
        the first loss, while with `lower` times the rate it is below `falls` times the first loss
        and less than half as high. Warning when the loss of the watched steps rises above `jumps`
        times the first loss, and `steps` steps from the initial weights with `lower` times the rate
        reach half of the loss that the script's rate reaches. Warning when the loss falls by less
        than `slow` of the first loss in `long` steps on one batch, and falls below `learns` times
        the first loss with `higher` times the rate (or with a quarter, the square, or ten times the
        square of that factor). For the band, three sweeps raise the rate in each step. The band
        begins where the loss has fallen by `slow`, and ends where it is `diverged` times the first
        loss.

    Stays quiet:
        Rates that rise in the watched steps, as in a warm-up: then only the band is measured.
        Low rates of a model whose weights were loaded. Negative losses; several optimizers that
        step in turn; Keras schedules; trials that make fewer than `least_steps` steps in `seconds`.
        Sweeps whose bands differ by more than `agree` times give no band.

    What to do:
        - Choose a rate within the band, about a tenth of its upper end.

    Example:
        torch.optim.Adam(model.parameters(), lr=0.3)

    References:
        Smith 2017, Cyclical learning rates for training neural networks,
        https://arxiv.org/abs/1506.01186
    """

    code = "PRE207"
    title = "the learning rate is out of range"
    uses = ("step", "trials")
    passed = "the learning rate works"
    costs = 4
    explains = ("loss_not_decreasing", "stuck_at_chance", "cannot_overfit", "update_ratio")
    steps: int = threshold(80, unit="steps", source="chosen by hand")
    least_steps: int = threshold(40, unit="steps", source="chosen by hand")
    stays: float = threshold(0.97, unit="of the first loss", source="chosen by hand")
    falls: float = threshold(0.85, unit="of the first loss", source="chosen by hand")
    long: int = threshold(200, unit="steps", source="as in PRE104")
    learns: float = threshold(0.5, unit="of the first loss", source="chosen by hand")
    slow: float = threshold(0.1, unit="of the first loss", source="chosen by hand")
    lower: float = threshold(0.03, unit="of the rate", source="chosen by hand")
    higher: float = threshold(100.0, unit="times the rate", source="chosen by hand")
    jumps: float = threshold(3.0, unit="times the first loss", source="chosen by hand")
    diverged: float = threshold(2.0, unit="times the first loss", source="chosen by hand")
    agree: float = threshold(30.0, unit="times", source="chosen by hand")
    seconds: float = threshold(15.0, unit="seconds", source="chosen by hand")

    def run(self, subject: Subject) -> Iterable[Found]:
        """Compare the script's rate with others."""
        step = subject.step
        if not step.rates or not step.rates[-1] > 0:
            raise NotApplicable("the learning rate is not known, or is a Keras schedule")
        rate = step.rates[-1]
        own = self._trial(subject, Change(batches=ORDERS[0]))
        first = _first(step, own)
        if first == 0:
            raise NotApplicable("the loss is 0 from the start")
        band = self._band(subject)
        subject.figures["rate"] = rate
        if band is not None:
            begin, end = band[0] * rate, band[1] * rate
            subject.figures["the loss falls from"] = begin
            if np.isfinite(end):
                subject.figures["and diverges from"] = end
        level = _level(own)
        found = []
        if not level <= self.stays * first:
            found = list(self._too_high(subject, rate, first, level))
        if not found and self._jumps(step, own):
            found = list(self._overshoots(subject, rate))
        if not found and np.isfinite(level) and level > (1 - self.slow) * first:
            found = [] if step.loaded else list(self._too_low(subject, rate))
        yield from found

    def _too_high(
        self, subject: Subject, rate: float, first: float, level: float
    ) -> Iterable[Found]:
        other = _level(self._trial(subject, Change(batches=ORDERS[0], rate=self.lower)))
        if other < self.falls * first and not other > 0.5 * level:
            yield self._found(subject, rate, self.lower, (first, level, other))

    def _jumps(self, step: Step, own: Array) -> bool:
        """Return whether the loss has jumped in the watched steps, or at the start of a trial."""
        seen = np.array(step.losses if len(step.losses) > 1 else own, dtype=float)
        return bool(np.isfinite(seen[0])) and not np.max(seen) <= self.jumps * seen[0]

    def _overshoots(self, subject: Subject, rate: float) -> Iterable[Found]:
        own = self._trial(subject, Change(batches=ORDERS[0], fresh=True))
        change = Change(batches=ORDERS[0], rate=self.lower, fresh=True)
        first, level, other = float(own[0]), _level(own), _level(self._trial(subject, change))
        if other < self.falls * first and not other > 0.5 * level:
            yield self._found(subject, rate, self.lower, (first, level, other), float(own.max()))

    def _too_low(self, subject: Subject, rate: float) -> Iterable[Found]:
        step = subject.step
        if step.rates[-1] > step.rates[0]:
            raise NotEnoughData("the learning rate still rises, as in a warm-up")
        factor = max(1.0, step.peak_rate / rate)
        own = self._trial(subject, Change(rate=factor), self.long)
        first, level = float(own[0]), _level(own)
        if level <= (1 - self.slow) * first:
            return
        for higher in (self.higher, self.higher / 4, self.higher**2, self.higher**2.5):
            losses = self._trial(subject, Change(rate=factor * higher), self.long)
            if _level(losses) < self.learns * first:
                found = (first, level, _level(losses))
                yield self._found(subject, rate * factor, higher, found)
                return
        raise NotEnoughData(
            f"the loss falls by less than {self.slow:.0%} in {self.long} steps on one batch, and "
            "higher learning rates help little"
        )

    def _found(
        self,
        subject: Subject,
        rate: float,
        factor: float,
        losses: tuple[float, float, float],
        jump: float = 0.0,
    ) -> Found:
        first, level, other = losses
        high = factor < 1
        steps = self.steps if high else self.long
        loss = subject.step.loss
        return Found(
            step=0,
            severity="warning",
            message=f"in {steps} steps with the learning rate {rate:.3g}, the loss goes from "
            f"{first:.4g} "
            + (f"over {jump:.4g} " if jump else "")
            + f"to {level:.4g}; with {factor * rate:.3g}, it falls to {other:.4g}",
            location=loss.location if loss is not None else None,
            fixes=(f"{'Lower' if high else 'Raise'} the learning rate.",),
            evidence={"rate": rate, "loss": level, "other": other, "factor": factor},
        )

    def _trial(self, subject: Subject, change: Change, steps: int = 0) -> Array:
        """Return the losses of a trial.

        Raises:
            NotEnoughData: the trial is too short.
            NotApplicable: a loss is negative, or there is none.
        """
        limit = min(self.seconds, subject.left_s / 3)
        trial = subject.step.train(change, steps or self.steps, limit)
        losses = trial.losses
        if len(losses) < self.least_steps:
            why = f": {trial.ended}" if trial.ended else ""
            raise NotEnoughData(
                f"the trial made {len(losses)} steps; needs {self.least_steps}{why}"
            )
        if np.isnan(losses).all() or np.nanmin(losses) < 0:
            raise NotApplicable("the step has no loss that is known to be positive")
        return losses

    def _band(self, subject: Subject) -> tuple[float, float] | None:
        """Return where the loss falls and where it diverges, as factors of the rate."""
        found = []
        for batches in ORDERS:
            change = Change(batches=batches, rate=FIRST, sweep=GROWTH, scheduled=False)
            limit = min(self.seconds, subject.left_s / 4)
            losses = subject.step.train(change, SWEPT, limit).losses
            if len(losses) >= SWEPT // 2:
                found.append(self._band_of(losses))
        begins = [begin for begin, _ in found if np.isfinite(begin)]
        if len(begins) < 2 or max(begins) > self.agree * min(begins):
            return None
        return float(np.median(begins)), float(np.median([end for _, end in found]))

    def _band_of(self, losses: Array) -> tuple[float, float]:
        """Return the band of one sweep; infinite where the loss does not fall, or diverge."""
        first = float(np.median(losses[: 2 * WINDOW]))
        running = [_middle(losses[n : n + WINDOW]) for n in range(len(losses) - WINDOW + 1)]
        fallen = np.flatnonzero(np.array(running) < (1 - self.slow) * first)
        risen = np.flatnonzero(~(np.array(running) < self.diverged * first))
        begin = FIRST * GROWTH ** (fallen[0] + WINDOW // 2) if len(fallen) else np.inf
        end = FIRST * GROWTH ** (risen[0] + WINDOW // 2) if len(risen) else np.inf
        return float(begin), float(end)


def _middle(losses: Array) -> float:
    """Return the median; infinite if most losses are not finite."""
    return float(np.median(np.where(np.isfinite(losses), losses, np.inf)))


def _level(losses: Array) -> float:
    """Return the median of the last quarter; infinite if most of it is not finite."""
    return _middle(losses[-(len(losses) // 4) :])


def _first(step: Step, losses: Array) -> float:
    """Return the loss before training, or the loss at the start of the trial if it is lower."""
    begin = float(losses[0]) if np.isfinite(losses[0]) else np.inf
    known = step.loss is not None and step.loss.alone and np.isfinite(step.loss.value)
    return min(begin, step.loss.value) if step.loss is not None and known else begin
