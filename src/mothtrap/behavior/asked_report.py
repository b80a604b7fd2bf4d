"""Result of a probe run, for use in Python and notebooks.

Shape suffixes: R = rows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mothtrap.behavior import counterfactuals, curves
from mothtrap.behavior.probing import Outcome
from mothtrap.behavior.pruning import PruningCurve, pruning_curve
from mothtrap.behavior.subject import Subject
from mothtrap.behavior.table import Table
from mothtrap.behavior.what_if import Answer, answer, table
from mothtrap.core.errors import UnknownNameError
from mothtrap.core.findings import Finding, Findings
from mothtrap.core.runs import RuleStatus
from mothtrap.reader.plots import Chart


class ProbeReport:
    """Findings of a probe run, with methods for further questions to the same model.

    Attributes:
        findings: findings, the most severe first.
        statuses: state of each probe, with the reason if it could not run.
        left_out: number of confirmed findings that are not in `findings`.
        path: folder of the run; None if nothing is stored.
    """

    def __init__(
        self, subject: Subject, everything: Table, outcome: Outcome, path: Path | None
    ) -> None:
        self._subject, self._everything, self._outcome = subject, everything, outcome
        self.findings = Findings(outcome.findings)
        self.statuses: tuple[RuleStatus, ...] = outcome.statuses
        self.left_out, self.path = outcome.left_out, path

    def rows(self, finding: Finding) -> npt.NDArray[np.int64]:
        """Return the indices of the rows that a finding is about, int64, shape (R,)."""
        return self._outcome.rows.get(finding.fingerprint, np.zeros(0, np.int64))

    def what_if(self, row: int, **changes: Any) -> Answer:
        """Return the model's output for one row, before and after a change of its values.

        Args:
            row: index of the row in the given data.
            **changes: new value by column, or a relative change such as "+10%".

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
        """Return the score of a PyTorch module with more and more channels held at their mean.

        Raises:
            NotApplicable: the model is not a PyTorch module with hidden layers.
            NotEnoughData: there are too few rows.
        """
        return pruning_curve(self._subject)

    def figure(self, kind: curves.Kind | Literal["pruning"], column: str = "") -> Chart:
        """Return the result of `curve`, or of `pruning_curve`, as a chart.

        Args:
            kind: "ice", "pdp", "ale", or "pruning".
            column: name of a numeric column; not for "pruning".
        """
        if kind == "pruning":
            return self.pruning_curve().chart()
        return curves.chart(self.curve(kind, column))

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
