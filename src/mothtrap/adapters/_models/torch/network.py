"""Outputs and gradients of a PyTorch module.

Shape suffixes: R = rows, K = outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mothtrap.core.errors import NotApplicable
from mothtrap.core.wrapped_models import Held, LayerOutput


class TorchNetwork:
    """A module as a network; see `core.wrapped_models.Network`.

    Args:
        model: the module.
        feed: returns rows as a tensor for the module.
        forward: calls the module on such a tensor in evaluation mode; returns its output.
    """

    def __init__(
        self, model: Any, feed: Callable[[Any], Any], forward: Callable[[Any], Any]
    ) -> None:
        self._model, self._feed, self._forward = model, feed, forward

    def outputs(self, rows: Any) -> npt.NDArray[np.float64]:
        """Return the outputs, shape (rows, outputs)."""
        import torch

        with torch.no_grad():
            return _array(self._answer(self._feed(rows))).astype(np.float64)

    def layers(self, rows: Any) -> list[LayerOutput]:
        """Return the outputs of all layers without sublayers, in the order of their calls."""
        import torch

        seen: dict[str, npt.NDArray[np.float32]] = {}
        parts = dict(self._model.named_modules())

        def keep(name: str, output: Any) -> None:
            if torch.is_tensor(output) and output.is_floating_point():
                seen[name] = _array(_last(parts[name], output))  # before a layer works in place

        with self._hooked(keep), torch.no_grad():
            self._forward(self._feed(rows))
        return [
            LayerOutput(name=name, kind=_kind(parts[name]), values=values)
            for name, values in seen.items()
        ]

    def gradient(
        self, rows: Any, weight_RK: npt.NDArray[np.float64], layer: str = ""
    ) -> npt.NDArray[np.float32]:
        """Return the gradient of the weighted sum of the outputs; see `Network.gradient`."""
        import torch

        reached: list[Any] = []

        def keep(name: str, output: Any) -> Any:
            if name != layer:
                return None
            reached.append(output.detach().requires_grad_())
            return reached[-1].clone()  # the next layer may work in place

        with self._hooked(keep), torch.enable_grad():
            fed = self._feed(rows)
            if not layer:
                if not fed.is_floating_point():
                    raise NotApplicable("the inputs are whole numbers, which have no gradient")
                reached.append(fed.detach().clone().requires_grad_())
                fed = reached[-1].clone()
            answer = self._answer(fed)
            weights = torch.as_tensor(weight_RK, dtype=answer.dtype, device=answer.device)
            lead, at = (answer * weights).sum(), reached[-1:]
            found: Any = torch.autograd.grad(lead, at, allow_unused=True)[0]
        if found is None:
            found = torch.zeros_like(reached[-1])
        return _array(_last(dict(self._model.named_modules())[layer], found) if layer else found)

    @contextmanager
    def shuffled(self, layers: Sequence[str], rng: np.random.Generator) -> Iterator[None]:
        """Shuffle the weights of some layers while a block runs."""
        import torch

        parts = dict(self._model.named_modules())
        held = {name: dict(parts[name].named_parameters(recurse=False)) for name in layers}
        before = [(p, p.detach().clone()) for named in held.values() for p in named.values()]
        try:
            with torch.no_grad():
                for parameter, values in before:
                    order = torch.as_tensor(rng.permutation(values.numel()), device=values.device)
                    parameter.copy_(values.reshape(-1)[order].reshape(values.shape))
            yield
        finally:
            with torch.no_grad():
                for parameter, values in before:
                    parameter.copy_(values)

    @contextmanager
    def holding(self, held: Held) -> Iterator[None]:
        """Hold channels at a value while a block runs; see `Network.holding`."""
        import torch

        parts = dict(self._model.named_modules())

        def hold(name: str, output: Any) -> Any:
            if name not in held:
                return None
            last = _last(parts[name], output)  # a view of the output
            mask, values = (torch.as_tensor(each, device=last.device) for each in held[name])
            changed = torch.where(mask, values.to(last.dtype), last)
            return changed if last is output else changed.movedim(-1, 1)

        with self._hooked(hold):
            yield

    def _answer(self, fed: Any) -> Any:
        output = self._forward(fed)
        return output.reshape(len(output), -1)

    @contextmanager
    def _hooked(self, act: Callable[[str, Any], Any]) -> Iterator[None]:
        """Call a function with name and output of each part that has no parts itself."""

        def hook_of(name: str) -> Callable[[Any, Any, Any], Any]:
            return lambda _, __, output: act(name, output)

        handles = [
            part.register_forward_hook(hook_of(name))
            for name, part in self._model.named_modules()
            if name and not list(part.children())
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()


def _kind(part: Any) -> Literal["linear", "convolution", "other"]:
    import torch

    if isinstance(part, torch.nn.Linear):
        return "linear"
    kinds = (torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)
    return "convolution" if isinstance(part, kinds) else "other"


def _last(part: Any, output: Any) -> Any:
    """Return an output with its channels on the last axis."""
    is_convolved = _kind(part) == "convolution" and output.dim() > 2
    if is_convolved or (_kind(part) == "other" and output.dim() >= 4):
        return output.movedim(1, -1)
    return output


def _array(tensor: Any) -> npt.NDArray[np.float32]:
    from mothtrap.statistics.torch.in_place import as_array

    return np.asarray(as_array(tensor.detach().cpu().float().contiguous())).copy()
