"""Facts that an adapter sees once in a while; rules judge them, adapters do not.

Words are those of no framework: an adapter translates its operations into
`softmax`, `log_softmax`, `sigmoid`, `linear`, `view`, `cast`, `expand` ...
Every observation has the `step` (see `StepKey`) in which it was made.
"""

from __future__ import annotations

from mothtrap.core.capture_observations import CaptureChanged as CaptureChanged
from mothtrap.core.capture_observations import Captures
from mothtrap.core.capture_observations import Thinned as Thinned
from mothtrap.core.data_observations import (
    BatchesLoaded,
    IndicesShared,
    InputDistribution,
    LoaderBegan,
    NonfiniteInput,
    RowsShared,
    TargetOrder,
)
from mothtrap.core.evaluation_observations import Evaluation as Evaluation
from mothtrap.core.evaluation_observations import EvaluationPhase as EvaluationPhase
from mothtrap.core.evaluation_observations import NormBatches as NormBatches
from mothtrap.core.evaluation_observations import TrainingMode as TrainingMode
from mothtrap.core.failure_observations import ScriptFailed as ScriptFailed
from mothtrap.core.guard_observations import StepGuarded as StepGuarded
from mothtrap.core.layer_observations import AttentionLook as AttentionLook
from mothtrap.core.layer_observations import DataTaken as DataTaken
from mothtrap.core.layer_observations import ForwardScales as ForwardScales
from mothtrap.core.layer_observations import IdenticalUnits as IdenticalUnits
from mothtrap.core.layer_observations import InitialWeights as InitialWeights
from mothtrap.core.layer_observations import LayerScale as LayerScale
from mothtrap.core.layer_observations import OutputSpread as OutputSpread
from mothtrap.core.layer_observations import RouterLoad as RouterLoad
from mothtrap.core.layer_observations import UnitInputs as UnitInputs
from mothtrap.core.loss_observations import FailedLoss as FailedLoss
from mothtrap.core.loss_observations import TargetSample as TargetSample
from mothtrap.core.loss_observations import TokenShares as TokenShares
from mothtrap.core.memory_observations import LossesKept as LossesKept
from mothtrap.core.observation import Observation as Observation
from mothtrap.core.reach_observations import ClippedLate as ClippedLate
from mothtrap.core.reach_observations import FrozenParameters as FrozenParameters
from mothtrap.core.reach_observations import GradientsCleared as GradientsCleared
from mothtrap.core.reach_observations import HalfPrecision as HalfPrecision
from mothtrap.core.reach_observations import HiddenParameters as HiddenParameters
from mothtrap.core.reach_observations import IdleOptimizer as IdleOptimizer
from mothtrap.core.reach_observations import UnreachedModule as UnreachedModule
from mothtrap.core.sample_observations import DataSeen as DataSeen
from mothtrap.core.sample_observations import SamplesNamed as SamplesNamed
from mothtrap.core.sample_observations import SamplesTaken as SamplesTaken
from mothtrap.core.snapshot_observations import SnapshotKept as SnapshotKept
from mothtrap.core.worker_observations import ReplicaBatch as ReplicaBatch
from mothtrap.core.worker_observations import WorkerPace as WorkerPace


class LossSeries(Observation, frozen=True, kw_only=True, tag=True):
    """A loss series began: one backward call site with the optimizers stepped next.

    `series` is the label that the `loss` scalars of the series bear in `of`.
    `location` is the line of the loss call where known, else of the backward call.
    """

    series: str
    location: str | None = None
    optimizers: tuple[str, ...] = ()


class LossCall(Observation, frozen=True, kw_only=True, tag=True):
    """How one loss value was computed, from the graph or from a loss call.

    `operation`: `cross_entropy`, `nll`, `binary_cross_entropy`,
    `binary_cross_entropy_with_logits`, `elementwise` (squared, absolute, huber ...).
    `chain`: the operations between the loss and the model, nearest first, ending
    where views and casts end, e.g. `("softmax", "linear")`; `()` when not seen.
    Shapes are of the prediction, the target and the unreduced result; None = unknown.
    `classes` is the size of the class axis of a class loss. `reduction`: `mean`, `sum`,
    `none`. `above`: operations from the root of the backward down to the loss, the root's
    first, without a gradient scaler's; None = not read.
    `softmax_sizes`: sizes of the axes of the (log-)softmaxes under the loss, its own and
    others directly under it, nearest first. `alone`: nothing else that is trained was found
    to take part in the loss; None when not seen.
    Fields below `location` need values and are sampled; None = not looked at.
    `rows_are_probabilities`: rows of the prediction sum to 1, lie in [0, 1] and differ.
    `label_counts`: hard targets per class in this call, ascending class.
    `prediction_spread`: standard deviation over rows of the class probabilities (for
    binary losses of the probability), averaged over classes: 0 = the same for all rows.
    `model_inputs`: types of the tensors that the model was called with.
    `looks_ahead`: what lets a position of a sequence see later ones, `attention` or
    `recurrent`; `causal` where none does; `""` where that cannot be said.
    """

    operation: str
    series: str | None = None
    chain: tuple[str, ...] = ()
    prediction_shape: tuple[int, ...] | None = None
    target_shape: tuple[int, ...] | None = None
    result_shape: tuple[int, ...] | None = None
    classes: int | None = None
    location: str | None = None
    rows_are_probabilities: bool | None = None
    label_counts: tuple[int, ...] | None = None
    prediction_spread: float | None = None
    reduction: str | None = None
    above: tuple[str, ...] | None = None
    softmax_sizes: tuple[int, ...] = ()
    model_inputs: tuple[str, ...] = ()
    targets: TargetSample | None = None
    looks_ahead: str | None = None
    alone: bool | None = None


class NonfiniteModule(Observation, frozen=True, kw_only=True, tag=True):
    """In a step whose loss or applied gradient was not finite, the first module in
    execution order whose output was not finite while its inputs were.

    `nan` and `inf` count elements of the output. `inputs_known` is False when an
    earlier output was gone by the time of looking, so an earlier module may be the origin.
    `given`: it is of a kind that makes no NaN of its own, so what it was given held it:
    computed by an operation between modules.
    """

    module: str
    module_type: str
    nan: int
    inf: int
    inputs_known: bool = True
    parameters_finite: bool = True
    given: bool = False
    location: str | None = None


class FiniteOutputs(Observation, frozen=True, kw_only=True, tag=True):
    """In a step whose loss or applied gradient was not finite: the outputs of all modules,
    so far as they were watched, were finite. `modules` are so many.
    """

    modules: int


class UnownedParameter(Observation, frozen=True, kw_only=True, tag=True):
    """A parameter of a trained root that no live optimizer holds, counted so far.

    `reached_steps`: own steps of its root in which it got a non-zero gradient.
    `changed`: its value was changed by anybody since first seen.
    `created_after_optimizer`: it did not exist when the root's optimizer was made.
    `twin`: name or index of a parameter of same shape that an optimizer holds and
    that belongs to no live module ("orphan"), else None.
    `downstream_of_trained`: it lies between trained parameters and the loss.
    `model_untouched`: no optimizer holds anything of its model, which looks as the
    framework initialises it.
    """

    name: str
    module: str
    shape: tuple[int, ...]
    reached_steps: int
    changed: bool
    created_after_optimizer: bool = False
    twin: str | None = None
    downstream_of_trained: bool = False
    model_untouched: bool = False
    location: str | None = None


class OptimizerFacts(Observation, frozen=True, kw_only=True, tag=True):
    """What an optimizer is: told at its first step, and when anything but its rate changed.

    Numbers are the largest over its groups. `decoupled`: decay acts on the weights beside
    the gradient and not through it. `second_moments`: it divides by the root of averaged
    squares, kept in elements of type `state_dtype` ('' = it keeps none). `compensated`: it
    keeps what rounding took from an update, or weights of a wider type. `fused`: it
    computes in a wider type than it stores. `maximizes`: it climbs. `elements` counts its
    parameters' elements, `weight_dtypes` their types. `location` is the line that made it.
    """

    optimizer: str
    kind: str
    learning_rate: float | None = None
    weight_decay: float = 0.0
    decoupled: bool = False
    momentum: float = 0.0
    epsilon: float | None = None
    second_moments: bool = False
    state_dtype: str = ""
    compensated: bool = False
    fused: bool = False
    maximizes: bool = False
    elements: int = 0
    weight_dtypes: tuple[str, ...] = ()
    location: str | None = None


class RoundedUpdates(Observation, frozen=True, kw_only=True, tag=True):
    """How many elements of 16-bit weights are what they were, after a stretch of steps.

    The stretch began with the step `since` and ended with `step`. Of the elements looked
    at, `elements` got a gradient that is not 0 in it, `unchanged` of these have the value
    that they had before. `learning_rate` is the smallest of the stretch. `layers` are the
    parameters with the largest share of such elements.
    """

    since: int
    optimizer: str
    dtypes: tuple[str, ...]
    elements: int
    unchanged: int
    learning_rate: float
    layers: tuple[str, ...] = ()


class ReplicaDigests(Observation, frozen=True, kw_only=True, tag=True):
    """Digests of the parameters that must be the same on every worker, after a step.

    `digests` goes by module path (with the words of its scope where it holds a shard);
    equal digests mean equal bits.
    """

    digests: dict[str, str]


class WrapperBypassed(Observation, frozen=True, kw_only=True, tag=True):
    """A model trained without the wrapper that averages its gradients over workers.

    `called` is the module whose forward ran instead of the wrapper's; empty when the
    wrapper's own forwards all ran with the averaging switched off. `steps` counts such
    steps so far, this one included.
    """

    wrapper: str
    called: str
    steps: int
    world_size: int
    location: str | None = None


class WeightsSaved(Observation, frozen=True, kw_only=True, tag=True):
    """The state of a model was asked for, as for a checkpoint.

    `step` counts the steps that the weights have taken, `digest` is that of the weights;
    `evaluations` are the forwards of evaluations so far.
    """

    root: str
    digest: str
    evaluations: int = 0


class Resumed(Observation, frozen=True, kw_only=True, tag=True):
    """A restarted job goes on at `step`; `evidence` says how that is known.

    `evaluations` are the forwards of evaluations that came before that step.
    """

    evidence: str
    evaluations: int = 0


class ShapeChanged(Observation, frozen=True, kw_only=True, tag=True):
    """A tensor (`kind:name`) whose shape is followed has another one than before, or is new."""

    tensor: str
    shape: tuple[int, ...]


class Blind(Observation, frozen=True, kw_only=True, tag=True):
    """Something that was not observed, and why."""

    what: str
    reason: str


class ToolError(Observation, frozen=True, kw_only=True, tag=True):
    """A part of mothtrap failed and was switched off; training went on."""

    part: str
    error: str
    traceback: str = ""


class Dropped(Observation, frozen=True, kw_only=True, tag=True):
    """Captured data that was given up: a queue was full, or the run at its size limit."""

    what: str
    count: int
    reason: str


class WorkerStarted(Observation, frozen=True, kw_only=True, tag=True):
    """A process became a worker at its first optimizer step.

    `pid_ticks` tells the process from a later one with its pid; see `core.runs`.
    """

    rank: int
    world_size: int
    pid: int
    pid_ticks: int = 0
    host: str
    framework: str
    versions: dict[str, str]


class WorkerEnded(Observation, frozen=True, kw_only=True, tag=True):
    """A worker closed its run; `exception` is the uncaught one that ended the script, and
    `location` the line of the user's own code where it arose.

    `own_s` is mothtrap's time on the training thread, `capture_s` the part of it that
    went into statistics (the rest is the fixed cost of hooks), `wall_s` the time from the first
    step to the end.
    """

    steps: int
    own_s: float
    capture_s: float = 0.0
    wall_s: float
    exception: str | None = None
    location: str | None = None


class WorkerLost(Observation, frozen=True, kw_only=True, tag=True):
    """The process of a worker was gone before it had closed: killed, crashed, or left by
    `os._exit`. Said by the process that writes for it; all that it handed over is stored.
    """

    pid: int


AnyObservation = (
    LossSeries
    | LossCall
    | FailedLoss
    | ScriptFailed
    | TokenShares
    | NonfiniteModule
    | FiniteOutputs
    | LossesKept
    | WorkerPace
    | UnownedParameter
    | UnreachedModule
    | IdleOptimizer
    | GradientsCleared
    | ClippedLate
    | HiddenParameters
    | FrozenParameters
    | HalfPrecision
    | OptimizerFacts
    | RoundedUpdates
    | Evaluation
    | EvaluationPhase
    | NormBatches
    | TrainingMode
    | AttentionLook
    | DataTaken
    | ForwardScales
    | IdenticalUnits
    | InitialWeights
    | OutputSpread
    | RouterLoad
    | UnitInputs
    | StepGuarded
    | ReplicaBatch
    | ReplicaDigests
    | WrapperBypassed
    | WeightsSaved
    | Resumed
    | ShapeChanged
    | SnapshotKept
    | Blind
    | ToolError
    | Dropped
    | Captures
    | BatchesLoaded
    | IndicesShared
    | InputDistribution
    | LoaderBegan
    | NonfiniteInput
    | RowsShared
    | TargetOrder
    | DataSeen
    | SamplesNamed
    | SamplesTaken
    | WorkerStarted
    | WorkerEnded
    | WorkerLost
)
