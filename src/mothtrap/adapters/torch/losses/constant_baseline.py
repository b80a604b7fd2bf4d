"""Loss of the best constant prediction on some targets."""

from __future__ import annotations

import torch

from mothtrap.adapters.torch.losses.loss_calls import LossInputs
from mothtrap.tracing.loss_looks import MAX_TOLD

MAX_CLASSES = 65536
MAX_COLUMNS = 4096
_BINARY = ("binary_cross_entropy", "binary_cross_entropy_with_logits")


class ConstantBaseline:
    """Collects the targets of loss calls, and works out what guessing them costs."""

    def __init__(self) -> None:
        self._name = ""
        self._smoothing = 0.0
        self._counts: torch.Tensor | None = None
        self._rows = 0
        self._sums: torch.Tensor | None = None
        self._squares = torch.zeros(0)
        self._known = True  # the loss of guessing: no weights, and targets of one kind

    def add(self, inputs: LossInputs) -> None:
        """Take the targets of one call."""
        self._name = inputs.name
        self._smoothing = float(inputs.given.get("label_smoothing") or 0.0)
        weights = [inputs.given.get(name) for name in ("weight", "pos_weight")]
        self._known &= all(weight is None for weight in weights)
        if inputs.has_hard_targets:
            self._count(inputs)
        elif inputs.name in ("mse_loss", *_BINARY):
            self._sum(inputs)
        else:
            self._known = False

    def loss(self) -> float | None:
        """The loss of the best guess; None where it is not known for the kind of loss."""
        if not self._known:
            return None
        if self._counts is not None:
            return _entropy(self._counts, self._smoothing)
        if self._sums is None:
            return None
        mean = self._sums / self._rows
        if self._name == "mse_loss":
            return float((self._squares / self._rows - mean.square()).clamp(min=0).mean())
        if float(mean.min()) < 0 or float(mean.max()) > 1:
            return None
        both = torch.stack((mean, 1 - mean))
        return float(-torch.special.xlogy(both, both).sum(dim=0).mean())

    def label_counts(self) -> tuple[int, ...] | None:
        """Hard targets of each class, ascending; None where there are none, or too many classes."""
        if self._counts is not None:
            return tuple(self._counts.tolist()) if len(self._counts) <= MAX_TOLD else None
        if self._sums is None or len(self._sums) != 1 or self._name not in _BINARY:
            return None
        ones = float(self._sums)
        if not 0 <= ones <= self._rows or float(self._squares) != ones:
            return None  # not all of them are 0 or 1
        return self._rows - int(ones), int(ones)

    def _count(self, inputs: LossInputs) -> None:
        target, prediction = inputs.target, inputs.prediction
        if target is None or prediction is None:
            return
        classes = prediction.shape[1 if prediction.ndim > 1 else 0]
        ignored = inputs.given.get("ignore_index", -100)
        labels = target.detach().reshape(-1).to("cpu", torch.int64)
        labels = labels[(labels != ignored) & (labels >= 0) & (labels < classes)]
        counts = torch.bincount(labels, minlength=classes)
        if classes > MAX_CLASSES or (
            self._counts is not None and self._counts.shape != counts.shape
        ):
            self._known = False
            return
        self._counts = counts if self._counts is None else self._counts + counts

    def _sum(self, inputs: LossInputs) -> None:
        target = inputs.target
        if target is None or not target.ndim or not len(target):
            return
        rows = target.detach().reshape(len(target), -1)
        columns = rows.shape[1]
        if columns > MAX_COLUMNS or (self._sums is not None and len(self._sums) != columns):
            self._known = False
            return
        rows = rows.to("cpu", torch.float64)
        if self._sums is None:
            self._sums = torch.zeros(columns, dtype=torch.float64)
            self._squares = torch.zeros(columns, dtype=torch.float64)
        self._rows += len(rows)
        # Not in place: what was made under inference_mode could not be changed after it.
        self._sums = self._sums + rows.sum(dim=0)
        self._squares = self._squares + rows.square().sum(dim=0)


def _entropy(counts: torch.Tensor, smoothing: float) -> float | None:
    total = int(counts.sum())
    if not total:
        return None
    shares = counts.double() / total
    shares = (1 - smoothing) * shares + smoothing / len(counts)
    return float(-torch.special.xlogy(shares, shares).sum())
