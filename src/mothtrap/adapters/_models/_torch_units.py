"""Hidden channels of a PyTorch module: how important each one is, and the module without some.

Shape suffixes: U = units of all layers, R = rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

ROWS = 1_024
"""Rows from which the importance is computed; chosen by hand."""


class TorchUnits:
    """Channels of all hidden linear and convolutional layers of a module.

    Args:
        model: the module.
        forward: calls the module on rows in evaluation mode, with gradients; returns its output.
    """

    def __init__(self, model: Any, forward: Callable[[Any], Any]) -> None:
        self._model, self._forward = model, forward

    def importance(self, rows: Any) -> list[npt.NDArray[np.float64]]:
        """Return the importance of each channel, one array (channels,) for each hidden layer.

        It is the mean of |deviation of the activation x gradient|, summed over positions, as a
        share of the length of the layer's vector (Molchanov et al., 2017). The gradient is that of
        the answer, see `_answer`: that of the loss vanishes for all rows which the model gets
        right. Layers are in the order of their calls. The last one is the output, and is left out.
        """
        import torch

        seen: dict[Any, Any] = {}

        def keep(layer: Any, _: Any, output: Any) -> None:
            seen[layer] = output

        with self._hooked(keep), torch.enable_grad():
            answer = _answer(self._forward(rows[:ROWS]))
            outputs = list(seen.values())[:-1]
            found = torch.autograd.grad(answer, outputs, allow_unused=True) if outputs else ()
        self._layers = list(seen)[:-1]
        self._means = [
            _mean(layer, each) for layer, each in zip(self._layers, outputs, strict=True)
        ]
        return [
            _of_layer(layer, output - mean, gradient)
            for layer, output, mean, gradient in zip(
                self._layers, outputs, self._means, found, strict=True
            )
        ]

    @contextmanager
    def without(self, dropped: list[npt.NDArray[np.bool_]]) -> Iterator[None]:
        """Hold channels at their mean while the block runs; a mask (channels,) for each layer.

        A constant channel can be removed: it becomes a part of the next bias.
        """
        import torch

        masks = dict(zip(self._layers, zip(dropped, self._means, strict=True), strict=True))

        def hold(layer: Any, _: Any, output: Any) -> Any:
            if layer not in masks:
                return None
            is_held, mean = masks[layer]
            return torch.where(_along(is_held, layer, output), mean, output)

        with self._hooked(hold):
            yield

    @contextmanager
    def _hooked(self, hook: Callable[..., Any]) -> Iterator[None]:
        """Call a hook after each linear and convolutional layer."""
        import torch

        kinds = (torch.nn.Linear, torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)
        handles = [
            part.register_forward_hook(hook)
            for part in self._model.modules()
            if isinstance(part, kinds)
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()


def _axis(layer: Any, output: Any) -> int:
    """Return the axis of the channels."""
    import torch

    return int(output.dim()) - 1 if isinstance(layer, torch.nn.Linear) else 1


def _along(values: Any, layer: Any, output: Any) -> Any:
    """Return one value per channel in the shape of an output of the layer."""
    import torch

    shape = [1] * output.dim()
    shape[_axis(layer, output)] = -1
    return torch.as_tensor(values, device=output.device).reshape(shape)


def _mean(layer: Any, output: Any) -> Any:
    """Return the mean of each channel over rows and positions, in the shape of the output."""
    others = [each for each in range(output.dim()) if each != _axis(layer, output)]
    return output.detach().mean(dim=others, keepdim=True)


def _of_layer(layer: Any, output: Any, gradient: Any) -> npt.NDArray[np.float64]:
    axis = _axis(layer, output)
    if gradient is None:  # the output does not depend on the layer
        return np.zeros(output.shape[axis])
    others = [each for each in range(1, output.dim()) if each != axis]
    product = (output * gradient).detach()
    if others:
        product = product.sum(dim=others)
    found = product.abs().mean(dim=0).double().cpu().numpy()
    length = float(np.sqrt((found**2).sum()))
    return np.asarray(found / length if length else found)


def _answer(output: Any) -> Any:
    """Return the sum of what decides the answers: the margin of the first class, or the number."""
    output = output.reshape(len(output), -1)
    if output.shape[1] == 1:
        return output.sum()
    if bool((output >= 0).all()) and bool(((output.sum(dim=1) - 1).abs() < 1e-3).all()):
        output = output.clamp_min(1e-12).log()  # probabilities are flat where they are sure
    first = output.topk(2, dim=1).values
    return (first[:, 0] - first[:, 1]).sum()
