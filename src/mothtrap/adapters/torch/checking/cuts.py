"""Find where the gradient path from a module to the model's output ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from mothtrap.adapters.torch.checking import trees
from mothtrap.checks.step import Cut


class CutFinder:
    """Compares an unchanged forward pass with a pass in which a module's output is disturbed.

    A module whose output changes although the graph does not lead from it to the disturbed module
    comes after the cut.

    Args:
        model: the model.
        call: calls the model with the recorded inputs, and with a graph.
    """

    def __init__(self, model: nn.Module, call: Callable[[], Any]) -> None:
        self._model, self._call = model, call

    def find(self, name: str) -> Cut:
        """Return where the path from a module to the outputs ends."""
        module = self._model.get_submodule(name)
        usual = self._outputs(None)
        changed = self._outputs(module)
        own = usual.get(name)
        if own is None:
            return Cut(reason="unknown")
        if own.grad_fn is None:
            return Cut(reason="no_grad", next=name)
        if not _differs(usual[""], changed[""]):
            return Cut(reason="unused")
        last = name
        for other, output in _after(usual, name):
            if other and other in changed and _differs(output, changed[other]):
                if not _leads_to(output, own):
                    return Cut(reason="detached", last=last, next=other)
                last = other
        if _leads_to(usual[""], own):
            return Cut(reason="unknown")
        return Cut(reason="detached", last=last)

    def _outputs(self, disturbed: nn.Module | None) -> dict[str, torch.Tensor]:
        """Return the first output of each module by name, in order of their ends.

        The name of the model itself is "".
        """
        found: dict[str, torch.Tensor] = {}
        handles = [
            part.register_forward_hook(_keeper(found, name, part is disturbed))
            for name, part in self._model.named_modules()
        ]
        try:
            self._call()
        finally:
            for handle in handles:
                handle.remove()
        return found


def _keeper(found: dict[str, torch.Tensor], name: str, disturb: bool) -> Callable[..., Any]:
    def keep(_module: nn.Module, _args: Any, output: Any) -> Any:
        if disturb:
            output = trees.mapped(output, _disturbed)
        for tensor in trees.floating(output)[:1]:
            found[name] = tensor
        return output

    return keep


def _disturbed(tensor: torch.Tensor) -> torch.Tensor:
    if not tensor.is_floating_point():
        return tensor
    noise = torch.randn(tensor.shape, generator=torch.Generator().manual_seed(0)).to(tensor)
    return tensor + noise * (tensor.detach().std(unbiased=False) + 1.0)


def _differs(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape != other.shape or not torch.equal(one.detach(), other.detach())


def _after(outputs: dict[str, torch.Tensor], name: str) -> list[tuple[str, torch.Tensor]]:
    names = list(outputs)
    return [(other, outputs[other]) for other in names[names.index(name) + 1 :]]


def _leads_to(output: torch.Tensor, source: torch.Tensor) -> bool:
    """Return whether the graph of an output contains the node of another tensor."""
    waiting, seen = [output.grad_fn], set[Any]()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        if node is source.grad_fn:
            return True
        seen.add(node)
        waiting += [other for other, _ in node.next_functions]
    return False
