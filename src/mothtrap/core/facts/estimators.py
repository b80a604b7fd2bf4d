"""Facts about fitted estimators: their inputs and results."""

from __future__ import annotations

from mothtrap.core.fact import Fact


class EstimatorFitted(Fact, frozen=True, kw_only=True, tag=True):
    """A fit of an estimator, or a number of partial fits, has ended.

    `fit` is its label, unique in the run; `estimator` is the class, and `call` the method.
    `iterations` is the number of passes over the rows, out of `max_iterations`; `exhausted`: all of
    them were used before the library found that the fit had converged. `label_counts` contains the
    number of rows of each class, and `predicted_counts` the number of predictions of each class
    among `judged` rows. For numbers both are empty, and `label_std` and `predicted_std` are the
    standard deviations. `loss_curve` contains the training loss of at most the last 50 passes.
    """

    fit: str
    estimator: str
    call: str
    rows: int
    columns: int
    iterations: int = 0
    max_iterations: int = 0
    exhausted: bool = False
    judged: int = 0
    label_counts: tuple[int, ...] = ()
    predicted_counts: tuple[int, ...] = ()
    label_std: float | None = None
    predicted_std: float | None = None
    loss_curve: tuple[float, ...] = ()
    location: str | None = None
