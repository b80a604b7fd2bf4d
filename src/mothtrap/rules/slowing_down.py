"""SYS502: the steps of a training become longer and longer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.phases import PhasesTimed
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.phases import DATA, EVALUATION, LOSS, OPTIMIZER, OTHER, OWN, PHASES, SAVE
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Floats, Ints, Window

QUARTERS = 4
LEFT_OUT = frozenset({EVALUATION, SAVE, OWN})
"""Phases that are not part of each step."""
OF_THE_SCRIPT = {
    DATA: "waiting for data",
    LOSS: "the code between the forward and the backward pass",
    OPTIMIZER: "the optimizer's step",
    OTHER: "the script's code between the steps",
}
"""Phases that take longer because something grows. A forward pass can also take longer because of
larger inputs, or because the processor was slowed down."""


@frozen
class SlowingDown(Rule):
    """Training becomes slower and slower.

    What it detects:
        Steps that take longer from each quarter of the run to the next, although the machine's
        processors are idle.

    Why it matters:
        Something grows with the number of steps, such as a list that is searched in each step. The
        slowdown continues, so a run takes many times longer than its first steps suggest.

    Fires:
        Warning when the median step of the last quarter is `growth` longer than the median step of
        the first, and the second and third quarters lie in between. Evaluations, saved checkpoints,
        and mothtrap's own time are excluded. A note when the forward or backward pass takes longer,
        because larger inputs would also explain this.

    Stays quiet:
        Fewer than `times` observations (of 100 steps or 30 seconds) in each quarter. Processors
        that were idle for less than `idle` of the last quarter. Step times that vary more than they
        grow.

    What to do:
        - Look for a list, a log, or a plot that grows in the loop and is read or written as a
          whole in each step.
        - Profile a few late steps: `py-spy record --pid PID`.

    Example:
        history.append(loss.item())
        best = min(history)                     # takes longer in each step
        best = min(best, loss.item())

    References:
        Chosen by hand; see `mothtrap show` for the phases of a run.
    """

    code = "SYS502"
    needs = (Need(facts=(PhasesTimed,)),)

    growth: float = threshold(
        0.2, unit="of the first median", source="chosen by hand: above the drift of a busy machine"
    )
    times: int = threshold(3, unit="observations per quarter", source="chosen by hand")
    idle: float = threshold(
        0.25,
        unit="of the processors' time",
        source=("chosen by hand: else other programs use the machine"),
    )

    def check(self, window: Window) -> list[Finding]:
        """Compare the quarters of the run."""
        timed = list(window.seen(PhasesTimed))[1:]  # the first one includes the start of workers
        if len(timed) < QUARTERS * self.times:
            raise NotEnoughData(f"needs {QUARTERS * self.times + 1} observations of step times")
        parts = [timed[place[0] : place[-1] + 1] for place in _quarters(len(timed))]
        step_s = [_step_s(part) for part in parts]
        middle_s = [float(np.median(each)) for each in step_s]
        grown = middle_s[-1] / middle_s[0] - 1 if middle_s[0] > 0 else 0.0
        rises = bool((np.diff(middle_s) > 0).all())
        apart = bool(np.quantile(step_s[-1], 0.25) > np.quantile(step_s[0], 0.75))
        is_idle = float(np.median([each.idle for each in parts[-1]])) >= self.idle
        if grown < self.growth or not rises or not apart or not is_idle:
            return []
        return [self._found(window, parts, middle_s)]

    def _found(
        self, window: Window, parts: Sequence[Sequence[PhasesTimed]], middle_s: Sequence[float]
    ) -> Finding:
        phase, share = _grown_phase(parts[0], parts[-1])
        named = OF_THE_SCRIPT.get(phase)
        grown = middle_s[-1] / middle_s[0] - 1
        return self.finding(
            window,
            severity=Severity.INFO if named is None else Severity.WARNING,
            step=parts[1][0].first_step,
            last_step=parts[-1][-1].step,
            count=parts[-1][-1].step + 1 - parts[1][0].first_step,
            message=(
                f"a step takes {100 * grown:.0f} % longer than at first: "
                f"{1000 * middle_s[-1]:.3g} ms instead of {1000 * middle_s[0]:.3g} ms before step "
                f"{parts[0][-1].step + 1}; {100 * share:.0f} % of the increase is in "
                f"{named or f'the {phase} pass'}"
            ),
            evidence={"growth": grown, "limit": self.growth, "phase": phase, "share": share},
        )


def _quarters(count: int) -> list[Ints]:
    return np.array_split(np.arange(count), QUARTERS)


def _step_s(timed: Sequence[PhasesTimed]) -> Floats:
    """Return the seconds of a step in each observation."""
    return np.array([sum(_per_step(each, phase) for phase in PHASES) for each in timed])


def _per_step(timed: PhasesTimed, phase: str) -> float:
    steps = timed.step + 1 - timed.first_step
    return 0.0 if phase in LEFT_OUT else timed.seconds.get(phase, 0.0) / max(1, steps)


def _grown_phase(early: Sequence[PhasesTimed], late: Sequence[PhasesTimed]) -> tuple[str, float]:
    """Return the phase that grew most, and its share of the whole increase."""
    more = {
        phase: float(
            np.median([_per_step(each, phase) for each in late])
            - np.median([_per_step(each, phase) for each in early])
        )
        for phase in PHASES
    }
    phase = max(more, key=lambda each: more[each])
    increase = sum(value for value in more.values() if value > 0)
    return phase, more[phase] / increase if increase > 0 else 0.0
