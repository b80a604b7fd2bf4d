"""PRE202: the model has state that a checkpoint does not contain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from mothtrap.checks.check import Check
from mothtrap.checks.step import Array, relative_change
from mothtrap.checks.subject import Subject
from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.found import Found
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold


@frozen
class StateNotSaved(Check):
    """The model has state that its `state_dict` does not contain.

    What it detects:
        Tensors that change in training and that the output depends on, but that are neither
        parameters nor persistent buffers. Examples are a running mean in a plain attribute, and
        layers in a Python list.

    Why it matters:
        A checkpoint does not contain these tensors. After loading the checkpoint, they have their
        initial values, so the model returns different outputs than the trained model.

    Fires:
        Warning when the output in evaluation mode changes by more than `least` standard deviations
        after such a tensor is reset to its value before the first step. The change must also be ten
        times the difference between two equal calls. The message names up to `max_named` tensors.

    Stays quiet:
        Tensors that do not change, such as masks; tensors with an axis as long as the batch, such
        as cached outputs and hidden states; modules that define `state_dict` or `get_extra_state`.

    What to do:
        - PyTorch: Register the tensor with `register_buffer(name, tensor)`.
        - PyTorch: Put layers into an `nn.ModuleList` or `nn.ModuleDict`.
        - If another part of the script saves the tensor, ignore this finding.

    Example:
        self.mean = 0.9 * self.mean + 0.1 * x.mean(0)

    References:
        https://pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.register_buffer
    """

    code = "PRE202"
    title = "a checkpoint does not contain all state"
    uses = ("step",)
    passed = "a checkpoint contains all state of the model"
    costs = 1
    least: float = threshold(1e-3, unit="standard deviations", source="chosen by hand")
    max_named: int = threshold(4, unit="tensors", source="chosen by hand")

    def run(self, subject: Subject) -> Iterable[Found]:
        """Report tensors whose initial value changes the output."""
        forward = subject.forward
        stale = forward.stale()
        if stale is None:
            raise NotApplicable("the framework saves all state of a model")
        if not stale:
            return
        usual, again = forward.outputs(), forward.outputs()
        if not all(np.isfinite(one).all() for one in usual):
            raise NotEnoughData("an output of the model is not finite")
        least = max(self.least, 10 * _change(usual, again))
        sizes = {name: _change(usual, outputs) for name, outputs in _independent(stale, usual)}
        lost = {name: size for name, size in sizes.items() if size > least}
        if not lost:
            return
        more = f" and {len(lost) - self.max_named} more" if len(lost) > self.max_named else ""
        yield Found(
            step=0,
            severity="warning",
            message=f"{forward.model}.state_dict() does not contain "
            f"{', '.join(list(lost)[: self.max_named])}{more}: with their initial values, "
            f"the outputs differ by {max(lost.values()):.2g} standard deviations",
            layers=tuple(lost),
            location=forward.location,
            evidence={"change": max(lost.values())},
        )


def _independent(
    stale: Mapping[str, tuple[Array, ...]], usual: tuple[Array, ...]
) -> Iterable[tuple[str, tuple[Array, ...]]]:
    """Yield the outputs that can be compared."""
    shapes = [one.shape for one in usual]
    return ((n, found) for n, found in stale.items() if [one.shape for one in found] == shapes)


def _change(before: tuple[Array, ...], after: tuple[Array, ...]) -> float:
    return max((relative_change(a, b) for a, b in zip(before, after, strict=True)), default=0.0)
