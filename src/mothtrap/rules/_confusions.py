"""Confusion matrices, added up over sampled calls.

Shape suffixes: K = classes (rows: labels, columns: predictions).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.data import LoaderBegan
from mothtrap.core.facts.evaluations import LabelledOutputs
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.steps import Mode
from mothtrap.core.window import Floats, Window
from mothtrap.rules._loss_calls import by_place


def require_rows(window: Window, samples: int) -> None:
    """Raise `NotEnoughData` if the loaders have fewer samples than the rule needs labels.

    A few samples that recur many times are too few to compute shares of a class.

    Raises:
        NotEnoughData: The largest dataset of any loader has fewer samples.
    """
    known = [began.samples for began in window.seen(LoaderBegan) if began.samples is not None]
    if known and max(known) < samples:
        raise NotEnoughData(f"needs {samples} samples, but the dataset has {max(known)}")


CallT = TypeVar("CallT", bound=LossCall | LabelledOutputs)

BETTER = 1.02
"""Accuracy, as a multiple of the share of the most frequent class, from which a model is better
than one that always predicts this class. Chosen by hand."""


def is_constant(confusion_KK: Floats) -> bool:
    """Return whether to always predict the most frequent class would be as accurate.

    A model that has learned no more than the frequencies does not confuse classes.
    """
    return bool(np.trace(confusion_KK) <= BETTER * confusion_KK.sum(axis=1).max())


def late_calls(calls: Sequence[CallT], samples: int) -> list[CallT]:
    """Return the latest calls with predictions that together have `samples` labels."""
    found: list[CallT] = []
    seen = 0
    for call in reversed(calls):
        if call.targets is None or not call.targets.confusion:
            continue
        found.append(call)
        seen += sum(call.targets.confusion)
        if seen >= samples:
            break
    return found[::-1]


LASTING_STEPS = 50
"""Minimum number of steps between two stretches of calls; chosen by hand: with large batches, a
single step has enough labels, and a model learns the classes one by one."""


def two_stretches(calls: Sequence[LossCall], samples: int) -> tuple[list[LossCall], list[LossCall]]:
    """Return two stretches of calls with `samples` labels each: earlier calls, and the latest.

    The earlier stretch ends at least `LASTING_STEPS` steps before the last call. It is empty if
    it would have fewer labels.

    A class that is confused in both stretches, and no less in the later one, is not a class that
    the model is still learning.
    """
    late = late_calls(calls, samples)
    before = (
        late_calls(
            [
                call
                for call in calls
                if call.step < late[0].step and call.step <= late[-1].step - LASTING_STEPS
            ],
            samples,
        )
        if late
        else []
    )
    table = confusion(before)
    return (before if table is not None and table.sum() >= samples else []), late


def confusion(calls: Sequence[LossCall | LabelledOutputs]) -> Floats | None:
    """Return counts by label and predicted class, shape (K, K); None without predictions."""
    tables = [c.targets.confusion for c in calls if c.targets is not None and c.targets.confusion]
    if not tables:
        return None
    size = round(max(len(table) for table in tables) ** 0.5)
    total_KK = np.zeros((size, size))
    for table in tables:
        if len(table) == size * size:
            total_KK += np.reshape(table, (size, size))
    return total_KK


def by_row(confusion_KK: Floats) -> Floats:
    """Return the confusion matrix as shares of each class; NaN for a class without examples."""
    count_K1 = confusion_KK.sum(axis=1, keepdims=True)
    return np.where(count_K1 > 0, confusion_KK / np.maximum(count_K1, 1), np.nan)


def misprediction(confusion_KK: Floats) -> Floats:
    """Return the misclassified share of the examples of each class, shape (K,)."""
    wrong_K: Floats = 1 - np.diagonal(by_row(confusion_KK))
    return wrong_K


def evaluations(window: Window) -> list[list[LossCall]] | list[list[LabelledOutputs]]:
    """Return the evaluations with predictions, by line: those with a loss if there are any."""
    calls = list(window.seen(LossCall))
    evaluated = [
        call
        for call in calls
        if call.mode is Mode.EVAL and call.targets is not None and call.targets.confusion
    ]
    if evaluated:
        return by_place(evaluated)
    trained = {call.classes for call in calls if call.mode is Mode.TRAIN and _has_labels(call)}
    found: dict[tuple[str, str], list[LabelledOutputs]] = defaultdict(list)
    for one in window.seen(LabelledOutputs):
        size = len(one.targets.confusion or ())
        if any(size == (classes or 0) ** 2 for classes in trained):
            found[one.site, one.variable].append(one)
    return list(found.values())


def _has_labels(call: LossCall) -> bool:
    """Return whether a loss has one class number per row."""
    return call.targets is not None and bool(call.targets.confusion)
