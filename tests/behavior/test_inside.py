"""Margins of outputs have the slopes that they claim, whatever form the outputs have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.behavior.asking import subject_of

from mothtrap.behavior.inside import Margin, channel_axis, features, in_plane, network_of
from mothtrap.core.errors import NotApplicable
from mothtrap.core.wrapped_models import LayerOutput

RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(6, 3)) * 3
SOFT = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True)
FORMS = {
    "logits": LOGITS,
    "probabilities": SOFT,
    "numbers": LOGITS[:, :1],
}


def margin(form: str, output: Any) -> Margin:
    order = np.argsort(output, axis=1)
    if output.shape[1] == 1:
        first = (output[:, 0] > (0.5 if form == "probabilities" else 0)).astype(int)
        return Margin(form, first, 1 - first)
    return Margin(form, order[:, -1], order[:, -2])


@pytest.mark.parametrize("one_column", [False, True])
@pytest.mark.parametrize("form", ["logits", "probabilities", "numbers"])
def test_weights_are_the_derivative_of_the_margin(form: str, one_column: bool) -> None:
    output = FORMS[form]
    if one_column and form != "numbers":
        output = output[:, :1]
    of = margin(form, output)
    weights = of.weights(output)
    for column in range(output.shape[1]):
        step = np.zeros_like(output)
        step[:, column] = 1e-6
        slope = (of.values(output + step) - of.values(output - step)) / 2e-6
        assert np.allclose(slope, weights[:, column], rtol=1e-3), column


def test_the_margin_of_probabilities_is_that_of_their_logits() -> None:
    soft, raw = margin("probabilities", SOFT), margin("logits", LOGITS)
    assert np.allclose(soft.values(SOFT), raw.values(LOGITS))
    assert (raw.values(LOGITS) >= 0).all()  # the predicted class leads


def test_features_are_those_before_the_last_weights() -> None:
    maps = RNG.normal(size=(4, 2, 2, 3)).astype(np.float32)
    dense = RNG.normal(size=(4, 5)).astype(np.float32)
    layers = [
        LayerOutput(name="conv", kind="convolution", values=maps),
        LayerOutput(name="relu", kind="other", values=np.maximum(maps, 0)),
        LayerOutput(name="out", kind="linear", values=dense),
        LayerOutput(name="softmax", kind="other", values=dense),
    ]
    assert np.allclose(features(layers), np.maximum(maps, 0).mean(axis=(1, 2)))
    with pytest.raises(NotApplicable, match="no hidden layer"):
        features(layers[2:])


def test_colors_are_found_in_either_place() -> None:
    assert channel_axis((5, 8, 8)) is None
    assert channel_axis((5, 3, 32, 32)) == 1
    assert channel_axis((5, 32, 32, 3)) == 3
    assert in_plane(np.ones((5, 3, 8, 8))).shape == (5, 8, 8)
    with pytest.raises(NotApplicable, match="not images"):
        channel_axis((5, 8))


def test_other_models_have_no_network() -> None:
    X = RNG.normal(size=(60, 2))
    with pytest.raises(NotApplicable, match="PyTorch or Keras"):
        network_of(subject_of(lambda rows: rows[:, 0], X, X[:, 0]))
