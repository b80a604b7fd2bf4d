"""ACT207: the router of a mixture of experts sends nearly all rows to one expert."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.layers import RouterLoad
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.proof import Proof
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._stretches import last_stretch


@frozen
class RouterCollapse(Rule):
    """The router of a mixture of experts sends nearly all rows to one expert.

    What it detects:
        A layer that scores the experts of a `ModuleList` and prefers the same expert for nearly
        every row, batch after batch.

    Why it matters:
        Experts that are never chosen get no gradient and fall further behind. The model pays for
        many experts and learns with one.

    Fires:
        Warning when the preferred expert's share of the rows is above `busiest_share` in
        `persisting_looks` consecutive samples, over at least `min_rows` rows.

    Stays quiet:
        The first steps. Fewer than `min_experts` experts. Routers that cannot be distinguished from
        other layers: a router is a linear layer with as many outputs as the neighboring
        `ModuleList` of same-class modules has members.

    What to do:
        - Add a load-balancing loss, or check its sign and weight.
        - Add noise to the scores during training, or limit the number of rows per expert.
        - Normalize the router's input: an offset that all rows share picks one expert for all.

    Example:
        loss = task_loss - 0.01 * balance_loss       # rewards imbalance
        loss = task_loss + 0.01 * balance_loss

    References:
        Shazeer et al. 2017, Outrageously large neural networks,
        https://arxiv.org/abs/1701.06538
    """

    code = "ACT207"
    needs = (Need(facts=(RouterLoad,)),)
    proof = Proof(
        title="Share of the busiest expert",
        fact=RouterLoad,
        field="shares",
        subject="router",
        reference=("limit",),
    )

    busiest_share: float = threshold(0.9, unit="share of the rows", source="chosen by hand")
    persisting_looks: int = threshold(
        4,
        unit="consecutive samples",
        source="chosen by hand: new routers may favor one expert for a few steps",
    )
    min_rows: int = threshold(64, unit="rows in these samples", source="chosen by hand")
    min_experts: int = threshold(3, unit="experts", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Check every router."""
        by_router: dict[str, list[RouterLoad]] = {}
        for load in window.seen(RouterLoad):
            if len(load.shares) >= self.min_experts:
                by_router.setdefault(load.router, []).append(load)
        if not by_router:
            if window.total_steps < self.persisting_looks:
                raise NotEnoughData("no forward pass was sampled")
            raise NotApplicable("no router of experts was recognized")
        if max(len(loads) for loads in by_router.values()) < self.persisting_looks:
            raise NotEnoughData(f"fewer than {self.persisting_looks} samples")
        found = [self._judge(window, loads) for loads in by_router.values()]
        return [finding for finding in found if finding][:1]

    def _judge(self, window: Window, loads: list[RouterLoad]) -> Finding | None:
        busiest_L = np.array([max(load.shares) for load in loads])
        favorite_L = np.array([int(np.argmax(load.shares)) for load in loads])
        held_L = (busiest_L > self.busiest_share) & (favorite_L == favorite_L[-1])
        stretch = last_stretch(held_L)
        if not stretch or stretch[1] - stretch[0] < self.persisting_looks:
            return None
        held = loads[stretch[0] :]
        if sum(load.rows for load in held) < self.min_rows:
            return None
        last = held[-1]
        idle = sum(share == 0 for share in last.shares)
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=held[0].step,
            last_step=last.step,
            count=len(held),
            layers=(last.router, last.experts),
            message=(
                f"{last.router} sends {max(last.shares):.0%} of the rows to expert "
                f"{int(favorite_L[-1])} of the {len(last.shares)} in {last.experts}; {idle} are "
                "never chosen"
            ),
            evidence={
                "value": max(last.shares),
                "limit": self.busiest_share,
                "experts": len(last.shares),
                "idle": idle,
            },
            location=last.location,
        )
