"""Facts about evaluations, and about the mode in which modules are trained."""

from __future__ import annotations

import msgspec

from mothtrap.core.fact import Fact
from mothtrap.core.facts.losses import TargetSample


class Evaluation(Fact, frozen=True, kw_only=True, tag=True):
    """The losses that one call site computed in one evaluation.

    An evaluation is work of a model in training that runs without a graph between two optimizer
    steps. `site` is a label of the call site: the line of the loss, and the line that called the
    enclosing function. `value` is the mean over the rows of all `calls`, per row even if the loss
    was summed. `number` counts evaluations of the site from 0; `first` and `best` refer to all
    evaluations so far, and the best evaluation was at `best_step`. `guess` is the loss of the best
    constant prediction; None = unknown. `label_counts`: hard targets of each class 0, 1 ..., None =
    unknown or no classes. `target_mean` and `target_std` describe the targets of a squared error;
    None for other losses. `train_losses`: mean of each loss series (by label) over the steps since
    the site's previous evaluation; empty before the first step.
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
    target_mean: float | None = None
    target_std: float | None = None
    train_losses: dict[str, float] = {}


class EvaluationMetrics(Fact, frozen=True, kw_only=True, tag=True):
    """Metrics that a framework computes on one dataset, from `step` on.

    `site` is the name of the data. `loss` is the metric that is comparable with the training
    losses; None if there is none. The values are numbers of evaluations, by metric and site. Every
    metric is in `higher_is_better` or `lower_is_better`.
    """

    site: str
    loss: str | None = None
    higher_is_better: tuple[str, ...] = ()
    lower_is_better: tuple[str, ...] = ()


class EvaluationPhase(Fact, frozen=True, kw_only=True, tag=True):
    """Mode of a module of a trained model in one evaluation.

    `forwards` is the number of forward passes. `trains`: it was in training mode in all of them.
    `dropouts` and `norms` are paths of its dropouts and batch norms that behaved as in training,
    and `updating` those of other parts that then update buffers. `dropping` are paths of modules
    that drop values in evaluation mode, too, because they call a dropout function without
    `training` or, if `created`, a dropout module that `forward` creates. At most 8 of each.
    `labelled`: losses were computed from targets after its first
    forward pass. `repeated`: the same input was passed twice in a row. `number` counts the
    evaluations of the module from 0, and `steps` the training steps since the previous evaluation.
    `output_shape` is the shape of its only output; None if it has several. `old_weights`: it gets
    the newest weights, but its results depend only on arrays of the same shapes that it read when
    it was compiled.
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
    updating: tuple[str, ...] = ()
    dropping: tuple[str, ...] = ()
    created: bool = False
    output_shape: tuple[int, ...] | None = None
    old_weights: bool = False
    location: str | None = None


class LabelledOutputs(Fact, frozen=True, kw_only=True, tag=True):
    """Class scores of an evaluation without a loss, compared with labels that the script holds.

    `variable` is the variable of the script that holds one integer per row of the scores. If there
    are several, it is the one that the scores predict best. `targets` has the labels (`confusion`).
    `site` names the line that calls the model, and the lines that called its function; `location`
    is the line.
    """

    site: str
    variable: str
    targets: TargetSample
    location: str | None = None


class EvaluatedCopy(Fact, frozen=True, kw_only=True, tag=True):
    """A copy of a trained model ran without a graph after `step` steps.

    `digest` is the digest of its weights. In `same` of the earlier inspections, a model under
    training got equal data in the same step. In `apart` of them, it got only other data of the
    same shape. `initial_norms` is the number of its batch norms if the running averages of all of
    them have their initial values, otherwise 0. `location` is the line of the call.
    """

    module: str
    digest: str
    same: int = 0
    apart: int = 0
    initial_norms: int = 0
    location: str | None = None


class CopyLag(Fact, frozen=True, kw_only=True, tag=True):
    """Distance by which a copy of a trained model has followed it by the end of the job.

    The copy ran without a graph first `steps` steps before `step`. Since then, some of its weights
    moved `moved` times as far as those of the trained model are now away from where the copy was.
    `looks` is the number of inspections, and `ran` the number of steps in which the copy ran; None
    in older runs. `location` is the line of the call.
    """

    module: str
    moved: float
    steps: int
    looks: int
    ran: int | None = None
    location: str | None = None


class LossRowsShared(Fact, frozen=True, kw_only=True, tag=True):
    """An evaluation uses rows of a model's output that training losses use, too.

    The model gets the same data in every call. Training losses have used `train_rows` rows of its
    output, and an evaluation loss `eval_rows`, of which `shared` are among the former. `location`
    is the line of the evaluation loss. If `mask` is not empty, it is a variable of the script that
    selects the evaluation rows, and `location` is the line of the training loss.
    """

    train_rows: int
    eval_rows: int
    shared: int
    mask: str = ""
    location: str | None = None


class BootstrappedTargets(Fact, frozen=True, kw_only=True, tag=True):
    """Targets are computed from a model that runs without a backward pass in step after step.

    Targets are computed from its output, so they move with the model. `module` is the model, which
    ran in this way in `steps` of the latest steps, at most 20. Reported once.
    """

    module: str
    steps: int
    location: str | None = None


class EqualStates(Fact, frozen=True, kw_only=True, tag=True):
    """Predictions and bootstrapped targets were computed from equal data in two tensors.

    This was the case in each of the first `steps` steps that had both. `location` is the line that
    created the model. Reported once.
    """

    steps: int
    location: str | None = None


class EqualViews(Fact, frozen=True, kw_only=True, tag=True):
    """A model received equal data twice before a backward pass, in two tensors or two halves.

    This was the case in each of the first `steps` steps in which it was called twice, with
    different data in each step. `dropout`: it contains dropout, so two outputs of equal data
    differ. `location` is the line that created the model. If `loss` is set, the data are the
    embeddings that this function compares, and `location` is its call. Reported once.
    """

    steps: int
    dropout: bool = False
    loss: str = ""
    location: str | None = None


class TrainingMode(Fact, frozen=True, kw_only=True, tag=True):
    """The mode in which a module runs in training steps, from `step` on.

    Reported at the first step and after each lasting change. `trains`: it is in training mode.
    `dropouts` and `norms` are paths of its dropouts (probability above 0) and batch norms (with
    their own statistics); `sleeping` lists the dropouts and batch norms that behave as in
    evaluation, at most 8 of each. `rates` contains the drop rate of each of `dropouts` whose rate
    is known; empty in older runs. `location` is the line that created the module. If the module is
    not in training mode, it is the only line that calls `eval()`, or the line that calls the module
    without the flag.
    """

    module: str
    module_type: str
    trains: bool
    dropouts: tuple[str, ...] = ()
    rates: tuple[DropoutRate, ...] = ()
    norms: tuple[str, ...] = ()
    sleeping: tuple[str, ...] = ()
    location: str | None = None


class TeacherMode(Fact, frozen=True, kw_only=True, tag=True):
    """A model that is not trained ran in training mode on the data of a trained model.

    It did so in each of the first `steps` inspected steps. `dropouts` and `norms` are the paths of
    its parts that behaved as in training, at most 8 of each. `location` is the line that created
    the model. Reported once.
    """

    module: str
    module_type: str
    steps: int
    dropouts: tuple[str, ...] = ()
    norms: tuple[str, ...] = ()
    location: str | None = None


class DropoutRate(msgspec.Struct, frozen=True, kw_only=True):
    """The share of values that a dropout drops; `location` is the line that created the dropout."""

    name: str
    rate: float
    location: str | None = None


class NormBatches(Fact, frozen=True, kw_only=True, tag=True):
    """Numbers of samples that the batch norms of a model received in sampled training forwards.

    `forwards` is the number of inspected forward passes, spread evenly over the run; in `single` of
    them a batch norm had one sample, in `few` fewer than four. `samples` is the most frequent
    number, `module` the batch norm with the fewest samples.
    """

    module: str
    forwards: int
    single: int
    few: int
    samples: int
    location: str | None = None


class EvaluationNorms(Fact, frozen=True, kw_only=True, tag=True):
    """Batch norms that evaluate with statistics mostly from the latest training batch.

    `module` is the path of the batch norm with the highest `momentum` (in the sense of PyTorch:
    the weight of the latest batch). That batch had `last_rows` rows; most had `rows`.
    """

    module: str
    momentum: float
    last_rows: int
    rows: int
    location: str | None = None


class NormAverages(Fact, frozen=True, kw_only=True, tag=True):
    """The slowest trained batch norm whose running averages started at their initial values.

    Evaluations use running averages. The averages of `module` have included `updates` batches up to
    `step`, each with the weight `momentum` (as in PyTorch: the weight of the new batch), and
    include about `per_step` more in each later step.
    """

    module: str
    momentum: float
    updates: int
    per_step: float = 1.0
    location: str | None = None
