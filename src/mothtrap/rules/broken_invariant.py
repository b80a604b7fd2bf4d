"""RUN904: an invariant of healthy runs is violated."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from mothtrap.core.breaches import Breach, judge
from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.invariants import Invariant, Present
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.schedule import Schedule
from mothtrap.core.thresholds import NO_SETTING
from mothtrap.core.window import Window
from mothtrap.rules._weights import EVERY_STEPS, FIRST_STEPS

LAYERS_NAMED = 8


@frozen
class BrokenInvariant(Rule):
    """An invariant of healthy runs is violated.

    What it detects:
        The first step, and the tensors, that violate an invariant in the file given to
        `mothtrap run --invariants FILE`. `mothtrap learn` infers invariants from healthy runs;
        some also come with mothtrap.

    Why it matters:
        A frozen layer or a constant learning rate is not always a bug. It is suspicious if
        healthy runs of the same program behave differently.

    Fires:
        Warning when any invariant is violated, at the step of the first violation. The message
        counts the others.

    Stays quiet:
        Without an invariants file. For tensors and scalars that the run does not have.

    What to do:
        - Check what changed since the healthy runs: the program, its configuration, or the data.
        - Delete the invariant from the file if it does not have to hold.
        - Learn the invariants again from new healthy runs if training changed on purpose.

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
        """Request the statistics of the invariants, as often as other rules do."""
        object.__setattr__(self, "needs", _needs(self.invariants))

    def check(self, window: Window) -> list[Finding]:
        """Check every invariant; report the invariant that was violated first."""
        if not self.invariants:
            raise NotApplicable("no invariants file was given")
        judged, broken = 0, list[Breach]()
        for invariant in self.invariants:
            try:
                breach = judge(invariant, window)
            except NotEnoughData:
                continue
            judged += 1
            broken += [breach] if breach is not None else []
        if not judged:
            raise NotEnoughData("none of the data that the invariants refer to was captured")
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
    told = f"; in this run it is {value}" if value else ", but not in this run"
    where = f", first in {breach.names[0]}" if breach.names else ""
    plural = "invariants are" if others > 1 else "invariant is"
    more = f"; {others} more {plural} violated" if others else ""
    return f"in healthy runs {breach.invariant.sentence}{told}{where}{more}"
