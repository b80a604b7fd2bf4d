"""Explanation of an exception by one kind of mistake, with helpers for all kinds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from mothtrap.adapters.torch.explaining import wording
from mothtrap.adapters.torch.explaining.scene import Call, Scene
from mothtrap.adapters.torch.explaining.sources import Sources, arguments, first_tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """An exception explained in words; fields as in `ScriptFailed`."""

    kind: str
    sentence: str
    fixes: tuple[str, ...] = ()
    module: nn.Module | None = None
    inputs: tuple[str, ...] = ()
    concerns_batch: bool = True


def explain_module(
    kind: str, scene: Scene, sources: Sources, call: Call, needs: str, fixes: tuple[str, ...]
) -> Explanation | None:
    """Explain which input a module got, and which input it needs.

    Args:
        kind: kind of the mistake.
        scene: origin of the exception.
        sources: origins of tensors.
        call: call of the module.
        needs: words after "got x of shape (32, 64): ".
        fixes: advice, most likely first.
    """
    given = first_tensor(call)
    if given is None:
        return None
    name, tensor = given
    of = "shape " + wording.shape(tensor) if kind == "shape" else wording.tensor(tensor)
    subject = sources.named(call.module)
    sentence = f"{subject} got {written(tensor, name, scene)} of {of}: {needs}"
    made = sources.told(tensor, scene)
    return Explanation(
        kind=kind,
        sentence=f"{sentence}; it {made}" if made else sentence,
        fixes=fixes,
        module=call.module,
        inputs=wording.inputs_in_words(arguments(call)),
    )


def explain_expression(
    kind: str, scene: Scene, sources: Sources, needs: str, fixes: tuple[str, ...]
) -> Explanation:
    """Explain the fault of the tensors in a failed expression."""
    operands = []
    for name, value in scene.operands.items():
        made = sources.told(value, scene) if isinstance(value, torch.Tensor) else ""
        operands.append(f"{name} is {wording.value(value)}{f' and {made}' if made else ''}")
    what = f"`{' '.join(scene.code.split())[:120]}`" if scene.code else "an operation"
    where = f" ({scene.location})" if scene.location else ""
    inside = scene.innermost
    if inside is not None:
        at = f", at {scene.location}" if scene.location else ""
        where = f" in {sources.named(inside.module)}{at}"
    sentence = f"{what}{where}: {needs}"
    return Explanation(
        kind=kind,
        sentence="; ".join([sentence, wording.joined(operands)] if operands else [sentence]),
        fixes=fixes,
        module=inside.module if inside is not None else None,
        inputs=wording.inputs_in_words(scene.operands.items()),
    )


def written(tensor: torch.Tensor, name: str, scene: Scene) -> str:
    """Return the user's expression for a tensor, or else the argument name."""
    own = next((text for text, value in scene.operands.items() if value is tensor), None)
    return own or name


def tensors_of(scene: Scene) -> Iterator[tuple[str, torch.Tensor]]:
    """Return every tensor passed to the failed operation, with a name."""
    call = scene.subject
    given: Iterator[tuple[str, Any]] = (
        arguments(call) if call is not None else iter(scene.operands.items())
    )
    for name, value in given:
        parts = value if isinstance(value, list | tuple) else [value]
        for place, part in enumerate(parts):
            if isinstance(part, torch.Tensor):
                yield (name if part is value else f"{name}[{place}]"), part
