"""ACT203: the output of a model is the same for every input."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.layers import OutputSpread
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._effects import UNLEARNED
from mothtrap.rules._stretches import last_stretch

ROUNDING = 1e-6
"""Differences below this share of an output's size are rounding in float32."""


@dataclass(frozen=True)
class ConstantOutput(Rule):
    """The output of a model is the same for every input.

    What it detects:
        Outputs that do not differ between the rows of a batch though the inputs do, or
        that differ less and less: all representations end in one point.

    Why it matters:
        Such a model ignores its input. As a representation it holds nothing; as a
        predictor it has learned one number, however low the loss looks.

    Fires:
        Error when in `constant_looks` looks running all outputs of a root are the same
        for every row, to rounding. Warning when an output of at least `min_units` units
        differs between rows by less than `collapsed_share` of its size in
        `collapsed_looks` looks running, and by less than `own_share` of what it did
        before.

    Stays quiet:
        Inputs that are the same themselves, one output among several that is meant to be
        constant (the standard deviation of a policy), last layers that start at 0 and
        part with the first steps, outputs of few units that are near one another.

    What to do:
        - Look for what loses the input: a mean or a normalization over the batch axis, or
          an index that takes a part that is the same in all rows (padding, a first step).
        - Look for dead units or weights that are all the same in the layers before.
        - Where a loss only pulls outputs together: stop the gradient of one branch, add
          negatives, or a term that keeps the variance up.

    Example:
        loss = -F.cosine_similarity(encoder(a), encoder(b)).mean()     # one point is best
        loss = -F.cosine_similarity(predictor(encoder(a)), encoder(b).detach()).mean()

    References:
        Chen, He 2021, Exploring simple Siamese representation learning,
        https://arxiv.org/abs/2011.10566
    """

    code = "ACT203"
    needs = (Need(facts=(OutputSpread,)),)
    explains = (
        *UNLEARNED,
        "too_good_to_be_true",
    )
    passes = True

    constant_looks: int = threshold(
        8, unit="looks running", source="chosen by hand: zero layers part within 3 steps"
    )
    collapsed_share: float = threshold(
        0.1, unit="of the output's root mean square", source="chosen by hand"
    )
    collapsed_looks: int = threshold(3, unit="looks running", source="chosen by hand")
    own_share: float = threshold(
        0.05, unit="of the largest spread seen before", source="chosen by hand"
    )
    min_units: int = threshold(
        8, unit="units", source="chosen by hand: fewer are predictions, and may be alike"
    )

    def check(self, window: Window) -> list[Finding]:
        """Look at every output of every root."""
        by_place: dict[tuple[str, str], list[OutputSpread]] = {}
        for look in window.seen(OutputSpread):
            if look.inputs_differ:
                by_place.setdefault((look.root, look.place), []).append(look)
        if not by_place:
            if window.total_steps < self.constant_looks:
                raise NotEnoughData("no batch of differing rows was looked at")
            raise NotApplicable("no model was seen to map rows of a batch to float outputs")
        longest = max(len(looks) for looks in by_place.values())
        if longest < min(self.constant_looks, self.collapsed_looks):
            raise NotEnoughData(f"{longest} forwards were looked at")
        roots = dict.fromkeys(root for root, _ in by_place)
        for root in roots:
            outputs = [looks for (owner, _), looks in by_place.items() if owner == root]
            found = self._constant(window, outputs) or self._collapsed(window, outputs)
            if found:
                return [found]
        return []

    def _constant(self, window: Window, outputs: list[list[OutputSpread]]) -> Finding | None:
        begins = []
        for looks in outputs:
            held = np.array([look.largest <= ROUNDING * max(look.rms, 1e-30) for look in looks])
            stretch = last_stretch(held)
            if not stretch or stretch[1] - stretch[0] < self.constant_looks:
                return None
            begins.append((looks[stretch[0]].step, looks[stretch[0] :]))
        _, looks = max(begins, key=lambda begin: begin[0])
        last = looks[-1]
        return self._finding(
            window,
            looks,
            Severity.ERROR,
            f"{last.root} outputs the same values for each of the {last.shape[0]} rows of a batch, "
            "although its inputs differ",
            last.largest / max(last.rms, 1e-30),
            ROUNDING,
        )

    def _collapsed(self, window: Window, outputs: list[list[OutputSpread]]) -> Finding | None:
        for looks in outputs:
            if looks[-1].shape[-1] < self.min_units:
                continue
            share = np.array([look.spread / max(look.rms, 1e-30) for look in looks])
            spread = np.array([look.spread for look in looks])
            before = np.maximum.accumulate(spread)
            held = (share < self.collapsed_share) & (spread < self.own_share * before)
            stretch = last_stretch(held)
            if stretch and stretch[1] - stretch[0] >= self.collapsed_looks:
                last = looks[-1]
                return self._finding(
                    window,
                    looks[stretch[0] :],
                    Severity.WARNING,
                    f"the outputs of {last.root} for different rows differ by {share[-1]:.2g} of "
                    f"their size, and by {spread[-1] / before[-1]:.2g} of what they once did: "
                    "they collapse to one point",
                    float(share[-1]),
                    self.collapsed_share,
                    fixes=self.fixes(window)[:0:-1],  # a wrong axis collapses at once
                )
        return None

    def _finding(
        self,
        window: Window,
        looks: list[OutputSpread],
        severity: Severity,
        message: str,
        value: float,
        limit: float,
        fixes: tuple[str, ...] | None = None,
    ) -> Finding:
        last = looks[-1]
        place = f" (output {last.place})" if last.place else ""
        return self.finding(
            window,
            severity=severity,
            step=looks[0].step,
            last_step=last.step,
            count=len(looks),
            layers=(last.root,),
            message=message + place,
            evidence={"value": value, "limit": limit, "spread": last.spread, "rms": last.rms},
            location=last.location,
            fixes=fixes,
        )
