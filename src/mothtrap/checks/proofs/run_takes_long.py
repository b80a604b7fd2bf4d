"""PRE205: the time and the memory of the whole run."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from mothtrap.checks.check import Check
from mothtrap.checks.starts import CANNOT_START
from mothtrap.checks.subject import Subject
from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.found import Found
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold

HOUR_S, MIB = 3600.0, 1 << 20
UNITS = {"days": 86_400.0, "hours": HOUR_S, "minutes": 60.0, "seconds": 1.0}


@frozen
class RunTakesLong(Check):
    """The whole run takes longer than allowed.

    What it detects:
        A run whose steps take longer than `most_hours` in total. The check starts the script once
        more without observing it, and measures the median time of its steps, how long they wait for
        data, and the memory. The loops around the step show how many steps and epochs follow: loops
        over `range(epochs)` or over a loader, and the arguments of Keras `fit`.

    Why it matters:
        If a run takes three weeks, you want to know before you start it.

    Fires:
        Warning when the run takes more than `most_hours`; `--deadline HOURS` sets this limit. A
        note when more than `most_waiting` of the time is spent waiting for data, in steps of at
        least `least_step_s`.

    Stays quiet:
        Loops without a known end, such as `while True`: then only the time of a step is shown.
        Evaluations, checkpoints, and early stopping are not counted.

    What to do:
        - Train for fewer steps, train a smaller model, or use a faster machine.
        - Keras: If the steps wait for data, end the pipeline with `prefetch(tf.data.AUTOTUNE)`.
        - PyTorch: If the steps wait for data, give the loader workers: `DataLoader(...,
          num_workers=4)`.

    Example:
        mothtrap check --deadline 8 train.py

    References:
        http://karpathy.github.io/2019/04/25/recipe/
    """

    code = "PRE205"
    title = "the run takes too long"
    passed = "time and memory of the whole run"
    costs = 5
    most_hours: float = threshold(168.0, unit="hours", source="chosen by hand: one week")
    most_waiting: float = threshold(0.3, unit="of the time", source="chosen by hand")
    least_step_s: float = threshold(0.02, unit="seconds", source="chosen by hand")

    def run(self, subject: Subject) -> Iterable[Found]:
        """Measure the steps of a second start, and count the steps of the whole run."""
        if subject.starts is None:
            raise NotApplicable(subject.missing.get("trials") or CANNOT_START)
        second = subject.starts().second
        if len(second.seconds) < 2:
            raise NotEnoughData(f"needs 2 steps, but the second start made {len(second.seconds)}")
        step_s = float(np.median(second.seconds[1:]))
        figures, loops = subject.figures, subject.loops
        hours = loops.steps * step_s / HOUR_S
        if math.isfinite(hours):
            figures["steps"] = math.ceil(loops.steps)
            figures.update([_time(loops.steps * step_s, "of the run")])
        if math.isfinite(loops.epoch):
            figures["steps per epoch"] = math.ceil(loops.epoch)
            figures.update([_time(loops.epoch * step_s, "an epoch")])
        figures["seconds per step"] = _rounded(step_s)
        figures["MiB of memory"] = second.memory_bytes // MIB
        if second.device_bytes:
            figures["MiB on the device"] = second.device_bytes // MIB
        waiting = 0.0
        if len(second.waits_s) == len(second.seconds) and step_s:
            waiting = float(np.median(second.waits_s[1:])) / step_s
            figures["share waiting for data"] = round(waiting, 2)
        if hours > self.most_hours:
            yield Found(
                step=0,
                severity="warning",
                message=f"the run of {math.ceil(loops.steps):,} steps takes {hours:,.0f} hours "
                f"without evaluations and checkpoints (limit {self.most_hours:,.0f}); a "
                f"step takes {step_s:.3g} s",
                evidence={"hours": hours, "step_s": step_s},
            )
        elif waiting > self.most_waiting and step_s >= self.least_step_s:
            yield Found(
                step=0,
                severity="info",
                message=(
                    f"steps of {step_s:.3g} s spend {waiting:.0%} of their time waiting for data"
                ),
                evidence={"share": waiting, "step_s": step_s},
            )


def _time(seconds: float, of: str) -> tuple[str, float]:
    """Return the name and the value of a figure, in the largest unit that it has two of."""
    unit = next((name for name, length in UNITS.items() if seconds >= 2 * length), "seconds")
    return f"{unit} {of}", _rounded(seconds / UNITS[unit])


def _rounded(value: float) -> float:
    """Return a measured time with two digits: it varies by more than the third."""
    return float(f"{value:.2g}") if value < 100 else round(value)
