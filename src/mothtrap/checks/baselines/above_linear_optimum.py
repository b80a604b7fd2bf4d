"""PRE402: a linear model stays above its optimum."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from mothtrap.checks.check import Check
from mothtrap.checks.sklearn import simple_models
from mothtrap.checks.step import Array, Change, Forward, LossSeen, Step
from mothtrap.checks.subject import Subject
from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.found import Found
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold

REMEDIES = (
    (Change(regularized=False), "without weight decay", "Lower the weight decay."),
    (Change(rate=10.0), "with ten times the learning rate", "Raise the learning rate."),
    (Change(rate=0.1), "with a tenth of the learning rate", "Lower the learning rate."),
    (Change(adam=True), "with Adam and a learning rate of 0.001", "Use Adam, or scale the inputs."),
)
"""Changes, their names, and the advice for the change with the closest loss."""
RANK_TOLERANCE = 1e-5
"""Singular values below this share of the largest count as 0: rounding of float32."""


@frozen
class AboveLinearOptimum(Check):
    """A linear model stays above its optimum.

    What it detects:
        A model without nonlinearities whose loss on the recorded batches stops falling above its
        known minimum: the loss of least squares, of a logistic regression, or, for a linear
        autoencoder, of a principal component analysis with as many components.

    Why it matters:
        Only the optimizer, its rate, the scale of the inputs, or a penalty can keep a linear model
        above its optimum. In a large network, the same fault would go unnoticed.

    Fires:
        Warning when, after `steps` steps on the latest batches, at most ten, the loss is above the
        optimum by `above` of what a constant guess loses, and falls by less than `flat` of the
        distance in the last quarter. The message compares the sizes of the columns if they differ
        by `scales` times.

    Stays quiet:
        Models that are not linear in their input, or that have dropout; batches that together have
        fewer than `rows_per_column` different rows for each column, which a linear model memorizes;
        learning rates that rise, as in a warm-up; losses other than the squared error and cross
        entropy; trials that make fewer than `least_steps` steps in `seconds`. Of batches that
        differ in shape, and of steps without a loader, only the last one is used.

    What to do:
        - Scale the inputs to mean 0 and standard deviation 1.
        - Compare the options of the optimizer with its defaults.

    Example:
        torch.optim.SGD(nn.Linear(8, 1).parameters(), lr=0.05)   # of columns of size 1 and 0.01

    References:
        https://scikit-learn.org/stable/modules/linear_model.html
    """

    code = "PRE402"
    title = "a linear model stays above its optimum"
    uses = ("step", "trials")
    passed = "the linear model reaches its optimum"
    costs = 3
    explains = ("cannot_overfit",)
    steps: int = threshold(400, unit="steps", source="chosen by hand")
    least_steps: int = threshold(100, unit="steps", source="chosen by hand")
    above: float = threshold(0.05, unit="of the loss of a constant", source="chosen by hand")
    flat: float = threshold(0.02, unit="of the distance", source="chosen by hand")
    scales: float = threshold(30.0, unit="times", source="chosen by hand")
    rows_per_column: float = threshold(2.0, unit="rows per column", source="chosen by hand")
    seconds: float = threshold(15.0, unit="seconds", source="chosen by hand")

    def run(self, subject: Subject) -> Iterable[Found]:
        """Compare the training on the latest batches with the optimum."""
        step, loss = subject.step, subject.step.loss
        if loss is None or not loss.alone or step.target is None:
            raise NotApplicable("the loss of the step is not the mean of one loss function")
        recorded = _only_input(subject.forward)
        if not _is_linear(subject.forward):
            raise NotApplicable("the model is not linear")
        x, target, batches = _rows_of(step, recorded)
        different = len(np.unique(x, axis=0))
        if different < self.rows_per_column * (x.shape[1] + 1):
            raise NotEnoughData(
                f"needs {self.rows_per_column:g} different rows per column; the recorded batches "
                f"have {different} rows of {x.shape[1]} columns"
            )
        if step.rates and step.rates[-1] > step.rates[0]:
            raise NotEnoughData("the learning rate still rises, as in a warm-up")
        least, constant, twin = _optimum(subject.forward, (x, target), loss)
        change = Change(batches=batches)
        trial = step.train(change, self.steps, min(self.seconds, subject.left_s / 3))
        if len(trial.losses) < self.least_steps:
            why = f": {trial.ended}" if trial.ended else ""
            raise NotEnoughData(
                f"needs {self.least_steps} steps, but the trial made {len(trial.losses)}{why}"
            )
        losses = _rounds(trial.losses, batches)
        level = _level(losses)
        subject.figures["loss"], subject.figures[f"loss of {twin}"] = level, least
        subject.figures["batches"], subject.figures["rows"] = batches, len(x)
        third, last = (float(np.median(part)) for part in np.array_split(losses, 4)[2:])
        distance = level - least
        if distance <= self.above * constant:
            return
        if third - last >= self.flat * distance:
            raise NotEnoughData(
                f"the loss still falls: it is {level:.4g} after {len(trial.losses)} steps, and "
                f"{least:.4g} for {twin}"
            )
        yield self._found(subject, x, twin, (level, least, float(losses[0])), batches)

    def _found(
        self,
        subject: Subject,
        x: Array,
        twin: str,
        losses: tuple[float, float, float],
        batches: int,
    ) -> Found:
        level, least, first = losses
        helped, advice = self._best_remedy(subject, level, least, batches)
        sizes = np.sqrt((x.astype(float) ** 2).mean(0))
        ratio = float(sizes.max() / sizes[sizes > 0].min()) if (sizes > 0).any() else 1.0
        unequal = ratio > self.scales
        loss = subject.step.loss
        return Found(
            step=0,
            severity="warning",
            message=f"the model is linear: on {batches} batch{'es' * (batches > 1)}, its loss goes "
            f"from {first:.4g} to {level:.4g} and stays there, and {twin} reaches {least:.4g}"
            + (
                f"; the scales of the input columns differ by a factor of {ratio:,.0f}"
                if unequal
                else ""
            )
            + (f"; {helped}, the loss falls further" if helped else ""),
            location=loss.location if loss is not None else None,
            fixes=("Scale the inputs to mean 0 and standard deviation 1.",)
            if unequal
            else (advice,)
            if advice
            else (),
            evidence={"level": level, "optimum": least, "scales": ratio},
        )

    def _best_remedy(
        self, subject: Subject, level: float, least: float, batches: int
    ) -> tuple[str, str]:
        """Return the change that brings the loss closest to the optimum, and the advice for it."""
        best, found = level - 0.5 * (level - least), ("", "")
        for change, words, advice in REMEDIES:
            if subject.left_s < 2.0:
                break
            change = replace(change, batches=batches)
            seconds = min(self.seconds, subject.left_s / 3)
            losses = _rounds(subject.step.train(change, self.steps, seconds).losses, batches)
            if len(losses) and np.isfinite(losses).all() and _level(losses) < best:
                best, found = _level(losses), (words, advice)
        return found


def _rows_of(step: Step, recorded: Array) -> tuple[Array, Array, int]:
    """Return the inputs and targets of the batches, and how many there are.

    Only the recorded batch is used if the batches differ in shape.
    """
    found = step.batches()
    if not found or any(one.inputs.keys() != found[0].inputs.keys() for one in found):
        found = ()
    inputs = [x for batch in found for x in batch.inputs.values()]
    if not inputs or any(x.shape != recorded.shape for x in inputs):
        assert step.target is not None  # asked before
        return recorded, step.target, 1
    return np.concatenate(inputs), np.concatenate([one.target for one in found]), len(found)


def _rounds(losses: Array, batches: int) -> Array:
    """Return the mean loss of each round over all batches."""
    whole = len(losses) // batches * batches
    return np.asarray(losses[:whole].reshape(-1, batches).mean(1))


def _level(losses: Array) -> float:
    return float(np.median(losses[-max(3, len(losses) // 10) :]))


def _only_input(forward: Forward) -> Array:
    """Return the only table that the model is called with.

    Raises:
        NotApplicable: it has another input.
    """
    if len(forward.inputs) != 1:
        raise NotApplicable("the model has several inputs")
    [array] = forward.inputs.values()
    if array.dtype.kind != "f" or array.ndim != 2 or len(array) != forward.rows:
        raise NotApplicable("the input of the model is not a table")
    return array


def _is_linear(forward: Forward) -> bool:
    """Return whether the output of the mean of two rows is the mean of their outputs."""
    [(path, x)] = forward.inputs.items()
    if any("Norm" in kind or "Dropout" in kind for kind in forward.kinds):
        return False
    other = np.roll(x, 1, axis=0)
    for far in (0.5, 30.0):
        mixed = ((1 - far) * x + far * other).astype(x.dtype)
        parts = (forward.outputs({path: one}) for one in (x, other, mixed))
        for usual, moved, middle in zip(*parts, strict=True):
            expected = (1 - far) * usual + far * moved
            if np.abs(middle - expected).max() > 1e-3 * (float(np.abs(expected).max()) or 1.0):
                return False
    return True


def _optimum(
    forward: Forward, rows: tuple[Array, Array], loss: LossSeen
) -> tuple[float, float, str]:
    """Return the lowest loss, the loss of the best constant, and the name of the best model.

    Args:
        forward: the call to the model.
        rows: inputs and targets.
        loss: the first call to a loss function.

    Raises:
        NotApplicable: it is not known for this loss.
    """
    x, target = rows
    if loss.operation == "mse_loss" and target.size % len(x) == 0 and target.dtype.kind == "f":
        return _least_squares(forward, x.astype(float), target.reshape(len(x), -1).astype(float))
    plain = loss.options.get("weight") is None and not loss.options.get("label_smoothing")
    if loss.has_classes and plain and target.shape == (len(x),):
        with simple_models.one_thread():
            least, constant = simple_models.logistic_optimum(x.astype(float), target)
        return least, constant, "a logistic regression"
    raise NotApplicable("the minimum of this loss is not known for a linear model")


def _least_squares(forward: Forward, x: Array, y: Array) -> tuple[float, float, str]:
    """Return the lowest mean squared error of a linear map with the rank of the model."""
    weights, bias = _linear_map(forward)
    rank = int(np.linalg.matrix_rank(weights, tol=RANK_TOLERANCE * _norm(weights)))
    if weights.shape[1] != y.shape[1]:
        raise NotApplicable("predictions and targets differ in shape")
    if bias:
        x, y = x - x.mean(0), y - y.mean(0)
    fitted = x @ np.linalg.lstsq(x, y, rcond=None)[0]
    lost = np.linalg.svd(fitted, compute_uv=False)[rank:]
    least = float(((y - fitted) ** 2).sum() + (lost**2).sum()) / y.size
    same = x.shape == y.shape and np.allclose(x, y)
    name = f"a principal component analysis with {rank} components" if same else "least squares"
    return least, float((y**2).mean()), name


def _linear_map(forward: Forward) -> tuple[Array, bool]:
    """Return the weights of a linear model, shape (columns, outputs), and if it has a bias."""
    [(path, x)] = forward.inputs.items()
    found = []
    count = len(x)
    units = np.eye(x.shape[1])
    zero = forward.outputs({path: np.zeros_like(x, dtype=np.float32)})[0].reshape(count, -1)
    for begin in range(0, len(units), count):
        part = units[begin : begin + count]
        filled = np.concatenate([part, np.zeros((count - len(part), x.shape[1]))])
        output = forward.outputs({path: filled.astype(np.float32)})[0].reshape(count, -1)
        found.append((output - zero)[: len(part)])
    return np.concatenate(found).astype(float), bool(np.abs(zero).max() > 0)


def _norm(weights: Array) -> float:
    return float(np.linalg.norm(weights, 2)) or 1.0
