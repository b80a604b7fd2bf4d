"""OPT614: a learning rate schedule is stepped at another pace than it plans for."""

from __future__ import annotations

from dataclasses import dataclass

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.optimizers import OptimizerFacts, ScheduleEnded
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@dataclass(frozen=True)
class ScheduleAtWrongPace(Rule):
    """A learning rate schedule is stepped at another pace than it plans for.

    What it detects:
        A schedule that plans for as many calls as there are steps, but is called once in a pass
        over the data; and one that plans for as many calls as there are passes, but is called
        in every step.

    Why it matters:
        In the first case the rate hardly moves: a warm-up never ends, a decay never begins. In the
        second the rate runs through the whole schedule in the first pass, and goes up and down
        from then on.

    Fires:
        Warning at the end of a job, when the number of calls that are planned is that of the
        steps (within `tolerance`) and the calls were fewer by `ratio`; or when it is that of
        the passes, and every step made a call, `ratio` times as many.

    Stays quiet:
        Schedules that plan for any other number of calls, such as for a longer training or for
        several cycles; jobs of few steps in each pass.

    What to do:
        - Call `scheduler.step()` at the pace that the schedule counts: after each optimizer
          step where it plans for steps, after each pass where it plans for passes.
        - Or plan for the calls that it gets: `T_max=epochs` with a call for each pass,
          `total_steps=epochs * len(loader)` with a call for each step.

    Example:
        scheduler = OneCycleLR(optimizer, 0.1, total_steps=epochs * len(loader))
        for epoch in range(epochs): train(); scheduler.step()       # should be after each step

    References:
        PyTorch, OneCycleLR,
        https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.OneCycleLR.html
    """

    code = "OPT614"
    needs = (Need(facts=(ScheduleEnded,)), Need(facts=(OptimizerFacts,), optional=True))
    explains = ("learning_rate_too_low", "loss_oscillating", "loss_not_decreasing")

    tolerance: float = threshold(0.02, unit="of the number planned", source="chosen by hand")
    ratio: float = threshold(
        3.0, unit="steps in each pass", source="chosen by hand: fewer say nothing of the pace"
    )

    def check(self, window: Window) -> list[Finding]:
        """Compare the calls of each schedule with what it plans for."""
        seen = list(window.seen(ScheduleEnded))
        if not seen:
            raise NotEnoughData("no schedule with a planned number of calls has ended")
        return [found for one in seen if (found := self._judge(window, one))][:1]

    def _judge(self, window: Window, one: ScheduleEnded) -> Finding | None:
        near = self.tolerance * one.planned + 1
        if one.calls <= 1 or one.planned <= 1:
            return None
        if abs(one.planned - one.steps) <= near and one.steps >= self.ratio * one.calls:
            words = (
                f"plans for {one.planned} calls, as many as there are steps ({one.steps}), but was "
                f"called {one.calls} times: the rate came through {one.calls / one.planned:.0%} "
                "of the schedule"
            )
        elif (
            abs(one.calls - one.steps) <= self.tolerance * one.steps + 1
            and abs(one.planned - one.passes) <= 1
            and one.calls >= self.ratio * one.planned
        ):
            words = (
                f"plans for {one.planned} calls, as many as there are passes over the data "
                f"({one.passes}), but was called in each of {one.steps} steps: the rate is through "
                f"the schedule after {one.planned / one.calls:.0%} of the training"
            )
        else:
            return None
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=0,
            last_step=one.step,
            message=f"{one.schedule} ({one.argument}={one.planned}) {words}",
            evidence={
                "planned": one.planned,
                "calls": one.calls,
                "steps": one.steps,
                "passes": one.passes,
            },
            location=one.location,
        )
