"""Result of a probe run, for use in Python and notebooks.

Shape suffixes: R = rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from mothtrap.behavior import counterfactuals, curves
from mothtrap.behavior.attribution import METHODS, Attribution, Method, attribute
from mothtrap.behavior.attribution_charts import attribution_chart
from mothtrap.behavior.augmentation import Augmentation, augmentations
from mothtrap.behavior.budget import Budget
from mothtrap.behavior.patching import Change, Patch, patched
from mothtrap.behavior.pictures import PICTURES, checked
from mothtrap.behavior.probing import Outcome
from mothtrap.behavior.pruning import PruningCurve, pruning_curve
from mothtrap.behavior.residual_charts import residual_chart
from mothtrap.behavior.subject import Subject
from mothtrap.behavior.table import Table
from mothtrap.behavior.transformations import Kind
from mothtrap.behavior.what_if import Answer, answer, table
from mothtrap.core.errors import ConfigError, UnknownNameError
from mothtrap.core.findings import Finding, Findings
from mothtrap.core.runs import RuleStatus
from mothtrap.reader.plots import Chart


class ProbeReport:
    """Findings of a probe run, with methods to query the same model further.

    Attributes:
        findings: Findings, most severe first.
        statuses: State of each probe, with the reason if it could not run.
        left_out: number of confirmed findings that are not in `findings`.
        path: folder of the run; None if nothing is stored.
    """

    def __init__(
        self, subject: Subject, everything: Table, outcome: Outcome, path: Path | None
    ) -> None:
        self._subject, self._everything, self._outcome = subject, everything, outcome
        subject.budget = Budget.unlimited()  # a notebook asks hours later
        self.findings = Findings(outcome.findings)
        self.statuses: tuple[RuleStatus, ...] = outcome.statuses
        self.left_out, self.path = outcome.left_out, path

    def rows(self, finding: Finding) -> npt.NDArray[np.int64]:
        """Return the indices of the rows that a finding describes, int64, shape (R,)."""
        return self._outcome.rows.get(finding.fingerprint, np.zeros(0, np.int64))

    def what_if(self, row: int, **changes: Any) -> Answer:
        """Return the model's output for one row, before and after a change of its values.

        Args:
            row: Index of the row in the given data.
            **changes: New value by column, or a relative change such as "+10%".

        Raises:
            UnknownNameError: there is no such row or column.
        """
        return answer(self._subject, self._row(row), changes)

    def what_if_table(self, row: int, *columns: str) -> list[Answer]:
        """Return the outputs for one row with numbers changed by 10, 20 and 50 % up and down.

        Args:
            row: index of the row in the given data.
            *columns: columns to change, one at a time; by default all numeric columns.

        Raises:
            UnknownNameError: there is no such row or column.
        """
        return table(self._subject, self._row(row), columns)

    def counterfactual(
        self, row: int, *, columns: tuple[str, ...] = (), target: Any = None
    ) -> counterfactuals.Counterfactual | None:
        """Return the smallest change of at most three columns that changes the model's output.

        Args:
            row: index of the row in the given data.
            columns: columns that may change; empty means all.
            target: class or number that the output should reach; by default any other class, or a
                change by one standard deviation of the predictions.

        Returns:
            The change; None if none was found.

        Raises:
            UnknownNameError: there is no such row.
        """
        return counterfactuals.search(self._subject, self._row(row), columns, target)

    def curve(self, kind: curves.Kind, column: str) -> curves.Curve:
        """Return the output as a function of one column.

        Args:
            kind: "ice" (one curve per row), "pdp" (the mean of these curves), or "ale" (accumulated
                local effects, which also work for correlated columns).
            column: name of a numeric column.

        Raises:
            ConfigError: the kind does not exist, or the column is not numeric.
            UnknownNameError: there is no such column.
        """
        return curves.curve(self._subject, kind, column)

    def pruning_curve(self) -> PruningCurve:
        """Return the score of a network while an increasing number of channels is held at its mean.

        Raises:
            NotApplicable: the model is not a network with hidden layers.
            NotEnoughData: there are too few rows.
        """
        return pruning_curve(self._subject)

    def patch(self, change: Change, where: Finding | None = None) -> Patch:
        """Test different predictions for some rows, and accept them only if they reduce the loss.

        The patch must lower the loss of the rows that it changes, and raise it in no segment. It is
        tested on half of the held-out rows.

        Args:
            change: function of rows and predictions that returns new predictions, such as those of
                a simpler model or a rule.
            where: a finding whose segment may change; None for all rows.

        Returns:
            The verdict, and the model with the patch as `predict`.

        Raises:
            ConfigError: the finding has no segment.
        """
        segment = None
        if where is not None:
            segment = self._outcome.segments.get(where.fingerprint)
            if segment is None:
                raise ConfigError(f"{where.code} has no segment; pass where=None")
        return patched(self._subject, change, segment)

    def augmentations(
        self, kind: Kind | None = None, *, trials: bool = True
    ) -> tuple[Augmentation, ...]:
        """Return transformations of training rows, tested on this model.

        Transformations are tested if a finding about noise, a weak segment, or memorized rows
        suggests them, or if `kind` is given; otherwise the result is empty. A transformation is
        safe if the model and the nearest neighbors keep 90 % of their correct answers. With
        training rows and `refit`, the model is trained with and without the transformed rows.

        Args:
            kind: "image", "table", "sound", or "text"; by default by the shape of the rows.
            trials: Retrain the model to measure the gain.

        Raises:
            NotApplicable: the model predicts numbers, or the rows have no known kind.
        """
        return augmentations(self._subject, self.findings, kind, trials)

    def attribution(self, method: Method, *rows: int) -> Attribution:
        """Return the share of each input value in the answers of a PyTorch or Keras network.

        Args:
            method: "saliency" (size of the gradient), "integrated_gradients" (their sum is the
                margin of the predicted class), or "grad_cam" (class activation maps).
            *rows: indices of the rows in the probed data.

        Raises:
            NotApplicable: the model is not a network, the method does not apply to it, or the maps
                of "grad_cam" do not depend on the weights.
            UnknownNameError: a row was not probed.
        """
        return attribute(self._subject, self._probed(rows), method)

    def figure(self, kind: str, column: str = "", *, rows: Sequence[int] = ()) -> Chart:
        """Return a chart of the model, or of its dependence on one column.

        Args:
            kind: "ice", "pdp", or "ale" for a column; "residuals" (also by column), "quantiles",
                "saliency", "integrated_gradients", "grad_cam", "latent", "latent_tsne", or
                "pruning".
            column: name of a column.
            rows: indices of the rows to show, for the pictures of single rows.

        Raises:
            ConfigError: the kind does not exist.
            NotApplicable: the model has no such picture.
        """
        if kind in ("ice", "pdp", "ale"):
            return curves.chart(self.curve(cast(curves.Kind, kind), column))
        checked([kind])
        if kind == "residuals":
            return residual_chart(self._subject, column)
        if kind in METHODS and rows:
            return attribution_chart(self._subject, kind, self._probed(rows))
        return PICTURES[kind](self._subject)

    def _probed(self, rows: Sequence[int]) -> npt.NDArray[np.int64]:
        """Return the positions of rows among the probed rows."""
        place = {int(row): at for at, row in enumerate(self._subject.judged.rows_R)}
        if unknown := [row for row in rows if row not in place]:
            raise UnknownNameError(f"row {unknown[0]} was not probed")
        return np.array([place[row] for row in rows], np.int64)

    def _row(self, row: int) -> Table:
        if not 0 <= row < len(self._everything):
            raise UnknownNameError(
                f"there is no row {row}; there are rows 0 to {len(self._everything) - 1}"
            )
        return self._everything.take(np.array([row]))

    def __repr__(self) -> str:
        where = f" in {self.path}" if self.path is not None else ""
        return f"<mothtrap.ProbeReport: {len(self.findings)} findings{where}>"

    def _repr_html_(self) -> str:
        return self.findings._repr_html_()
