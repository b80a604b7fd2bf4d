"""Input values saved by a loss operation in sampled steps: labels and predictions.

Saved tensors are read at the loss operation only. Packed tensors (checkpointing, offloading) are
never read. Once the job has used checkpointing, no saved tensor is read, because unpacking runs the
segment again.
"""

from __future__ import annotations

from typing import Any

import torch

from mothtrap.adapters.torch.job.graph import LossTerm, operation
from mothtrap.adapters.torch.losses.saved_values import SavedValues

MAX_ROWS = 1024
"""Maximum number of inspected rows of a batch."""
MAX_SPREAD = 65536
"""Maximum number of probabilities for computing the spread over rows, with at least 64 rows. More
would cost as much as a step of a small model, without more information.
"""
MAX_CLASSES = 65536
MAX_SMOOTHED, MAX_SMOOTHED_ROWS = 1 << 24, 64
"""Maximum number of elements of smoothed targets, and of their rows that are compared."""
RANGED = ("elementwise", "binary_cross_entropy_with_logits")
"""Operations of which the extremes of the predictions are reported."""
IGNORED = -100
"""The label of a row without a target."""
MAX_REPORTED_WEIGHTS = 20
"""Maximum number of classes whose weights are reported; with more, the classes are tokens."""


def label_counts(term: LossTerm) -> tuple[int, ...] | None:
    """Return hard targets per class, or None if they are soft or unavailable."""
    target = _saved(term, "_saved_target")
    if target is None or not term.classes or term.classes > MAX_CLASSES:
        return None
    labels = target.reshape(-1)[: 64 * MAX_ROWS].to("cpu")
    if term.operation.startswith("binary"):
        if not bool(((labels == 0) | (labels == 1)).all()):
            return None
        ones = int(labels.sum())
        return (labels.numel() - ones, ones)
    if labels.is_floating_point():
        return None
    kept = labels[(labels >= 0) & (labels < term.classes)].to(torch.int64)
    return tuple(torch.bincount(kept, minlength=term.classes).tolist())


def target(term: LossTerm, *, checkpointed: bool) -> torch.Tensor | None:
    """Return the target of a loss operation; None if the graph does not contain it.

    Args:
        term: the loss operation.
        checkpointed: reading saved tensors may recompute segments of the graph.
    """
    name = "_saved_self" if are_swapped(term) else "_saved_target"
    saved = getattr(term.node, "_raw" + name, None)
    # whether the tensor is packed is unknown
    if checkpointed and not hasattr(saved, "unpack_hook"):
        return None
    return _saved(term, name)


def are_swapped(term: LossTerm) -> bool:
    """Return whether only the second argument of an elementwise loss depends on parameters."""
    places = [child is None for child, _ in term.node.next_functions]
    return term.operation == "elementwise" and places == [True, False]


def smoothed_labels(term: LossTerm, *, checkpointed: bool) -> torch.Tensor | None:
    """Return the labels of which smoothed one-hot rows were made, or None for other soft targets.

    They multiply log-probabilities, as in `kl_div`. The other classes of a row share the rest
    evenly, except for at most one. A row of zeros has the label `IGNORED`.

    Args:
        term: the loss operation.
        checkpointed: reading saved tensors may recompute segments of the graph.
    """
    if term.product is None or checkpointed or operation(term.node) != "log_softmax":
        return None
    places = [child for child, _ in term.product.next_functions]
    if places.count(None) != 1:
        return None
    rows = SavedValues().of(term.product).get(("self", "other")[places.index(None)])
    if (
        rows is None
        or (term.classes or 0) < 3
        or rows.shape[-1:] != (term.classes,)
        or rows.numel() > MAX_SMOOTHED
    ):
        return None
    greatest, labels = rows.max(-1)
    some = rows.reshape(-1, rows.shape[-1])[:MAX_SMOOTHED_ROWS].float().topk(3).values
    is_even = bool((some[:, 1] - some[:, 2] <= 1e-6).all())
    if not is_even or not bool(((greatest > 0.5) | (greatest == 0)).all()):
        return None
    return labels.masked_fill(greatest == 0, IGNORED)


def saved_prediction(term: LossTerm) -> torch.Tensor | None:
    """Return the saved input of a loss operation.

    The prediction, log-probabilities, or a difference.
    """
    swapped = are_swapped(term) and _saved(term, "_saved_target") is not None
    saved = _saved(term, "_saved_target" if swapped else "_saved_self")
    return None if saved is None else saved.detach()


def confusion(prediction: torch.Tensor, labels: torch.Tensor) -> tuple[int, ...] | None:
    """Return the confusion matrix, row by row: labels (rows) by predicted class.

    Args:
        prediction: scores, shape (R, K).
        labels: class numbers on the CPU, shape (R,).

    Returns:
        The counts; None for inputs of other shapes.
    """
    if prediction.ndim < 2 or labels.is_floating_point():
        return None
    classes, predicted = prediction.shape[1], prediction.argmax(1).to("cpu")
    return counted(predicted, labels.long(), classes) if predicted.shape == labels.shape else None


def counted(predicted: torch.Tensor, labels: torch.Tensor, classes: int) -> tuple[int, ...]:
    """Return the confusion matrix, row by row, without labels that are not a class."""
    kept = (labels >= 0) & (labels < classes)
    places = labels[kept] * classes + predicted[kept]
    return tuple(torch.bincount(places, minlength=classes * classes).tolist())


def predicted_range(term: LossTerm) -> tuple[float | None, float | None]:
    """Return the smallest and largest prediction of an elementwise loss, or of one of logits.

    None if no prediction was saved, as for a handwritten difference, or if none is finite.
    """
    if term.operation not in RANGED or _saved(term, "_saved_target") is None:
        return None, None
    saved = saved_prediction(term)
    return finite_range(saved) if saved is not None else (None, None)


def finite_range(values: torch.Tensor) -> tuple[float | None, float | None]:
    """Return the smallest and largest finite value; None without one."""
    finite = values[values.isfinite()]
    if not finite.numel():
        return None, None
    return float(finite.min()), float(finite.max())


def is_weighted(term: LossTerm) -> bool:
    """Return whether a class loss weights its classes differently, as far as is known."""
    names = ("_saved_weight", "_saved_pos_weight") if term.classes else ()
    if all(_saved(term, name) is None for name in names):
        return False
    return len(set(class_weights(term))) != 1


def class_weights(term: LossTerm) -> tuple[float, ...]:
    """Return the class weights of a loss; empty if there are none or too many."""
    weight = _saved(term, "_saved_weight") if term.operation in ("cross_entropy", "nll") else None
    if weight is not None and weight.ndim == 1 and len(weight) <= MAX_REPORTED_WEIGHTS:
        return tuple(weight.detach().tolist())
    of_ones = _saved(term, "_saved_pos_weight") if term.classes else None
    return (1.0, float(of_ones)) if of_ones is not None and of_ones.numel() == 1 else ()


def prediction_spread(term: LossTerm) -> float | None:
    """Return the standard deviation over rows of the class probabilities, mean over classes."""
    rows = probabilities(term)
    if rows is None or len(rows) < 2:
        return None
    return float(rows.std(dim=0, correction=0).mean())


def probabilities(term: LossTerm) -> torch.Tensor | None:
    """Return the probabilities of the first rows of a class loss, shape (rows, classes).

    The only column of a binary loss is the probability of the second class.
    """
    saved = _saved(term, "_saved_self") if term.classes else None
    if saved is None or not saved.is_floating_point():
        return None
    if term.operation == "binary_cross_entropy_with_logits":
        return saved.detach().reshape(-1, 1)[:MAX_ROWS].float().sigmoid()
    if term.operation == "binary_cross_entropy":
        return saved.detach().reshape(-1, 1)[:MAX_ROWS].float()
    if saved.ndim < 2:
        return None
    by_class = saved.detach().movedim(1, -1)
    classes = by_class.shape[-1]
    rows = min(MAX_ROWS, max(64, MAX_SPREAD // max(1, classes)))
    flat = by_class.reshape(-1, classes)[:rows].float()
    return flat.exp() if operation(term.node).startswith("nll") else flat.softmax(-1)


def _saved(term: LossTerm, name: str) -> torch.Tensor | None:
    """Return a saved tensor of the loss node; its buffers may already be freed."""
    node: Any = term.node
    if operation(node) == "log_softmax":
        return None
    packed = getattr(getattr(node, "_raw" + name, None), "unpack_hook", None)  # requires torch 2.13
    if packed is not None:
        return None
    try:
        value = getattr(node, name, None)
    except RuntimeError:
        return None
    return value if isinstance(value, torch.Tensor) else None
