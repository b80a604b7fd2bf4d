"""OPT627: a learning rate schedule counts batches where it should count steps, or the reverse."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.optimizers import OptimizerFacts, ScheduleEnded
from mothtrap.core.facts.trainers import TrainerSettings
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@frozen
class ScheduleOfBatches(Rule):
    """A learning rate schedule plans for the number of batches, but is called once per step.

    What it detects:
        A job whose steps use several batches each, because gradients are accumulated or several
        processes train together. A schedule plans for one call per batch but is called once per
        optimizer step, or it plans for one call per step but is called for every batch.

    Why it matters:
        In the first case the job ends in an early part of the schedule, and the learning rate
        never becomes small. In the second, the schedule ends early, and the learning rate stays at
        its last value (often 0) or rises again.

    Fires:
        Warning at the end of a job whose steps used at least `ratio` batches each, in all processes
        together. The planned number of calls equals the number of batches (within `tolerance`), and
        the number of calls equals the number of steps (times the number of processes, if Accelerate
        calls it), or the reverse. How the planned number is
        found: see OPT614.

    Stays quiet:
        Schedules that plan for any other number of calls. Warm-ups. Jobs of several optimizers, and
        jobs of fewer than `num_steps` steps.

    What to do:
        - Plan for the calls that the schedule gets: divide `epochs * len(loader)` by the number of
          accumulated batches, and by the number of processes unless the loader already holds only
          the batches of one process.
        - Call `scheduler.step()` only after `optimizer.step()`, not for every batch.
        - With Accelerate, pass the schedule to `accelerator.prepare`, which calls it once for each
          process, and compute its length before the loader is prepared.

    Example:
        total = epochs * len(loader)               # should be divided by the accumulated batches
        schedule = get_cosine_schedule_with_warmup(optimizer, 100, total)

    References:
        Accelerate, Learning rate schedulers,
        https://huggingface.co/docs/accelerate/concept_guides/performance
    """

    code = "OPT627"
    needs = (
        Need(facts=(ScheduleEnded,)),
        Need(facts=(OptimizerFacts, TrainerSettings), optional=True),
    )
    explains = ("learning_rate_zero", "loss_not_decreasing", "loss_oscillating")

    tolerance: float = threshold(
        0.02, unit="of the number", source="chosen by hand: a last group of a pass may be smaller"
    )
    ratio: float = threshold(1.9, unit="batches per step", source="chosen by hand: 2 of them")
    num_steps: int = threshold(10, unit="steps", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Compare the calls of each schedule with its planned calls."""
        seen = list(window.seen(ScheduleEnded))
        if not seen:
            raise NotEnoughData("no schedule with a planned number of calls has ended")
        if len({one.optimizer for one in window.seen(OptimizerFacts)}) > 1:
            raise NotApplicable("the job has several optimizers")
        return [found for one in seen if (found := self._judge(window, one))][:1]

    def _judge(self, window: Window, one: ScheduleEnded) -> Finding | None:
        if one.steps < self.num_steps or one.warms_up:
            return None
        of_all = one.batches * one.processes
        plan, call, prepare = self.fixes(window)
        for batches in dict.fromkeys((one.batches, of_all)):
            is_of_all = batches > one.batches
            prepares = is_of_all and _is_accelerated(window)
            whose = f" of {one.processes} processes" if is_of_all else ""
            if self._near(one.planned, batches) and self._is_per_step(one, batches):
                words = (
                    f"as many as there are batches{whose} ({batches}), but was called "
                    f"{one.calls} times in {one.steps} steps: the rate covered only "
                    f"{one.calls / one.planned:.0%} of the schedule"
                )
                fixes = (prepare,) if prepares and one.calls <= one.steps else (plan,)
            elif (
                batches >= self.ratio * one.steps
                and self._near(one.planned, one.steps)
                and self._near(one.calls, batches)
            ):
                words = (
                    f"as many as there are steps ({one.steps}), but was called {one.calls} times, "
                    f"as often as there are batches{whose}: it ended after "
                    f"{one.planned / one.calls:.0%} of the training"
                )
                fixes = (prepare,) if prepares else (call,)
            else:
                continue
            return self.finding(
                window,
                severity=Severity.WARNING,
                step=0,
                last_step=one.step,
                message=(
                    f"{one.schedule} ({one.argument}={one.planned}) plans for {one.planned} "
                    f"calls, {words}"
                ),
                evidence={
                    "planned": one.planned,
                    "calls": one.calls,
                    "steps": one.steps,
                    "batches": batches,
                },
                location=one.location,
                fixes=fixes,
            )
        return None

    def _is_per_step(self, one: ScheduleEnded, batches: int) -> bool:
        """Return whether a schedule was called in each step, or for each process in each step."""
        return any(
            batches >= self.ratio * calls and self._near(one.calls, calls)
            for calls in (one.steps, one.steps * one.processes)
        )

    def _near(self, number: int, expected: int) -> bool:
        return abs(number - expected) <= self.tolerance * expected + 1


def _is_accelerated(window: Window) -> bool:
    """Return whether Accelerate may call the schedule, once for each process."""
    return any(one.trainer == "Accelerator" for one in window.seen(TrainerSettings))
