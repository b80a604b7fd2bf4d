"""GRD104: parameters of an optimizer never receive a gradient."""

from __future__ import annotations

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.layers import DataTaken
from mothtrap.core.facts.modules import UnreachedModule
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._effects import UNLEARNED
from mothtrap.rules._onset import counted_from
from mothtrap.rules._reach import newest_modules, total_parameters

LAYERS_NAMED = 10
"""Most layers that a finding names."""

WITHOUT_GRAPH, DETACHED, UPSTREAM, ASIDE = "without graph", "detached", "upstream", "aside"
CHECKPOINT = "checkpoint"
CUT = (WITHOUT_GRAPH, DETACHED, CHECKPOINT)
"""Causes for which no gradient can reach the module."""


@frozen
class DisconnectedParameter(Rule):
    """Parameters of an optimizer never receive a gradient.

    What it detects:
        Parameters of an optimizer whose module runs in training but that no backward pass
        reaches. The module runs under `no_grad`, its output is detached, or its output leaves
        the graph before the loss. Or it runs in a reentrant checkpoint whose inputs need no
        gradient, such as behind frozen layers. A gradient of zero counts as reached.

    Why it matters:
        The parameters keep their initial values. Later layers learn from random features, so the
        loss falls, but less than it could.

    Fires:
        After `own_steps` steps of the optimizer without any gradient. Error when every call of
        the module ran without a graph, or its output is detached before the next module, and
        the weights still have the framework's default initialization. Warning when the weights
        do not, or when the module runs before every module that is reached. When its output does
        not contribute to the loss: warning if the unreached modules have their default
        initialization, and the model returns a tensor that depends on them or they have
        `aside_share` of the parameters. Else info.

    Stays quiet:
        For modules that are never called (see `unused_module`), modules that run only in some
        steps (experts), parameters that other code changes (a moving average of weights), and
        gradients that are zero.

    What to do:
        - PyTorch: Remove the `.detach()` (or `.data`, `.item()`, `.numpy()`) between the
          module and the loss.
        - Keras: Remove the `stop_gradient` (or `.numpy()`) between the layer and the loss.
        - JAX: Remove the `jax.lax.stop_gradient` between the layer and the loss.
        - PyTorch: Take the module out of `torch.no_grad()`, or remove the `.detach()` or the
          `.item()`, `.numpy()`, `torch.tensor(...)` between it and the loss.
        - PyTorch: Use its output in the loss, or leave the module out of the model.
        - Keras, JAX: Use its output in the loss; an `argmax` or rounding in between stops the
          gradient.
        - PyTorch: If it is frozen on purpose, set `requires_grad_(False)` on it and pass only
          the other parameters to the optimizer.
        - PyTorch: Pass `use_reentrant=False` to `checkpoint`, or call `requires_grad_()` on its
          input.
        - Keras: If it is frozen on purpose, set `layer.trainable = False` before `compile`.
        - JAX: If it is frozen on purpose, leave it out of the arguments that you differentiate.

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
        source="chosen by hand: alternating tasks or GAN players get a gradient sooner",
    )

    aside_share: float = threshold(
        0.1,
        unit="of the optimizer's parameters",
        source="chosen by hand: the unused pooler of a token classifier is smaller",
    )

    def check(self, window: Window) -> list[Finding]:
        """Check the latest report on every module that no backward pass reached."""
        if window.total_steps < self.own_steps:
            raise NotEnoughData(f"needs {self.own_steps} steps, saw {window.total_steps}")
        causes = [
            (cause, seen)
            for seen in newest_modules(window)
            if seen.own_steps >= self.own_steps and (cause := _cause(seen))
        ]
        for group in (CUT, (UPSTREAM,), (ASIDE,)):
            found = [seen for cause, seen in causes if cause in group]
            if found:
                if group[0] != ASIDE:  # include the modules that feed the detached one
                    found = [seen for cause, seen in causes if cause != ASIDE]
                first = next(cause for cause, _ in causes if cause in group)
                return [self._finding(window, first, found)]
        return []

    def _weighs(self, found: list[UnreachedModule]) -> bool:
        """Return whether modules that miss the loss are a large, untrained part of the model."""
        share = sum(seen.share for seen in found)
        is_untouched = all(seen.untouched for seen in found)
        return is_untouched and (share >= self.aside_share or any(s.given_out for s in found))

    def _finding(self, window: Window, cause: str, found: list[UnreachedModule]) -> Finding:
        severity = Severity.WARNING
        if cause in CUT and any(seen.untouched for seen in found):
            severity = Severity.ERROR
        elif cause == ASIDE and not self._weighs(found):
            severity = Severity.INFO
        first, steps = found[0], max(seen.own_steps for seen in found)
        count = total_parameters(found)
        cut = next((seen.detached_before for seen in found if seen.detached_before), None)
        words = {
            CHECKPOINT: "its module runs in a reentrant checkpoint whose inputs need no gradient",
            WITHOUT_GRAPH: "its module only runs without a graph, as under `torch.no_grad()`",
            DETACHED: f"the output of its module is detached before {cut}",
            UPSTREAM: "the output of its module leaves the graph before the next module",
            ASIDE: "the output of its module does not contribute to the loss",
        }[cause]
        if cause == ASIDE and any(seen.given_out for seen in found):
            words += ", although the model returns a tensor that depends on it"
        checkpoint = [fix for fix in self.fixes(window) if "use_reentrant" in fix]
        detached, without_graph, *others = (f for f in self.fixes(window) if f not in checkpoint)
        fixes = (detached if cause in (DETACHED, UPSTREAM) else without_graph, *others)
        if cause == CHECKPOINT:
            fixes = (*checkpoint, *others)
        if cause == ASIDE:
            fixes = tuple(sorted(fixes, key=lambda fix: "in the loss" not in fix))
        return self.finding(
            window,
            severity=severity,
            step=min(counted_from(seen.step, seen.own_steps, seen.since) for seen in found),
            last_step=max(seen.step for seen in found),
            count=steps,
            layers=tuple(seen.module for seen in found[:LAYERS_NAMED]),
            message=(
                f"{count} parameters got no gradient in {steps} steps (limit {self.own_steps}), "
                f"starting with {first.parameters[0]}: {words}"
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
    """Return the line that detached the input of a layer, or of one of its sublayers."""
    for seen in window.seen(DataTaken):
        if layer and seen.cut_at is not None and f"{seen.layer}.".startswith(f"{layer}."):
            return seen.cut_at
    return None


def _cause(seen: UnreachedModule) -> str:
    """Return why no gradient reaches a module; '' if this rule does not apply."""
    if seen.changed:
        return ""
    if seen.runs and seen.runs_in_checkpoint == seen.runs:
        return CHECKPOINT
    only_evaluated = not seen.runs and 2 * seen.runs_in_evaluation >= seen.own_steps
    if only_evaluated or (seen.runs and seen.runs_without_graph == seen.runs):
        return WITHOUT_GRAPH
    if seen.detached_before is not None:
        return DETACHED
    if not seen.runs:
        return ""
    return UPSTREAM if seen.upstream else ASIDE
