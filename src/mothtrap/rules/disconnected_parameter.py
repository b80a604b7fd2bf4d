"""GRD104: no gradient ever reaches parameters that are to be trained."""

from __future__ import annotations

from dataclasses import dataclass

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.layers import DataTaken
from mothtrap.core.facts.modules import UnreachedModule
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._effects import UNLEARNED
from mothtrap.rules._onset import counted_from
from mothtrap.rules._reach import newest_modules, total_parameters

LAYERS_NAMED = 10
"""Layers that a finding names, at most."""

WITHOUT_GRAPH, DETACHED, UPSTREAM, ASIDE = "without graph", "detached", "upstream", "aside"


@dataclass(frozen=True)
class DisconnectedParameter(Rule):
    """No gradient ever reaches parameters that are to be trained.

    What it detects:
        Parameters of an optimizer in modules that run in training, and that no backward has
        ever reached: they run under `no_grad`, their output is detached, or it leaves the
        graph on its way to the loss. A gradient of zero counts as reached.

    Why it matters:
        The parameters keep their initial values for ever. What comes after them learns
        from random features, so the loss falls, only not as far as it could.

    Fires:
        After `own_steps` steps of the optimizer without any gradient. Error when every call
        of the module made no graph, or its output was seen cut off where the next module
        takes it, and the weights look as the framework initializes them. Warning when they
        do not, or when the module runs before all that is reached. When its output just does not
        reach the loss, warning if such modules have `aside_share` of the parameters and look
        as initialized, else info.

    Stays quiet:
        Modules that are never called (those are unused), parts that rest in some steps such
        as experts, parameters that other code changes, such as a moving average of
        others, and gradients that are zero.

    What to do:
        - PyTorch: Remove the `.detach()` (or `.data`, `.item()`, `.numpy()`) between the
          module and the loss.
        - Keras: Remove the `stop_gradient` (or `.numpy()`) between the layer and the loss.
        - JAX: Remove the `jax.lax.stop_gradient` between the layer and the loss.
        - PyTorch: Take the module out of `torch.no_grad()`, or remove the `.detach()` or the
          `.item()`, `.numpy()`, `torch.tensor(...)` between it and the loss.
        - Keras, JAX: Use its output in the loss; an `argmax` or a rounding between them
          stops the gradient.
        - PyTorch: When it is not meant to be trained, set `requires_grad_(False)` on it and
          give the optimizer the other parameters only.
        - Keras: When it is not meant to be trained, set `layer.trainable = False` before
          `compile`.
        - JAX: When it is not meant to be trained, leave it out of what is differentiated by.

    Example:
        with torch.no_grad():
            z = self.encoder(x)       # the encoder never gets a gradient
        return self.head(z)

    References:
        https://docs.pytorch.org/docs/stable/notes/autograd.html#locally-disabling-gradient-computation
    """

    code = "GRD104"
    needs = (Need(facts=(UnreachedModule,)), Need(facts=(DataTaken,), optional=True))
    explains = (
        *UNLEARNED,
        "constant_output",
        "learning_rate_too_low",
        "unchanged_tensor",
        "unused_module",
        "update_ratio",
    )
    passes = True

    own_steps: int = threshold(
        20,
        unit="steps of the optimizer",
        source="chosen by hand: tasks and players that take turns come round sooner",
    )

    aside_share: float = threshold(
        0.1,
        unit="of the optimizer's parameters",
        source="chosen by hand: the pooler that a classifier of tokens leaves aside has less",
    )

    def check(self, window: Window) -> list[Finding]:
        """Judge what was told last of every module that no backward had reached."""
        if window.total_steps < self.own_steps:
            raise NotEnoughData(
                f"{window.total_steps} steps were seen, {self.own_steps} are needed"
            )
        causes = [
            (cause, seen)
            for seen in newest_modules(window)
            if seen.own_steps >= self.own_steps and (cause := _cause(seen))
        ]
        for group in ((WITHOUT_GRAPH, DETACHED), (UPSTREAM,), (ASIDE,)):
            found = [seen for cause, seen in causes if cause in group]
            if found:
                if group[0] != ASIDE:  # with what feeds the module that is cut off
                    found = [seen for cause, seen in causes if cause != ASIDE]
                first = next(cause for cause, _ in causes if cause in group)
                return [self._finding(window, first, found)]
        return []

    def _weighs(self, found: list[UnreachedModule]) -> bool:
        """Return whether modules beside the loss are a large part that nothing has trained."""
        share = sum(seen.share for seen in found)
        return share >= self.aside_share and all(seen.untouched for seen in found)

    def _finding(self, window: Window, cause: str, found: list[UnreachedModule]) -> Finding:
        severity = Severity.WARNING
        if cause in (WITHOUT_GRAPH, DETACHED) and any(seen.untouched for seen in found):
            severity = Severity.ERROR
        elif cause == ASIDE and not self._weighs(found):
            severity = Severity.INFO
        first, steps = found[0], max(seen.own_steps for seen in found)
        count = total_parameters(found)
        cut = next((seen.detached_before for seen in found if seen.detached_before), None)
        words = {
            WITHOUT_GRAPH: "it only runs without a graph (no_grad)",
            DETACHED: f"its output is detached before {cut}",
            UPSTREAM: "its output leaves the graph before what comes after it",
            ASIDE: "its output does not reach the loss",
        }[cause]
        detached, without_graph, *others = self.fixes(window)
        fixes = (detached if cause == DETACHED else without_graph, *others)
        return self.finding(
            window,
            severity=severity,
            step=min(counted_from(seen.step, seen.own_steps, seen.since) for seen in found),
            last_step=max(seen.step for seen in found),
            count=steps,
            layers=tuple(seen.module for seen in found[:LAYERS_NAMED]),
            message=(
                f"{count} parameters have had no gradient in {steps} steps, beginning with "
                f"{first.parameters[0]}: {words}"
            ),
            evidence={
                "parameters": count,
                "share": sum(seen.share for seen in found),
                "own_steps": steps,
                "limit": self.own_steps,
                "cause": cause,
                "detached_before": cut,
            },
            location=(_cut_at(window, cut) if cause == DETACHED else None)
            or next((seen.location for seen in found if seen.location), None),
            fixes=fixes,
        )


def _cut_at(window: Window, layer: str | None) -> str | None:
    """Return the line that detached the input of a layer, or of one inside it."""
    for seen in window.seen(DataTaken):
        if layer and seen.cut_at is not None and f"{seen.layer}.".startswith(f"{layer}."):
            return seen.cut_at
    return None


def _cause(seen: UnreachedModule) -> str:
    """Return why a module is not reached; '' when it is not this rule's to say."""
    if seen.changed:
        return ""
    only_evaluated = not seen.runs and 2 * seen.runs_in_evaluation >= seen.own_steps
    if only_evaluated or (seen.runs and seen.runs_without_graph == seen.runs):
        return WITHOUT_GRAPH
    if seen.detached_before is not None:
        return DETACHED
    if not seen.runs:
        return ""
    return UPSTREAM if seen.upstream else ASIDE
