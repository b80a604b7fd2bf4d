"""ACT203: the output of a model is the same for every input."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.layers import OutputSpread
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.proof import Proof
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._effects import UNLEARNED
from mothtrap.rules._stretches import last_stretch

ROUNDING = 1e-6
"""Differences below this share of an output's size are float32 rounding errors."""


@frozen
class ConstantOutput(Rule):
    """The output of a model is the same for every input.

    What it detects:
        Outputs that are equal for all rows of a batch although the inputs differ, or that differ
        less and less until all representations collapse to one point.

    Why it matters:
        The model ignores its input. Its representation carries no information, and its
        prediction is one constant, even if the loss looks low.

    Fires:
        Error when in `constant_looks` consecutive checks all outputs of a model are equal for
        every row, up to rounding. Warning when in `collapsed_looks` consecutive checks an output
        of at least `min_units` units differs between rows by less than `collapsed_share` of its
        size and by less than `own_share` of its earlier spread.

    Stays quiet:
        When the inputs are equal. For one of several outputs that is constant on purpose (the
        standard deviation of a policy). For last layers that start at 0 and differ after the
        first steps. For outputs of few units whose values are close together.

    What to do:
        - Look for code that drops the input: a mean or a normalization over the batch axis, or
          an index that selects a part that is equal in all rows (padding, a first time step).
        - Look for dead units or identical weights in the earlier layers.
        - If the loss only pulls outputs together, stop the gradient of one branch, add
          negative pairs, or add a term that keeps the variance up.

    Example:
        loss = -F.cosine_similarity(encoder(a), encoder(b)).mean()     # one point is best
        loss = -F.cosine_similarity(predictor(encoder(a)), encoder(b).detach()).mean()

    References:
        Chen, He 2021, Exploring simple Siamese representation learning,
        https://arxiv.org/abs/2011.10566
    """

    code = "ACT203"
    needs = (Need(facts=(OutputSpread,)),)
    proof = Proof(
        title="Spread of the outputs across rows, relative to their size",
        fact=OutputSpread,
        field="spread",
        over="rms",
        subject="root",
        reference=("limit",),
        scale="log",
    )
    explains = (
        *UNLEARNED,
        "too_good_to_be_true",
    )
    passes = True

    constant_looks: int = threshold(
        8, unit="consecutive checks", source="chosen by hand: layers of zeros differ in 3 steps"
    )
    collapsed_share: float = threshold(
        0.1, unit="of the root mean square of the output", source="chosen by hand"
    )
    collapsed_looks: int = threshold(3, unit="consecutive checks", source="chosen by hand")
    own_share: float = threshold(
        0.05, unit="of the largest earlier spread", source="chosen by hand"
    )
    min_units: int = threshold(
        8, unit="units", source="chosen by hand: smaller outputs are often predictions"
    )

    def check(self, window: Window) -> list[Finding]:
        """Check every output of every model."""
        by_place: dict[tuple[str, str], list[OutputSpread]] = {}
        for look in window.seen(OutputSpread):
            if look.inputs_differ:
                by_place.setdefault((look.root, look.place), []).append(look)
        if not by_place:
            if window.total_steps < self.constant_looks:
                raise NotEnoughData("no batch with different rows was checked")
            raise NotApplicable("no model maps the rows of a batch to float outputs")
        longest = max(len(looks) for looks in by_place.values())
        if longest < min(self.constant_looks, self.collapsed_looks):
            raise NotEnoughData(f"only {longest} forward calls were checked")
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
            f"{last.root} outputs the same values for all {last.shape[0]} rows of a batch, "
            "although the inputs differ",
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
                    f"the outputs of {last.root} collapse to one point: their spread between rows "
                    f"is {share[-1]:.2g} times their size (limit {self.collapsed_share:g}), and "
                    f"{spread[-1] / before[-1]:.2g} times its earlier value",
                    float(share[-1]),
                    self.collapsed_share,
                    fixes=self.fixes(window)[:0:-1],  # a wrong axis collapses immediately
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
