"""PRE101: a layer is used, but its parameters never get a gradient."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from mothtrap.checks.check import Check
from mothtrap.checks.step import Cut, Forward, ParameterSeen
from mothtrap.checks.subject import Subject
from mothtrap.core.errors import NotApplicable
from mothtrap.core.found import Found
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold

PER_TOKEN = ("Embedding", "EmbeddingBag")
ROUNDED = 0.01
"""Range of a normalized output that has only rounding errors; chosen by hand."""
NORMALIZED = (
    "Normalize over more than one value: over a single value, the result is always the bias. Check "
    "the shape of the layer's input."
)
MULTIPLIED = (
    "Look for the place where these layers lose their effect: a unit that is always 0, a mask, a "
    "product with 0, or a loss that is constant."
)
"""Advice for gradients that are exactly 0."""


@frozen
class GradientMissing(Check):
    """A layer runs, but its parameters never get a gradient.

    What it detects:
        Parameters of the optimizer whose layer is called in each step, and that get no gradient in
        any watched step, or only gradients that are exactly zero.

    Why it matters:
        A parameter without a gradient keeps its initial value. The layer stays random, and the rest
        of the network has to compensate.

    Fires:
        Error when the parameters of a called layer have no gradient in any watched step. Warning
        when each gradient of a layer is exactly zero; the message names the first layer whose
        output is a single value. The check perturbs the layer's output and
        runs the model again: if the model's output changes, the graph is cut, and the check names
        the last layer that still has a graph. If the model's output does not change, no other layer
        uses the layer's output. The message names up to `max_named` layers.

    Stays quiet:
        A bias alone whose gradient is zero, because it may cancel in a difference of two outputs;
        layers that are not called, such as experts; embeddings; frozen parameters.

    What to do:
        - PyTorch: If the graph is cut, remove `detach()`, `.data`, `torch.no_grad()`, or a
          conversion to NumPy between the two named layers.
        - Keras: If the graph is cut, remove `tf.stop_gradient` or a conversion to NumPy between the
          two named layers.
        - If the output is not used, pass it on to the next layer, or remove the layer.
        - If the gradient is exactly 0, look for a normalization over a single value, units that
          are always 0, a mask, or a constant loss.

    Example:
        x = self.first(x).detach()

    References:
        http://karpathy.github.io/2019/04/25/recipe/
    """

    code = "PRE101"
    title = "a layer gets no gradient"
    uses = ("step",)
    explains = ("wrong_derivative", "cannot_overfit", "input_ignored", "disconnected_parameter")
    passed = "the gradient reaches every parameter that is used"
    costs = 1
    max_named: int = threshold(4, unit="layers", source="chosen by hand")

    def run(self, subject: Subject) -> Iterable[Found]:
        """Report layers without a gradient."""
        parameters = [one for one in subject.step.parameters if one.called]
        if not parameters:
            raise NotApplicable("no parameter of an optimizer belongs to a model that was called")
        subject.figures["parameters"] = len(parameters)
        lacking = [one for one in parameters if one.gradient == "none"]
        alive = {one.module for one in parameters if one.gradient != "zero"}
        zero = [one for one in parameters if one.module not in alive and one.kind not in PER_TOKEN]
        if lacking:
            yield self._without(subject, lacking)
        if zero and not lacking:
            yield self._zero(subject, zero, len(parameters))

    def _without(self, subject: Subject, lacking: Sequence[ParameterSeen]) -> Found:
        modules = list(dict.fromkeys(one.module for one in lacking))
        forward = subject.step.forward
        cut = forward.cut(modules[-1]) if forward is not None else Cut(reason="unknown")
        return Found(
            step=0,
            severity="error",
            message=f"{_listed(modules, self.max_named)} got no gradient in "
            f"{subject.step.watched} steps: {_reason(cut, modules[-1])}",
            layers=tuple(one.name for one in lacking),
            location=forward.location if forward is not None else None,
            evidence={"cut": cut.reason, "last": cut.last, "next": cut.next},
        )

    def _zero(self, subject: Subject, zero: Sequence[ParameterSeen], count: int) -> Found:
        modules = list(dict.fromkeys(one.module for one in zero))
        forward = subject.step.forward
        layer, kind = _constant(forward) if forward is not None else ("", "")
        return Found(
            step=0,
            severity="warning",
            message=f"{_listed(modules, self.max_named)}: each gradient was exactly 0 in "
            f"{subject.step.watched} steps ({len(zero)} of {count} parameters)"
            + (f"; the output of {layer} ({kind}) has the same value everywhere" if layer else ""),
            layers=tuple(one.name for one in zero),
            location=forward.location if forward is not None else None,
            fixes=(NORMALIZED if "Norm" in kind else MULTIPLIED,),
            evidence={"constant": layer},
        )


def _constant(forward: Forward) -> tuple[str, str]:
    """Return the name and type of the first layer with constant output; empty without such a layer.

    The result of a normalization has a range of about 1, unless it has only rounding errors.
    """
    kinds = {one.name: one.kind for one in forward.layers()}
    for name, output in forward.parts():
        kind = kinds.get(name, "layer")
        is_whole = name and output.size > 1 and len(output) == forward.rows
        if is_whole and np.ptp(output) <= (ROUNDED if "Norm" in kind else 0.0):
            return name, kind
    return "", ""


def _listed(modules: Sequence[str], most: int) -> str:
    if not any(modules):
        return "the model itself"
    named = [module or "the model itself" for module in modules]
    noun = "layer" if len(modules) == 1 else "layers"
    more = f" and {len(modules) - most} more" if len(modules) > most else ""
    return f"{noun} {', '.join(named[:most])}{more}"


def _reason(cut: Cut, module: str) -> str:
    if cut.reason == "unused":
        return f"the output of {module} has no influence on the model's output"
    if cut.reason == "no_grad":
        return f"{module} runs without a graph, as under torch.no_grad()"
    if cut.reason == "detached" and cut.next:
        return f"the graph is cut between {cut.last} and {cut.next}"
    if cut.reason == "detached":
        return f"the graph is cut after {cut.last}"
    return "the loss does not depend on them"
