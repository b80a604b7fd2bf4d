"""Facts about estimators that are fitted: what they were given, and what came of it."""

from __future__ import annotations

from mothtrap.core.fact import Fact


class EstimatorFitted(Fact, frozen=True, kw_only=True, tag=True):
    """A fit of an estimator has ended, or so many partial fits.

    `fit` is its label, unique in the run; `estimator` the class, `call` the method. `iterations`
    are passes over the rows, of `max_iterations`; `exhausted`: the last of them was made before
    the library found that it had converged. `label_counts` has the rows of each class,
    `predicted_counts` what is predicted for `judged` of the rows; both are empty of numbers, of
    which `label_std` and `predicted_std` are the standard deviations. `loss_curve` has the
    training loss of each pass, at most the last 50.
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
