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
    `task` is `classes`, `regression`, or "" if unknown. `parameters` contains its numeric
    parameters, by name.
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
    task: str = ""
    parameters: dict[str, float] = {}
    location: str | None = None


class PredictionsCompared(Fact, frozen=True, kw_only=True, tag=True):
    """A script compared the predictions of a fitted estimator with labels.

    `fit` is the label of the fit, and `site` the line that predicts. `trained`: the rows are the
    training rows themselves. For classes, `label_counts` and `predicted_counts` contain the number
    of rows of each class, `right` the correct ones among them, and `relation` is Cohen's kappa.
    For numbers, `label_std` and `predicted_std` are standard deviations, and `relation` is the
    correlation. `chance` is the relation that unrelated predictions exceed once in 1,000 times.
    """

    fit: str
    estimator: str
    site: str
    rows: int
    trained: bool = False
    relation: float | None = None
    chance: float = 0.0
    label_counts: tuple[int, ...] = ()
    predicted_counts: tuple[int, ...] = ()
    right: tuple[int, ...] = ()
    label_std: float | None = None
    predicted_std: float | None = None
    location: str | None = None


class TransformRefitted(Fact, frozen=True, kw_only=True, tag=True):
    """A preprocessing step was fitted once to the training rows, and again to evaluation rows.

    `transform` is its class. `location` is the line of the second fit, and `fit_location` the line
    of the first. `only`: it was fitted to the evaluation rows alone, at `location`. `whole`: it was
    fitted once, at `location`, to all rows before they were split; `supervised`: with their labels.
    """

    transform: str
    train_rows: int
    eval_rows: int
    fit_location: str | None = None
    location: str | None = None
    only: bool = False
    whole: bool = False
    supervised: bool = False
