"""Hidden channels of a Keras model: how important each one is, and the model without some.

Shape suffixes: R = rows, U = channels, K = outputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from mothtrap.adapters._models.keras.network import KerasNetwork, name_of
from mothtrap.core.errors import NotApplicable
from mothtrap.core.wrapped_models import LayerOutput

ROWS = 1_024
"""Rows from which the importance is computed; chosen by hand."""
SMALLEST = 1e-12

Floats = npt.NDArray[np.float64]


class KerasUnits:
    """Channels of the hidden dense and convolutional layers; see `core.wrapped_models.HiddenUnits`.

    Args:
        network: the model.

    Attributes:
        is_holding: channels are held now, so that the model must be called layer by layer.
    """

    def __init__(self, network: KerasNetwork) -> None:
        self._network = network
        self._means: dict[str, Any] = {}
        self.is_holding = False

    def importance(self, rows: Any) -> list[Floats]:
        """Return the importance of each channel, one array (U,) for each hidden layer.

        It is the mean of |deviation of the activation x gradient of the lead of the first class|,
        summed over positions, as a share of the length of the layer's vector (Molchanov et al.,
        2017). The last layer is the output, and is left out.
        """
        if isinstance(rows, dict):
            raise NotApplicable("the inputs are several arrays")
        some = rows[:ROWS]
        weight_RK = _lead(self._network.outputs(some))
        hidden = [each for each in self._network.layers(some) if each.kind != "other"][:-1]
        self._means = {each.name: _mean(each) for each in hidden}
        found = []
        for layer in hidden:
            slope = self._network.gradient(some, weight_RK, layer.name)
            product = (layer.values - self._means[layer.name]) * slope
            positions = tuple(range(1, product.ndim - 1))
            size_U = np.abs(product.sum(axis=positions)).mean(axis=0).astype(np.float64)
            length = float(np.sqrt(np.square(size_U).sum()))
            found.append(size_U / length if length else size_U)
        return found

    @contextmanager
    def without(self, dropped: list[npt.NDArray[np.bool_]]) -> Iterator[None]:
        """Hold channels at their mean while the block runs; a mask (U,) for each layer."""
        import keras

        held = dict(zip(self._means, dropped, strict=True))

        def hold(layer: Any, output: Any) -> Any:
            name = name_of(layer)
            if name not in held:
                return output
            mask = held[name].astype("float32")
            return output * (1 - mask) + keras.ops.convert_to_tensor(self._means[name]) * mask

        with self._network.hooked(hold):
            self.is_holding = True
            try:
                yield
            finally:
                self.is_holding = False


def _mean(layer: LayerOutput) -> npt.NDArray[np.float32]:
    """Return the mean of each channel over rows and positions (U,)."""
    return np.asarray(layer.values.mean(axis=tuple(range(layer.values.ndim - 1))), np.float32)


def _lead(output_RK: Floats) -> Floats:
    """Return the derivative of the lead of the first class over the second, or of the number."""
    found = np.zeros(output_RK.shape)
    if output_RK.shape[1] == 1:
        return found + 1.0
    order = np.argsort(output_RK, axis=1)
    rows = np.arange(len(found))
    found[rows, order[:, -1]], found[rows, order[:, -2]] = 1.0, -1.0
    sums_R = output_RK.sum(axis=1)
    if (output_RK >= 0).all() and (np.abs(sums_R - 1) < 1e-3).all():
        found /= np.maximum(output_RK, SMALLEST)  # probabilities are flat where they are sure
    return found
