"""Gradients of the layers of a model, front to back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mothtrap.core.tensors import TensorInfo
from mothtrap.core.window import Floats, Matrix, Window
from mothtrap.rules import _patterns

LOOKUPS = ("Embedding", "EmbeddingBag")
"""Modules whose weights get gradients in only a few rows."""

CANCELLED_RATIO = 1e-3
"""If the gradient of a bias is this much smaller than the gradient of its weight, a later operation
such as a normalization cancels the bias; chosen by hand: usually the bias has the larger
gradient."""


SCORES = frozenset(
    {"query", "key", "queries", "keys", "q", "k", "wq", "wk", "w_q", "w_k", "to_q", "to_k"}
    | {"q_proj", "k_proj", "q_lin", "k_lin", "query_proj", "key_proj", "q_linear", "k_linear"}
)
"""Names of the query and key layers of attention: the last part of the path, in lower case."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LayerGradients:
    """Root mean square per element of the gradients of layers over steps.

    `rms_SL` has shape (S, L), with layers in the order of the optimizer. If a layer has a bias, its
    gradient counts, because it is the error that arrives at the layer; otherwise the gradient of
    the weight counts. `modules` names the layers, and `tensors` contains one weight per layer. NaN
    = not captured.
    """

    modules: tuple[str, ...]
    tensors: tuple[TensorInfo, ...]
    steps_S: np.typing.NDArray[np.int64]
    rms_SL: Floats


def layer_gradients(window: Window) -> list[LayerGradients]:
    """Return the gradients of layers, for each set of tensors that steps together.

    A layer is a module with a weight of two or more axes. Embeddings are left out. Query and key
    layers of attention are left out, too: they only determine the attention scores, and their
    gradient is small while the scores are nearly equal.
    """
    return window.once(_layer_gradients)


def _layer_gradients(window: Window) -> list[LayerGradients]:
    norms = window.matrix("gradient", "l2")
    if norms is None or not len(norms):
        return []
    layers = (_layers(norms, rows, pattern_T) for pattern_T, rows in _patterns.alike(norms))
    return [found for found in layers if found is not None]


def _layers(
    norms: Matrix, rows: np.typing.NDArray[np.intp], pattern_T: np.typing.NDArray[np.bool_]
) -> LayerGradients | None:
    size_T = np.array([max(1, int(np.prod(t.shape))) for t in norms.tensors], dtype=np.float64)
    rms_ST = norms.values_ST[rows] / np.sqrt(size_T)
    parts: dict[str, list[int]] = {}
    for column in np.flatnonzero(pattern_T).tolist():
        parts.setdefault(norms.tensors[column].module, []).append(column)
    known_S = ~np.isnan(rms_ST[:, pattern_T]).any(axis=1)  # of NaN alone: it has no size
    rows, rms_ST = rows[known_S], rms_ST[known_S]
    modules, tensors, columns_L = [], [], []
    for module, columns in parts.items():
        weights = [c for c in columns if len(norms.tensors[c].shape) > 1]
        if not weights or norms.tensors[weights[0]].module_type in LOOKUPS:
            continue
        if module.rpartition(".")[2].lower() in SCORES:
            continue
        modules.append(module)
        tensors.append(norms.tensors[weights[0]])
        weight_S = rms_ST[:, weights].max(axis=1)
        biases = [c for c in columns if _is_bias(norms.tensors[c])]
        bias_S = rms_ST[:, biases].max(axis=1) if biases else np.zeros(len(rows))
        columns_L.append(np.where(bias_S >= CANCELLED_RATIO * weight_S, bias_S, weight_S))
    if not modules or not len(rows):
        return None
    return LayerGradients(
        modules=tuple(modules),
        tensors=tuple(tensors),
        steps_S=norms.steps_S[rows],
        rms_SL=np.stack(columns_L, axis=1),
    )


def _is_bias(tensor: TensorInfo) -> bool:
    return len(tensor.shape) == 1 and tensor.name.rpartition(".")[2].startswith("bias")


def front_to_back(rms_SL: Floats) -> Floats:
    """Return the first quarter's largest gradient relative to the last quarter's, shape (S,)."""
    quarter = max(1, rms_SL.shape[1] // 4)
    last_S = np.maximum(rms_SL[:, -quarter:].max(axis=1), 1e-300)
    ratio_S: Floats = rms_SL[:, :quarter].max(axis=1) / last_S
    return ratio_S


def strongest_ends(modules: tuple[str, ...], level_L: Floats) -> dict[str, str]:
    """Return the layers that `front_to_back` compares, as evidence for a finding."""
    quarter = max(1, len(modules) // 4)
    first, last = int(np.argmax(level_L[:quarter])), int(np.argmax(level_L[-quarter:]))
    return {"first_layer": modules[first], "last_layer": modules[-quarter:][last]}


def rank_correlation(values_L: Floats) -> float:
    """Return Spearman's correlation of values with their order."""
    ranks = np.argsort(np.argsort(values_L)).astype(np.float64)
    return float(np.corrcoef(ranks, np.arange(len(ranks)))[0, 1])
