"""OPT614: a learning rate schedule is stepped per epoch instead of per step, or the reverse."""

from __future__ import annotations

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.optimizers import OptimizerFacts, ScheduleEnded
from mothtrap.core.facts.trainers import TrainerSettings
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need, any_of
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@frozen
class ScheduleAtWrongPace(Rule):
    """A learning rate schedule is stepped per epoch instead of per step, or the reverse.

    What it detects:
        A schedule that plans for one call per step but is called once per pass over the data, or
        one that plans for one call per pass but is called in every step.

    Why it matters:
        In the first case the learning rate hardly changes: a warm-up never ends, and a decay never
        begins. In the second, the learning rate runs through the whole schedule in the first pass,
        and then goes up and down.

    Fires:
        Warning at the end of a job in two cases. The planned number of calls equals the number of
        steps (within `tolerance`), but there were `ratio` times fewer calls. Or the planned number
        equals the number of passes, but every step made a call, so there were `ratio` times as
        many. The planned number of a `LambdaLR` is a number that its function reads, such as a
        variable, a constant, or an argument of `functools.partial`. In a schedule class of the
        user, it is an attribute such as `max_iters`. If a warm-up did not end although there were
        enough steps for it: a note when a `LinearLR` or a linear `LambdaLR` got less than
        `warm_up_share` of its calls, and a warning when a `LambdaLR` got less than `named_share` of
        them, and its number has a name such as `warmup_steps`. Warning at the end of a job of at
        least `least_steps` steps, all of them in a warm-up that reached less than `reached` of the
        full rate. Warning at the start when the warm-up of a trainer takes at least as many steps
        as the whole training.

    Stays quiet:
        Schedules that plan for any other number of calls, such as for a longer run or for
        several cycles. Jobs with few steps per pass. Functions that compute the number, except
        for a linear warm-up. Warm-ups that are longer than a job which an exception ended.

    What to do:
        - Call `scheduler.step()` as often as the schedule plans: after each optimizer step if it
          counts steps, after each pass if it counts passes.
        - Or plan for the number of calls: `T_max=epochs` with one call per pass,
          `total_steps=epochs * len(loader)` with one call per step.

    Example:
        scheduler = OneCycleLR(optimizer, 0.1, total_steps=epochs * len(loader))
        for epoch in range(epochs): train(); scheduler.step()       # should be after each step

    References:
        PyTorch, OneCycleLR,
        https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.OneCycleLR.html
    """

    code = "OPT614"
    needs = (
        *any_of(Need(facts=(ScheduleEnded,)), Need(facts=(TrainerSettings,))),
        Need(facts=(OptimizerFacts,), optional=True),
    )
    explains = (
        *("learning_rate_too_low", "learning_rate_zero", "loss_oscillating"),
        *("loss_not_decreasing", "stuck_at_chance", "update_ratio", "vanishing_gradient"),
    )

    tolerance: float = threshold(0.02, unit="of the number planned", source="chosen by hand")
    ratio: float = threshold(
        3.0, unit="steps per pass", source="chosen by hand: with fewer, the pace is not certain"
    )
    warm_up_share: float = threshold(
        0.1,
        unit="of the calls of a warm-up",
        source="chosen by hand: a run with more may have ended early",
    )

    named_share: float = threshold(
        0.5,
        unit="of the calls of a warm-up whose length is named after steps",
        source="chosen by hand",
    )
    reached: float = threshold(0.5, unit="of the full learning rate", source="chosen by hand")
    least_steps: int = threshold(
        200, unit="steps", source="chosen by hand: a shorter job may be a trial"
    )

    def check(self, window: Window) -> list[Finding]:
        """Compare the calls of each schedule with its planned calls."""
        for settings in window.seen(TrainerSettings):
            found = self._warm_up_too_long(window, settings)
            if found is not None:
                return [found]
        seen = list(window.seen(ScheduleEnded))
        if not seen:
            raise NotEnoughData("no schedule with a planned number of calls has ended")
        return [found for one in seen if (found := self._judge(window, one))][:1]

    def _warm_up_too_long(self, window: Window, one: TrainerSettings) -> Finding | None:
        if not one.warm_up or not one.total_steps or one.warm_up < one.total_steps:
            return None
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=one.step,
            message=(
                f"the warm-up of {one.trainer} takes {one.warm_up} steps, but training has "
                f"{one.total_steps}: the learning rate reaches only "
                f"{one.total_steps / one.warm_up:.2%} of its maximum"
            ),
            evidence={"warm_up": one.warm_up, "steps": one.total_steps},
            location=one.location,
            fixes=(
                "Warm up for 3 to 10 % of the steps: `warmup_steps=0.05`, or a number of steps.",
            ),
        )

    def _judge(self, window: Window, one: ScheduleEnded) -> Finding | None:
        if one.calls <= 1 or one.planned <= 1:
            return None
        severity, rare, fixes = Severity.WARNING, one.steps >= self.ratio * one.calls, None
        if self._outlasts(one):
            words = (
                f"raises the learning rate for {one.planned} steps, but training had only "
                f"{one.steps}: the rate reached {one.calls / one.planned:.2g} of its full value "
                f"(limit {self.reached:g})"
            )
            fixes = ("Warm up for 3 to 10 % of the steps of the training.",)
        elif abs(one.planned - one.steps) <= self.tolerance * one.planned + 1 and rare:
            words = (
                f"plans for {one.planned} calls, as many as there are steps ({one.steps}), but was "
                f"called {one.calls} times: the rate covered {one.calls / one.planned:.0%} "
                "of the schedule"
            )
        elif self._runs_ahead(one):
            words = (
                f"plans for {one.planned} calls, as many as there are passes over the data "
                f"({one.passes}), but was called in each of {one.steps} steps: it reaches the end "
                f"of the schedule after {one.planned / one.calls:.0%} of the training"
            )
        elif self._warm_up_lasts(one) and rare:
            severity, words = (
                Severity.WARNING if _is_named_after_steps(one) else Severity.INFO,
                f"plans for {one.planned} calls, but was called {one.calls} times in {one.steps} "
                "steps: the warm-up never ends",
            )
        else:
            return None
        return self.finding(
            window,
            severity=severity,
            step=0,
            last_step=one.step,
            message=f"{_named(one)} {words}",
            evidence={
                "planned": one.planned,
                "calls": one.calls,
                "steps": one.steps,
                "passes": one.passes,
            },
            location=one.location,
            fixes=fixes,
        )

    def _outlasts(self, one: ScheduleEnded) -> bool:
        """Return whether the whole training is the beginning of a warm-up."""
        in_each = abs(one.calls - one.steps) <= self.tolerance * one.steps + 1
        early = one.calls < self.reached * one.planned
        return one.warms_up and in_each and early and one.steps >= self.least_steps

    def _runs_ahead(self, one: ScheduleEnded) -> bool:
        """Return whether a schedule of passes was called in each step."""
        return (
            abs(one.calls - one.steps) <= self.tolerance * one.steps + 1
            and abs(one.planned - one.passes) <= 1
            and one.calls >= self.ratio * one.planned
        )

    def _warm_up_lasts(self, one: ScheduleEnded) -> bool:
        """Return whether a warm-up got few of its calls, though there were steps for all."""
        share = self.named_share if _is_named_after_steps(one) else self.warm_up_share
        few = one.calls < share * one.planned
        return one.warms_up and few and one.steps >= one.planned


def _named(one: ScheduleEnded) -> str:
    return f"{one.schedule} ({one.argument}={one.planned})" if one.argument else one.schedule


def _is_named_after_steps(one: ScheduleEnded) -> bool:
    """Return whether a function reads its number from a variable that is named after steps."""
    name = one.argument.lower()
    return one.schedule == "LambdaLR" and any(word in name for word in ("step", "iter", "batch"))
