"""Facts about evaluations, and about the mode in which modules are trained."""

from __future__ import annotations

import msgspec

from mothtrap.core.fact import Fact


class Evaluation(Fact, frozen=True, kw_only=True, tag=True):
    """The losses that one call site computed in one evaluation.

    An evaluation is what a model under training runs without a graph between two optimizer
    steps. `site` is a label of the call site: the line of the loss, and the line that called
    the function it is in. `value` is the mean over the rows of all its `calls`, of an average
    row also where the loss was summed. `number` counts evaluations of the site from 0;
    `first` and `best` are over all of them so far, the best of the step `best_step`.
    `guess` is the loss of the best guess that is the same for every row, None = unknown.
    `label_counts`: hard targets of each class 0, 1 ..., None = unknown or no classes.
    `train_losses`: mean of each loss series (by label) over the steps since the site's
    evaluation before; empty before the first step.
    """

    site: str
    operation: str
    value: float
    calls: int
    rows: int
    number: int
    first: float
    best: float
    best_step: int
    location: str | None = None
    guess: float | None = None
    label_counts: tuple[int, ...] | None = None
    train_losses: dict[str, float] = {}


class EvaluationMetrics(Fact, frozen=True, kw_only=True, tag=True):
    """The metrics that a framework computes on one set of data, from `step` on.

    `site` is the name of the data. `loss` is the metric that is comparable with the losses of
    training, None where there is none. The values are numbers of evaluations, by metric and
    site. Every metric is in one of `higher_is_better` and `lower_is_better`.
    """

    site: str
    loss: str | None = None
    higher_is_better: tuple[str, ...] = ()
    lower_is_better: tuple[str, ...] = ()


class EvaluationPhase(Fact, frozen=True, kw_only=True, tag=True):
    """Mode of a module of a trained model in one evaluation.

    `forwards`: how often. `trains`: it was set to training. `dropouts` and `norms` are
    paths of the dropouts and batch norms in it that behaved as in training, at most 8 of each.
    `labelled`: losses computed from targets after its first forward. `repeated`: the same
    input was given twice running. `number` counts the evaluations of the module from 0 and
    `steps` those of training since the one before. `output_shape` is that of its one
    output, None where it has several.
    """

    module: str
    module_type: str
    forwards: int
    trains: bool
    number: int
    steps: int
    labelled: int = 0
    repeated: bool = False
    dropouts: tuple[str, ...] = ()
    norms: tuple[str, ...] = ()
    output_shape: tuple[int, ...] | None = None
    location: str | None = None


class BootstrappedTargets(Fact, frozen=True, kw_only=True, tag=True):
    """A model under training runs without a graph step after step, or a copy that none trains.

    Targets are made of its output: they move with the model. `module` is the
    model, which ran so in `steps` of the latest steps, at most 20. Observed once.
    """

    module: str
    steps: int
    location: str | None = None


class EqualStates(Fact, frozen=True, kw_only=True, tag=True):
    """Predictions and bootstrapped targets were computed from equal data in two tensors.

    That was so in each of the first `steps` steps that had both. `location` is where the model was
    made. Observed once.
    """

    steps: int
    location: str | None = None


class EqualViews(Fact, frozen=True, kw_only=True, tag=True):
    """One model was given equal data twice before a backward, in two tensors or in two halves.

    That was so in each of the first `steps` steps in which it was called twice, with other data in
    each step. `dropout`: it contains one, which makes two outputs of equal data differ. `location`
    is where the model was made. Observed once.
    """

    steps: int
    dropout: bool = False
    location: str | None = None


class TrainingMode(Fact, frozen=True, kw_only=True, tag=True):
    """The mode in which a module runs in training steps, from `step` on.

    It is told at the first step and after each change that lasts.
    `trains`: it is set to training. `dropouts` and `norms` are paths of its dropouts
    (probability above 0) and batch norms (with statistics of their own), `sleeping` those of
    them that behave as in evaluation, at most 8 of each. `rates` has what each of `dropouts`
    drops; empty in older runs. `location` is the line that made the module, or, where it is not
    set to training, the only one that calls `eval()` or the one that calls it without the flag.
    """

    module: str
    module_type: str
    trains: bool
    dropouts: tuple[str, ...] = ()
    rates: tuple[DropoutRate, ...] = ()
    norms: tuple[str, ...] = ()
    sleeping: tuple[str, ...] = ()
    location: str | None = None


class DropoutRate(msgspec.Struct, frozen=True, kw_only=True):
    """The share of its values that a dropout drops; `location` is the line that made it."""

    name: str
    rate: float
    location: str | None = None


class NormBatches(Fact, frozen=True, kw_only=True, tag=True):
    """Numbers of samples that the batch norms of a model got in sampled training forwards.

    `forwards` were looked at so far, evenly over those of the run; in `single` of them a
    batch norm had one sample, in `few` fewer than four. `samples` is the most frequent
    number, `module` the batch norm that had the fewest.
    """

    module: str
    forwards: int
    single: int
    few: int
    samples: int
    location: str | None = None


class EvaluationNorms(Fact, frozen=True, kw_only=True, tag=True):
    """Batch norms that are evaluated with statistics of mostly the latest training batch.

    `module` is the path of the batch norm with the highest `momentum` (in the sense of PyTorch:
    the weight of the latest batch). That batch had `last_rows` rows; most had `rows`.
    """

    module: str
    momentum: float
    last_rows: int
    rows: int
    location: str | None = None


class NormAverages(Fact, frozen=True, kw_only=True, tag=True):
    """The slowest batch norm of those that a model trains, and whose averages were new.

    Evaluations go by running averages. Those of `module` have taken `updates` batches up to
    `step`, each of which has the weight `momentum` (in the sense of PyTorch: that of the new
    one), and take about `per_step` of them in each step from then on.
    """

    module: str
    momentum: float
    updates: int
    per_step: float = 1.0
    location: str | None = None
