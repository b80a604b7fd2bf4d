"""OPT604: a parameter gets gradients, but no optimizer holds it."""

from __future__ import annotations

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.optimizers import OptimizerFacts, UnownedParameter
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._effects import UNLEARNED
from mothtrap.rules._onset import counted_from
from mothtrap.rules._weights import optimizer_facts

OTHER_MODEL = (
    "Pass the parameters of every trained model to the optimizer: "
    "`[*encoder.parameters(), *decoder.parameters()]`.",
    "Set `requires_grad=False` if the model should not change.",
)
MADE_ANEW = (
    "Create layers once, in `__init__` (in Keras also `build`), and only call them in `forward` or "
    "`call`.",
)
UNTRACKED = (
    "Create weights with `self.add_weight(...)` in `build`, so that `trainable_variables` "
    "contains them.",
    "Pass `trainable=False` if the variable should not change.",
)


@frozen
class ParameterWithoutOptimizer(Rule):
    """A parameter gets gradients, but no optimizer holds it.

    What it detects:
        A parameter of a trained model that gets a nonzero gradient but never changes, because no
        live optimizer holds it.

    Why it matters:
        This part of the model keeps its random initial values, and the rest of the model has to
        compensate.

    Fires:
        After `reached_steps` steps with a gradient. Error when the parameter was created after the
        optimizer, when an optimizer holds an unused parameter of the same shape instead, when it
        lies between trained parameters and the loss, or when its line creates a new one in each
        step. Warning when no layer tracks it (a `tf.Variable` in a Keras layer), when its neighbors
        in the same part of the model are trained, when nothing of its model is trained and the
        model looks newly initialized, or when more than `fresh_share` of its model is in no
        optimizer and looks newly initialized. Info for a whole part before the trained layers: a
        frozen backbone.

    Stays quiet:
        Parameters with `requires_grad=False`. Parameters that the script updates by hand.
        Parameters of optimizers that rarely step.

    What to do:
        - Create the optimizer after the model is complete, from `model.parameters()`.
        - Pass the parameters of every trained model to the optimizer: `[*encoder.parameters(),
          *decoder.parameters()]`.
        - Add later parameters with `optimizer.add_param_group({"params": ...})`.
        - PyTorch: Set `requires_grad=False` if this part should not change.

    Example:
        optimizer = torch.optim.Adam(model.parameters())
        model.head = nn.Linear(128, 10)      # its parameters are in no optimizer

    References:
        https://docs.pytorch.org/docs/stable/optim.html#constructing-it
    """

    code = "OPT604"
    needs = (
        Need(facts=(UnownedParameter,)),
        Need(facts=(OptimizerFacts,), optional=True),
        Need(kinds=("gradient",), statistics=("l2",), optional=True),
    )
    explains = (*UNLEARNED, "detached_term", "eval_mode_in_training")

    reached_steps: int = threshold(
        20,
        unit="steps in which the parameter got a non-zero gradient",
        source="chosen by hand: alternating optimizers and inner loops step sooner",
    )
    fresh_share: float = threshold(
        0.4, unit="of the model's elements", source="chosen by hand: an encoder is about half"
    )

    def check(self, window: Window) -> list[Finding]:
        """Check the newest count of every parameter that no optimizer holds."""
        if window.total_steps < self.reached_steps:
            raise NotEnoughData(f"needs {self.reached_steps} steps, saw {window.total_steps}")
        newest = {seen.name: seen for seen in window.seen(UnownedParameter)}
        idle = [
            seen
            for seen in newest.values()
            if seen.reached_steps >= self.reached_steps and not seen.changed
        ]
        if not idle:
            return []
        parts = _trained_parts(window)
        ranked = sorted(idle, key=lambda seen: self._severity(seen, parts).rank)
        severity = self._severity(ranked[0], parts)
        worst = [seen for seen in ranked if self._severity(seen, parts) is severity]
        return [self._finding(window, worst, severity)]

    def _finding(
        self, window: Window, worst: list[UnownedParameter], severity: Severity
    ) -> Finding:
        first = worst[0]
        # It has been idle since the first of the steps that reached it.
        onset = min(counted_from(seen.step, seen.reached_steps, seen.since) for seen in worst)
        return self.finding(
            window,
            severity=severity,
            step=onset,
            last_step=max(seen.step for seen in worst),
            count=max(seen.reached_steps for seen in worst),
            layers=tuple(seen.name for seen in worst),
            message=_message(worst, self._reason(first)),
            evidence={
                "reached_steps": first.reached_steps,
                "limit": self.reached_steps,
                "parameters": len(worst),
                "created_after_optimizer": first.created_after_optimizer,
                "twin": first.twin,
                "downstream_of_trained": first.downstream_of_trained,
            },
            location=_location(window, worst),
            fixes=_advice(first),
        )

    def _severity(self, seen: UnownedParameter, trained_parts: set[str]) -> Severity:
        if seen.created_after_optimizer or seen.twin is not None or seen.downstream_of_trained:
            return Severity.ERROR
        if seen.made_anew:
            return Severity.ERROR
        if seen.untracked or seen.model_untouched or self._is_fresh(seen):
            return Severity.WARNING
        part, dot, _ = seen.name.partition(".")
        return Severity.WARNING if dot and part in trained_parts else Severity.INFO

    def _is_fresh(self, seen: UnownedParameter) -> bool:
        return (seen.fresh_share or 0.0) > self.fresh_share

    def _reason(self, seen: UnownedParameter) -> str:
        if seen.made_anew:
            return f": the line creates a new parameter in each step ({seen.made_anew} so far)"
        if seen.untracked:
            return ": no layer tracks it, so it is not among the model's weights"
        if seen.created_after_optimizer:
            return ": it was created after the optimizer"
        if seen.twin is not None:
            return f": the optimizer holds the unused {seen.twin} of the same shape instead"
        if seen.downstream_of_trained:
            return ": it lies between trained parameters and the loss"
        if self._is_fresh(seen):
            return f": {seen.fresh_share:.0%} of the model keeps its random initial values"
        return ""


def _advice(seen: UnownedParameter) -> tuple[str, ...] | None:
    """Return the fixes; None for the rule's own fixes."""
    if seen.made_anew:
        return MADE_ANEW
    if seen.untracked:
        return UNTRACKED
    return OTHER_MODEL if seen.model_untouched else None


def _message(idle: list[UnownedParameter], reason: str) -> str:
    first, several = idle[0], len(idle) > 1
    if first.model_untouched:
        count = f"{len(idle)} parameters" if several else "parameter"
        of = f" of {first.model}" if first.model else ""
        what = "they get gradients and keep their" if several else "it gets gradients and keeps its"
        return f"no optimizer holds the {count}{of}: {what} initial values"
    what = f"{len(idle)} parameters get" if several else f"{first.name} gets"
    return f"{what} gradients, but no optimizer holds {'them' if several else 'it'}{reason}"


def _location(window: Window, idle: list[UnownedParameter]) -> str | None:
    """Return the line to change: the optimizer of another model, or a later layer."""
    made_at = {seen.location for seen in optimizer_facts(window).values() if seen.location}
    if len(made_at) == 1 and idle[0].model_untouched:
        return made_at.pop()
    return next((seen.location for seen in idle if seen.location), None)


def _trained_parts(window: Window) -> set[str]:
    """Return the top-level parts of the model that are trained."""
    gradients = window.matrix("gradient", "l2")
    return {t.name.partition(".")[0] for t in gradients.tensors} if gradients else set()
