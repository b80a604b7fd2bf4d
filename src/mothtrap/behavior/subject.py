"""The probed model, with the rows and targets on which it is evaluated.

Shape suffixes: R = rows, K = classes.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from mothtrap.behavior.budget import Budget
from mothtrap.behavior.confirm import split_halves
from mothtrap.behavior.reading import Floats, Loss, Reading
from mothtrap.behavior.table import Table
from mothtrap.core.audited import AuditedFile, Origin
from mothtrap.core.error_texts import in_one_line
from mothtrap.core.errors import NotApplicable
from mothtrap.core.wrapped_models import Network

Predict = Callable[[Any], Any]
Refit = Callable[[Any, Any], Predict]

MAX_ROWS = 20_000
"""Maximum number of evaluated rows; with more rows, a stratified sample is used. Measured: the
search for segments takes 9 s in 50,000 rows of 30 columns, and 56 s in 200,000 of 50."""
ASKED_ROWS = 2_000
"""Rows whose inputs are changed by probes of sensitivity; chosen by hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Information about the model that the user provides.

    Attributes:
        monotone: +1 or -1 by column: the output must not fall, or rise, with the column.
        expect_used: columns that the model should use.
        time_R: Time at which each row was observed, in any unit; None if rows have no order.
        refit: Refits the model on given rows and targets; None if that is not possible.
        loss: the user's own loss of each row; None for the usual loss.
        network: outputs and gradients of a network; None for other models.
        files: Files of the model and the data; empty if unknown.
        origin: The training run that logged the model file; None if unknown.
    """

    monotone: Mapping[str, int] = field(default_factory=dict)
    expect_used: Sequence[str] = ()
    time_R: npt.NDArray[Any] | None = None
    refit: Refit | None = None
    loss: Loss | None = None
    network: Network | None = None
    files: Sequence[AuditedFile] = ()
    origin: Origin | None = None


class Refused(NotApplicable):
    """The model raised an error instead of returning predictions."""


class Judged:
    """Rows with targets and the model's predictions.

    Args:
        table: the rows.
        target_R: numbers, or indices of classes.
        scores: Predictions, (R, K) or (R, 1).
        reading: Interpretation of the predictions.
        rows_R: Index of each row in the given data.
        loss: the user's own loss.
    """

    def __init__(
        self,
        table: Table,
        target_R: npt.NDArray[Any],
        scores: Floats,
        reading: Reading,
        rows_R: npt.NDArray[np.int64],
        loss: Loss | None = None,
    ) -> None:
        self.table, self.target_R, self.scores, self.reading = table, target_R, scores, reading
        self.rows_R, self.loss = rows_R, loss

    def __len__(self) -> int:
        return len(self.target_R)

    @functools.cached_property
    def loss_R(self) -> Floats:  # noqa: N802  # a shape suffix
        """The loss of each row."""
        if self.loss is not None:
            answer = self.scores[:, 0] if self.reading.is_regression else self.scores
            return np.asarray(self.loss(answer, self.target_R), np.float64)
        return self.reading.losses(self.scores, self.target_R)

    @functools.cached_property
    def wrong_R(self) -> Floats:  # noqa: N802  # a shape suffix
        """1 for rows that are classified wrongly."""
        return self.reading.wrong(self.scores, self.target_R)

    @functools.cached_property
    def residual_R(self) -> Floats:  # noqa: N802  # a shape suffix
        """Target minus prediction; for classes, 1 if correct, minus the probability."""
        if self.reading.is_regression:
            return np.asarray(self.target_R - self.scores[:, 0])
        if len(self.reading.classes) == 2:
            return np.asarray((self.target_R == 1) - self.scores[:, 1], np.float64)
        return np.asarray((1 - self.wrong_R) - self.scores.max(axis=1))

    @functools.cached_property
    def error_R(self) -> Floats:  # noqa: N802  # a shape suffix
        """Error of each row in the unit of messages: 0 or 1, absolute error, or the user's loss."""
        if self.loss is not None:
            return self.loss_R
        return np.abs(self.residual_R) if self.reading.is_regression else self.wrong_R

    @property
    def are_errors_counted(self) -> bool:
        """True if `error_R` is 1 for a wrong row and 0 for a right one."""
        return self.loss is None and not self.reading.is_regression


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRows:
    """Rows that the model predicted later, such as today's rows.

    Attributes:
        table: the rows.
        scores: Predictions, (R, K) or (R, 1).
        judged: The rows with their targets; None if no targets were given.
        rows_R: Index of each row in the given data.
    """

    table: Table
    scores: Floats
    judged: Judged | None
    rows_R: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.table)


class Subject:
    """A model, with all data and settings that probes need.

    Args:
        predict: the model.
        judged: held-out rows.
        budget: Budget of all probes.
        options: Options of the user.
        train: Rows on which the model was trained; None if not given.
        seed: Seed of every random choice.
        new: Rows to compare with the training rows; None if not given.

    Attributes:
        propose_R: Mask of the rows in which suspicions are searched.
        confirm_R: Mask of the other half, on which they are tested.
    """

    def __init__(
        self,
        predict: Predict,
        judged: Judged,
        budget: Budget,
        options: Options | None = None,
        train: Judged | None = None,
        seed: int = 0,
        new: NewRows | None = None,
    ) -> None:
        self.new = new
        self._predict, self.judged, self.budget = predict, judged, budget
        self.options, self.train, self.seed = options or Options(), train, seed
        self.reading, self.table = judged.reading, judged.table
        strata = None if self.reading.is_regression else judged.target_R.tolist()
        self.propose_R, self.confirm_R = split_halves(len(judged), self.rng("halves"), strata)
        self.shared: dict[str, Any] = {}

    def rng(self, name: str) -> np.random.Generator:
        """Return a random generator that depends only on the seed and a name."""
        return np.random.default_rng([self.seed, zlib.crc32(name.encode())])

    @property
    def model(self) -> Predict:
        """The user's model, without a budget."""
        return self._predict

    def ask(self, table: Table) -> Floats:
        """Return predictions as numbers, (R, K) or (R, 1); raises the same errors as `answer`."""
        return self.reading.scores(self.answer(table))

    def answer_to(self, rows: Any) -> Any:
        """Return predictions for rows in any container; raises the same errors as `answer`."""
        return self.answer(Table(rows))

    def answer(self, table: Table) -> Any:
        """Return the model's predictions for any rows, unchanged.

        Raises:
            BudgetSpent: no predictions are left.
            Refused: the model raised an error.
        """
        self.budget.spend(len(table))
        try:
            with np.errstate(all="ignore"):  # odd inputs are asked about on purpose
                return self._predict(table.for_model())
        except Exception as err:  # whatever the model raises
            rows = f"{len(table)} row{'s' * (len(table) != 1)}"
            raise Refused(f"the model failed on {rows}: {in_one_line(err)}") from err

    def output(self, scores: Floats) -> Floats:
        """Return one number for each row (R,): the prediction, or the probability of class 1.

        With several classes, it is the probability of the most frequent class.
        """
        if self.reading.is_regression:
            return scores[:, 0]
        if scores.shape[1] == 2:
            return scores[:, 1]
        return scores[:, np.bincount(self.judged.target_R.clip(0)).argmax()]

    @functools.cached_property
    def output_range(self) -> float:
        """Range of the outputs: 1 for probabilities, otherwise the range of the predictions."""
        if not self.reading.is_regression:
            return 1.0
        output_R = self.judged.scores[:, 0]
        spread = float(np.ptp(output_R[np.isfinite(output_R)])) if len(output_R) else 0.0
        return spread or 1.0

    @functools.cached_property
    def asked(self) -> npt.NDArray[np.int64]:
        """Indices of the rows whose inputs are changed; at most `ASKED_ROWS`, ascending."""
        count = len(self.judged)
        if count <= ASKED_ROWS:
            return np.arange(count)
        return np.sort(self.rng("asked").choice(count, ASKED_ROWS, replace=False))

    @property
    def usual(self) -> Judged:
        """Rows to compare new rows with: training rows if given, otherwise held-out rows."""
        return self.judged if self.train is None else self.train

    def require_columns(self) -> None:
        """Raise NotApplicable if the inputs are not a table."""
        if not self.table.columns:
            raise NotApplicable("the inputs have no columns")
