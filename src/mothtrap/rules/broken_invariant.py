"""RUN904: something does not hold that held in healthy runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from mothtrap.core.breaches import Breach, judge
from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.invariants import Invariant, Present
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.schedule import Schedule
from mothtrap.core.thresholds import NO_SETTING
from mothtrap.core.window import Window
from mothtrap.rules._weights import EVERY_STEPS, FIRST_STEPS

LAYERS_NAMED = 8


@dataclass(frozen=True)
class BrokenInvariant(Rule):
    """Something does not hold that held in healthy runs.

    What it detects:
        The first step, and the tensors, at which an invariant does not hold that
        `mothtrap learn` inferred from healthy runs, or that came with mothtrap, and that
        `mothtrap run --invariants FILE` names.

    Why it matters:
        Much that is wrong with a training is not a fault in general: a layer may be frozen, a
        learning rate constant. It is one where healthy runs of the same program do otherwise.

    Fires:
        Warning when any of them is broken, at the step at which the first one is; the
        others are counted.

    Stays quiet:
        Without a file of invariants, and about tensors and scalars that the training does not
        have.

    What to do:
        - Look at what has changed since the healthy runs: the program, its configuration, or
          the data.
        - Delete the invariant from the file where it need not hold.
        - Learn again, from more runs, where the training is meant to be another.

    Example:
        mothtrap learn good-1 good-2 good-3 -o invariants.toml
        mothtrap run --invariants invariants.toml train.py

    References:
        Jiang et al., Training with Confidence: Catching Silent Errors in Deep Learning Training
        with Automated Proactive Checks, 2025, https://arxiv.org/abs/2506.14813
    """

    code = "RUN904"

    invariants: tuple[Invariant, ...] = field(default=(), metadata=NO_SETTING)

    def __post_init__(self) -> None:
        """Ask for the statistics that the invariants are about, as often as other rules do."""
        object.__setattr__(self, "needs", _needs(self.invariants))

    def check(self, window: Window) -> list[Finding]:
        """Judge every invariant; tell the one that was broken first."""
        if not self.invariants:
            raise NotApplicable("no file of invariants was named")
        judged, broken = 0, list[Breach]()
        for invariant in self.invariants:
            try:
                breach = judge(invariant, window)
            except NotEnoughData:
                continue
            judged += 1
            broken += [breach] if breach is not None else []
        if not judged:
            raise NotEnoughData("nothing was captured of what the invariants are about")
        if not broken:
            return []
        first = min(broken, key=lambda breach: breach.step)
        return [
            self.finding(
                window,
                severity=Severity.WARNING,
                step=first.step,
                last_step=first.last_step,
                count=first.count,
                layers=first.names[:LAYERS_NAMED],
                message=_message(first, len(broken) - 1),
                evidence={
                    "value": first.value,
                    "broken": [breach.invariant.sentence for breach in broken],
                },
                location=first.location,
            )
        ]


def _needs(invariants: Iterable[Invariant]) -> tuple[Need, ...]:
    rarely = Schedule(every=EVERY_STEPS, steps=FIRST_STEPS)
    about = sorted({i.statistic for i in invariants if i.statistic is not None})
    of = [i.of for i in invariants if i.statistic is None]
    of += [i.at for i in invariants if isinstance(i, Present) and i.at]
    names = {one.partition(":")[0] for one in of}
    scalars = [Need(scalars=tuple(sorted(names)), optional=True)] if names else []
    return *scalars, *(
        Need(
            kinds=(kind,),
            statistics=(statistic,),
            schedule=None if kind == "gradient" else rarely,
            optional=True,
        )
        for kind, statistic in about
    )


def _message(breach: Breach, others: int) -> str:
    value = f"{breach.value:.3g}" if isinstance(breach.value, float) else breach.value
    told = f"here it is {value}" if value else "not so here"
    where = f", first in {breach.names[0]}" if breach.names else ""
    more = f"; {others} more that held then do not hold here" if others else ""
    return f"in healthy runs {breach.invariant.sentence}; {told}{where}{more}"
