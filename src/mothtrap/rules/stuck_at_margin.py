"""LOS422: a loss with a margin stays at its margin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.losses import MarginLoss
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._effects import UNLEARNED


@dataclass(frozen=True)
class StuckAtMargin(Rule):
    """A loss with a margin stays at its margin.

    What it detects:
        A triplet or ranking loss that equals its margin on average, from the first steps on.

    Why it matters:
        The loss equals the margin when rows are as far from rows of their own class as from other
        rows. The embedding does not separate anything. Often all embeddings have become equal.

    Fires:
        Warning when the mean of all sampled values is between `below` and `above` of the margin for
        `calls` calls, in their first and in their second half. Error after `worthless_calls`.

    Stays quiet:
        For losses that fall below the margin, and in the first `calls` calls. For losses without an
        attribute `margin`.

    What to do:
        - Check the order of the arguments, and the classes of the rows: the positive belongs to the
          class of the anchor, the negative to another one.
          `TripletMarginLoss()(anchor, positive, negative)`.
        - Train on random or semi-hard negatives first: with the hardest negatives, all embeddings
          often become equal.
        - Change the learning rate: it may be so high that all embeddings became equal, or so low
          that nothing is learned yet.

    Example:
        loss = triplet(anchor, negative, positive)      # positive and negative are swapped
        loss = triplet(anchor, positive, negative)

    References:
        Schroff, Kalenichenko, Philbin 2015, FaceNet, section 3.2, https://arxiv.org/abs/1503.03832
    """

    code = "LOS422"
    title = "loss stays at its margin"
    needs = (Need(facts=(MarginLoss,)),)
    explains = (*UNLEARNED, "constant_output", "labels_unrelated", "vanishing_gradient")

    calls: int = threshold(200, unit="calls to the loss", source="chosen by hand")
    worthless_calls: int = threshold(
        600, unit="calls to the loss", source="chosen by hand: slow training leaves the margin"
    )
    below: float = threshold(0.98, unit="of the margin", source="chosen by hand")
    above: float = threshold(1.1, unit="of the margin", source="chosen by hand: noise of batches")

    def check(self, window: Window) -> list[Finding]:
        """Compare the values of each loss with its margin."""
        seen: dict[tuple[str, float], list[MarginLoss]] = {}
        for one in window.seen(MarginLoss):
            seen.setdefault((one.loss, one.margin), []).append(one)
        if not seen:
            raise NotApplicable("no value of a loss with a margin was recorded")
        if max(every[-1].calls for every in seen.values()) < self.calls:
            raise NotEnoughData(f"needs {self.calls} calls to a loss with a margin")
        found = [self._judge(window, every) for every in seen.values()]
        return [finding for finding in found if finding is not None][:1]

    def _judge(self, window: Window, every: list[MarginLoss]) -> Finding | None:
        last = every[-1]
        values = np.array([value for one in every for value in one.values])
        half = len(values) // 2
        levels = values[:half].mean() / last.margin, values[half:].mean() / last.margin
        stays = all(self.below <= level <= self.above for level in levels)
        if last.calls < self.calls or not stays:
            return None
        worthless = last.calls >= self.worthless_calls
        return self.finding(
            window,
            severity=Severity.ERROR if worthless else Severity.WARNING,
            step=0,
            last_step=last.step,
            count=last.calls,
            message=(
                f"{last.loss} has stayed at its margin of {last.margin:g} for {last.calls} calls "
                f"(mean {values.mean():.3g}): rows are as far from rows of their own class as from "
                "others"
            ),
            evidence={
                "value": float(values.mean()),
                "margin": last.margin,
                "calls": last.calls,
                "limit": self.below * last.margin,
            },
            location=last.location,
        )
