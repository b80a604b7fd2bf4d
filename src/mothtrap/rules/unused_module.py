"""STR708: a module of the model that trains nowhere."""

from __future__ import annotations

from dataclasses import dataclass

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.modules import HiddenParameters, UnreachedModule
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._onset import counted_from
from mothtrap.rules._reach import newest_modules

LAYERS_NAMED = 10
"""Layers that a finding names, at most."""


@dataclass(frozen=True)
class UnusedModule(Rule):
    """A module of the model that trains nowhere.

    What it detects:
        Modules or parameters kept in a plain list, tuple or dictionary of a module, where
        `model.parameters()` does not see them: they get gradients, and no optimizer holds
        them. And the reverse: modules that the optimizer holds and that are never called.

    Why it matters:
        Hidden layers keep their random initial values, are not moved by `.to(device)`,
        and are missing from every checkpoint. Uncalled layers do nothing: the
        forward is not what it was meant to be.

    Fires:
        Error when hidden parameters have got gradients that are not zero in `reached_steps`
        steps, and no code changes them. Info when a registered module was not called in
        `uncalled_steps` steps of its optimizer, a warning when such modules hold more than
        `uncalled_share` of the optimizer's parameters.

    Stays quiet:
        Hidden modules that get no gradient, such as a teacher, hidden parameters that an
        optimizer was given by hand, modules whose parameters are used without calling
        them, and modules whose calls cannot be seen, such as compiled ones.

    What to do:
        - Keep the modules in an `nn.ModuleList` or `nn.ModuleDict`, parameters in an
          `nn.ParameterList`, before the optimizer is made.
        - Call the module in `forward`, or remove it.

    Example:
        self.layers = [nn.Linear(64, 64) for _ in range(3)]     # hidden from parameters()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(3))

    References:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.ModuleList.html
    """

    code = "STR708"
    needs = (Need(facts=(UnreachedModule, HiddenParameters)),)
    explains = (
        "constant_output",
        "learning_rate_too_low",
        "loss_not_decreasing",
        "parameter_without_optimizer",
        "stuck_at_chance",
    )

    reached_steps: int = threshold(
        20,
        unit="steps in which a hidden parameter got a non-zero gradient",
        source="chosen by hand: whoever changes it by hand has done so by then",
    )
    uncalled_steps: int = threshold(100, unit="steps of the optimizer", source="chosen by hand")
    uncalled_share: float = threshold(
        0.1, unit="of the optimizer's parameters, in elements", source="chosen by hand"
    )

    def check(self, window: Window) -> list[Finding]:
        """Judge hidden parameters, else modules that were never called."""
        if window.total_steps < self.reached_steps:
            raise NotEnoughData(
                f"{window.total_steps} steps were seen, {self.reached_steps} are needed"
            )
        newest = {seen.holder: seen for seen in window.seen(HiddenParameters)}
        hidden = [
            seen
            for seen in newest.values()
            if seen.reached_steps >= self.reached_steps and not seen.changed
        ]
        if hidden:
            return [self._hidden(window, hidden)]
        uncalled = [
            seen
            for seen in newest_modules(window)
            if seen.own_steps >= self.uncalled_steps
            and seen.calls_are_seen
            and not (seen.runs or seen.runs_in_evaluation or seen.changed)
        ]
        return [self._uncalled(window, uncalled)] if uncalled else []

    def _hidden(self, window: Window, hidden: list[HiddenParameters]) -> Finding:
        first = hidden[0]
        elements = sum(seen.elements for seen in hidden)
        return self.finding(
            window,
            title="unregistered module",
            severity=Severity.ERROR,
            step=min(counted_from(seen.step, seen.reached_steps, seen.since) for seen in hidden),
            last_step=max(seen.step for seen in hidden),
            count=max(seen.reached_steps for seen in hidden),
            layers=tuple(seen.holder for seen in hidden[:LAYERS_NAMED]),
            message=(
                f"{first.holder} is a {first.what}: model.parameters() does not see its "
                f"{first.parameters} parameters, no optimizer holds them, and they keep their "
                f"initial values although they got a gradient in all {first.reached_steps} steps "
                "that were looked at"
            ),
            evidence={
                "elements": elements,
                "reached_steps": first.reached_steps,
                "limit": self.reached_steps,
            },
            location=next((seen.location for seen in hidden if seen.location), None),
        )

    def _uncalled(self, window: Window, uncalled: list[UnreachedModule]) -> Finding:
        share = sum(seen.share for seen in uncalled)
        steps = max(seen.own_steps for seen in uncalled)
        names = ", ".join(seen.module for seen in uncalled[:3])
        return self.finding(
            window,
            severity=Severity.WARNING if share > self.uncalled_share else Severity.INFO,
            step=min(counted_from(seen.step, seen.own_steps, seen.since) for seen in uncalled),
            last_step=max(seen.step for seen in uncalled),
            count=steps,
            layers=tuple(seen.module for seen in uncalled[:LAYERS_NAMED]),
            message=(
                f"{names} {'were' if len(uncalled) > 1 else 'was'} never called in {steps} steps: "
                f"{100 * share:.2g} % of what the optimizer holds"
            ),
            evidence={"share": share, "limit": self.uncalled_share, "own_steps": steps},
            fixes=("Call the module in `forward`, or remove it.",),
            location=next((seen.location for seen in uncalled if seen.location), None),
        )
