"""Chart that proves the claim of a rule: its series, its reference line and its scale."""

from __future__ import annotations

from typing import Literal

import msgspec

from mothtrap.core.fact import Fact


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """Series that a rule evaluates, as the chart beside each finding of the rule shows it.

    One of `scalars`, `statistic` and `fact` names the series.

    Attributes:
        title: quantity of the chart, with its unit.
        scalars: names of scalars, e.g. `loss`, of all modes.
        statistic: `kind.statistic` of the layers that the finding names, e.g. `gradient.l2`.
        joint: also draw the norm over all tensors of the kind.
        beside: evidence that names two layers, which are drawn instead of the layers of the
            finding. The reference line then follows the second layer.
        fact: type of a fact that has the number `field`.
        field: number of the fact; the largest of several.
        over: number of the fact that `field` is divided by; empty means no division.
        subject: field of the fact that names its layer or tensor; empty draws a line per worker.
        reference: evidence whose product is the height of the reference line.
        scale: scale of the y axis.
    """

    title: str
    scalars: tuple[str, ...] = ()
    statistic: str = ""
    joint: bool = False
    beside: tuple[str, str] | None = None
    fact: type[Fact] | None = None
    field: str = ""
    over: str = ""
    subject: str = ""
    reference: tuple[str, ...] = ()
    scale: Literal["linear", "log"] = "linear"


LOSS = Proof(title="Loss", scalars=("loss",))
"""Chart of a rule that evaluates the loss without a level to compare it with."""
