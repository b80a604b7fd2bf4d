"""Causality of sequence models: layers in which positions depend on later ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import keras

from mothtrap.adapters.tensorflow.probes.probes import Look

ATTENTION = ("MultiHeadAttention", "GroupedQueryAttention")
"""Classes of layers that are called with queries, values, keys and masks."""


def sight_of(layer: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Return which positions of its sequence a layer uses; '' for other layers.

    Returns:
        `attention` for self-attention without any mask, `masked` for other attention, `recurrent`
        for a recurrent layer that runs in both directions, `causal` for a recurrent layer in one
        direction.
    """
    if isinstance(layer, keras.layers.Bidirectional):
        return "recurrent"
    if isinstance(layer, keras.layers.RNN):
        return "causal"
    if type(layer).__name__ not in ATTENTION:
        return ""
    given = {**dict(zip(("query", "value"), args, strict=False)), **kwargs}
    if given.get("query") is not given.get("value"):
        return ""
    is_masked = given.get("use_causal_mask") or given.get("attention_mask") is not None
    return "masked" if is_masked or len(args) > 3 else "attention"


def sight_of_look(look: Look, *, has_decoder: bool) -> tuple[str | None, str | None]:
    """Return the layer through which positions depend on later ones, and the line that calls it."""
    seen = [(sight, place) for sight, place, decodes in look.sights if decodes or not has_decoder]
    ahead = looks_ahead([sight for sight, _ in seen]) if seen else None
    return ahead, next((place for sight, place in seen if sight == ahead), None)


def looks_ahead(sights: Sequence[str]) -> str:
    """Return the layer through which positions depend on later ones; see `LossCall.looks_ahead`.

    Args:
        sights: results of `sight_of` for the layers of a model with one input, or of its decoder,
            in the order of their calls.
    """
    attentions = [sight for sight in sights if sight in ("attention", "masked")]
    if attentions:
        return "attention" if set(attentions) == {"attention"} else ""
    # A bidirectional layer calls two layers, one in each direction.
    both, one_way = sights.count("recurrent"), sights.count("causal")
    if both and one_way == 2 * both:
        return "recurrent"
    return "causal" if one_way == 1 and not both else ""
