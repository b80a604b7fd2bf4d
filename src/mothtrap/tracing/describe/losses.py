"""Facts about the computation of a loss.

`about` are the fields of a fact that the adapter provides: step, series, lines, options.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import structs

from mothtrap.core.facts.losses import LossCall
from mothtrap.tracing.describe import loss_numbers, target_samples
from mothtrap.tracing.describe.loss_numbers import Array, Called


def loss_call(
    called: Called,
    prediction: Array,
    inputs: Sequence[Array],
    *,
    columns: bool = True,
    decoder: Sequence[Array] = (),
    class_weights: Sequence[float] | None = None,
    **about: Any,
) -> LossCall:
    """Return the fact for a loss call.

    Args:
        called: the call, with probabilities or numbers.
        prediction: as passed to the loss.
        inputs: inputs of the model.
        columns: also search for input columns that reveal the target.
        decoder: sequences that later layers of the model receive.
        class_weights: class weights of the loss; None = none.
        about: other fields.
    """
    finite = prediction[np.isfinite(prediction)]
    targets = target_samples.sample(called, inputs, columns=columns, decoder=decoder)
    if class_weights is not None:
        differ = len(set(class_weights)) != 1  # they may also be unknown
        targets = structs.replace(targets, weighted=differ, class_weights=tuple(class_weights))
    return LossCall(
        operation=called.operation,
        chain=called.chain,
        prediction_shape=prediction.shape,
        classes=None if called.is_binary else called.classes,
        label_counts=loss_numbers.label_counts(called),
        prediction_spread=loss_numbers.prediction_spread(called),
        model_inputs=tuple(given.dtype.name for given in inputs),
        targets=targets,
        predicted_least=float(finite.min()) if finite.size else None,
        predicted_greatest=float(finite.max()) if finite.size else None,
        **about,
    )
