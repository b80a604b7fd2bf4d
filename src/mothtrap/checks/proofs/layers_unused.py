"""PRE501: the layers of the model, and the layers that no step uses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from mothtrap.checks.check import Check
from mothtrap.checks.subject import Subject
from mothtrap.core.facts.checks import LayerRow
from mothtrap.core.found import Found
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold


@frozen
class LayersUnused(Check):
    """The optimizer updates layers that no watched step calls.

    What it detects:
        Layers with parameters in the optimizer that were not called in the watched steps, and got
        no gradient; Keras layers that are called on a tensor of the model, but belong to no model.
        The check also counts layers, parameters, and multiplications, and makes the table that
        `mothtrap check --layers FILE` writes: datasets, inputs, layers, and the loss.

    Why it matters:
        A layer that is created but forgotten in `forward` makes the model smaller than it looks.

    Fires:
        Info if there are such layers. The message names up to `max_named` layers.

    Stays quiet:
        Layers whose parameters got a gradient in another way, such as tied weights.

    What to do:
        - Call the layer in `forward`, or remove it.
        - Ignore the finding if a later phase of the training uses the layer.

    Example:
        self.norm = nn.LayerNorm(64)   # never called in forward

    References:
        http://karpathy.github.io/2019/04/25/recipe/
    """

    code = "PRE501"
    title = "layers are not used"
    uses = ("step",)
    passed = "every layer is used"
    costs = 1
    max_named: int = threshold(4, unit="layers", source="chosen by hand")

    def run(self, subject: Subject) -> Iterable[Found]:
        """Build the table of layers, and report unused layers."""
        gradients = {one.module: one.gradient for one in reversed(subject.step.parameters)}
        layers = [
            msgspec.structs.replace(one, gradient=gradients.get(one.name, ""))
            for one in subject.forward.layers()
        ]
        subject.layers.extend([*subject.sources, *_inputs(subject), *layers, *_loss(subject)])
        subject.figures["layers"] = len(layers)
        subject.figures["parameters"] = sum(one.parameters for one in layers)
        subject.figures["trained"] = sum(one.parameters for one in layers if one.trained)
        operations = sum(one.multiplications for one in layers)
        if operations:
            subject.figures["multiplications per batch"] = operations
        idle = [
            one
            for one in subject.step.parameters
            if not one.called and one.gradient == "none" and one.module
        ]
        if left := subject.forward.left_out():
            yield self._left_out(subject, left)
        if not idle:
            return
        names = list(dict.fromkeys(one.module for one in idle))
        more = f" and {len(names) - self.max_named} more" if len(names) > self.max_named else ""
        subjects = "layer {} was" if len(names) == 1 else "layers {} were"
        named = subjects.format(", ".join(names[: self.max_named]) + more)
        yield Found(
            step=0,
            severity="info",
            message=f"{named} not called in {subject.step.watched} steps: {len(idle)} parameters "
            "of the optimizer are idle",
            layers=tuple(one.name for one in idle),
            location=subject.forward.location,
            evidence={"layers": len(names), "parameters": len(idle)},
        )

    def _left_out(self, subject: Subject, names: Sequence[str]) -> Found:
        named, several = ", ".join(names[: self.max_named]), len(names) > 1
        return Found(
            step=0,
            severity="info",
            message=f"{'layers' if several else 'layer'} {named} {'are' if several else 'is'} "
            f"called, but no model uses {'their outputs' if several else 'the output'}",
            layers=tuple(names),
            location=subject.forward.location,
            evidence={"layers": len(names)},
        )


def _inputs(subject: Subject) -> Iterator[LayerRow]:
    """Yield a row for each input of the model."""
    for path, array in subject.forward.inputs.items():
        yield LayerRow(part="input", name=path, kind=str(array.dtype), output=array.shape)


def _loss(subject: Subject) -> Iterator[LayerRow]:
    """Yield a row for the loss, if its call was observed."""
    loss = subject.step.loss
    if loss is not None:
        yield LayerRow(part="loss", name=loss.location or "", kind=loss.operation)
