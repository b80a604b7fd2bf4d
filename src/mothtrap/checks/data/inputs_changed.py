"""PRE305: the inputs differ from an invariants file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from mothtrap.checks import tables
from mothtrap.checks.contract import ContractCheck
from mothtrap.checks.subject import Array, DataSet, Subject
from mothtrap.core.contracts import Input
from mothtrap.core.errors import NotEnoughData
from mothtrap.core.found import Found
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold


@frozen
class InputsChanged(ContractCheck):
    """The inputs differ from an invariants file.

    What it detects:
        Inputs of the data sets whose type, shape, or range has changed since
        `mothtrap check --save-invariants FILE`.

    Why it matters:
        A different library version, file, or unit changes the data without an error. The model then
        trains on values that it was not designed for.

    Fires:
        Error when type or shape of an input has changed, or when it has NaN or infinite values that
        it did not have before. Warning when values lie outside of the learned range by more than
        `margin` of that range.

    Stays quiet:
        Without an invariants file that lists inputs. For text, which has no range.

    What to do:
        - Compare how the data are read and scaled with the run that the file was saved from.
        - If the change was made on purpose, save the invariants again.

    Example:
        mothtrap check --save-invariants invariants.toml train.py
        mothtrap check --invariants invariants.toml train.py --data new.csv

    References:
        https://arxiv.org/abs/2506.14813
    """

    code = "PRE305"
    title = "the inputs have changed"
    uses = ("datasets",)
    passed = "the inputs have not changed"
    costs = 3
    margin: float = threshold(0.5, unit="of the learned range", source="chosen by hand")

    def run(self, subject: Subject) -> Iterable[Found]:
        """Compare each input with the learned invariants."""
        known = {(one.data, one.number): one for one in self.expected if isinstance(one, Input)}
        changes: list[tuple[str, str, str | None]] = []
        for data in _one_of_each_role(subject):
            for found in _inputs(data, subject):
                subject.learned.append(found)
                old = known.get((found.data, found.number))
                if old is not None and (change := self._change(old, found)):
                    changes.append((*change, data.location))
        subject.figures["inputs"] = len(subject.learned)
        for severity, text, location in changes:
            yield Found(
                step=0,
                severity=severity,  # type: ignore[arg-type]  # one of two literals
                message=text,
                location=location,
            )

    def _change(self, old: Input, new: Input) -> tuple[str, str] | None:
        """Return the severity and the description of a change."""
        name = f"input {new.number} of {new.data}"
        if new.dtype != old.dtype:
            return "error", f"{name} is {new.dtype}; it was {old.dtype}"
        if new.shape != old.shape:
            return "error", f"{name} has the shape {new.shape}; it was {old.shape}"
        if old.finite and not new.finite:
            return "error", f"{name} has NaN or infinite values; it had none"
        if None in (old.at_least, old.at_most, new.at_least, new.at_most):
            return None
        assert old.at_least is not None
        assert old.at_most is not None
        assert new.at_least is not None
        assert new.at_most is not None
        room = self.margin * ((old.at_most - old.at_least) or abs(old.at_most) or 1.0)
        if new.at_least < old.at_least - room or new.at_most > old.at_most + room:
            return "warning", (
                f"{name} ranges from {new.at_least:g} to {new.at_most:g}; it ranged from "
                f"{old.at_least:g} to {old.at_most:g}"
            )
        return None


def _one_of_each_role(subject: Subject) -> Iterator[DataSet]:
    """Yield the training dataset, and the largest evaluation dataset."""
    yield tables.training_set(subject)
    others = subject.of("evaluation")
    if others:
        yield max(others, key=lambda one: one.size or 0)


def _inputs(data: DataSet, subject: Subject) -> Iterator[Input]:
    """Yield the entries of the inputs of a data set.

    Raises:
        NotEnoughData: no row could be read.
    """
    rows = tables.read(data, subject)
    if not rows.indices:
        raise NotEnoughData("a dataset has no readable rows")
    for number, array in enumerate(rows.inputs):
        values = _numbers(array)
        finite = values[np.isfinite(values)]
        yield Input(
            data=data.role,
            number=number,
            dtype=str(array[0].dtype if array.dtype == object else array.dtype),
            shape=() if array.dtype == object else array.shape[1:],
            at_least=float(finite.min()) if finite.size else None,
            at_most=float(finite.max()) if finite.size else None,
            finite=finite.size == values.size,
        )


def _numbers(array: Array) -> Array:
    """Return all values of an input; empty for text."""
    parts = [np.ravel(one) for one in array] if array.dtype == object else [array.ravel()]
    if any(part.dtype.kind not in "biuf" for part in parts):
        return np.empty(0)
    return np.concatenate(parts).astype(float)
